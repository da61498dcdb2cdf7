"""Take 64 MiB of every card that is to be seen, write to it, read it back and give it back.

    python3 -c SOURCE [SECONDS]

CUDA's driver interface alone (libcuda.so.1, which comes with the driver): an image needs no CUDA of its own. Each card
is touched by a process of its own, since a wedged driver lets a process hang in the kernel where no signal reaches it.
Prints one line of JSON a card: `{"card": 0, "uuid": "GPU-…", "ms": 12}`, or with `"failed"` and the step of it; and
`{"failed": …}` without a card where none could be asked.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

SIZE = 64 << 20
PATTERN = 0xA5
SAMPLE = 4096
SECONDS = 30.0


class Failed(Exception):
    """A call of the driver that did not do what it should; the text is the step and what the driver said."""


class Driver:
    """libcuda.so.1, each call either good or `Failed`."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Failed("libcuda.so.1 cannot be loaded: %s" % error) from error  # noqa: UP031
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise Failed("%s: %s" % (name, self.word(code)))  # noqa: UP031

    def word(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self._library.cuGetErrorName(code, ctypes.byref(text)) or text.value is None:
            return "CUDA error %d" % code  # noqa: UP031
        return text.value.decode()

    def count(self) -> int:
        found = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    def uuid(self, device: ctypes.c_int) -> str:
        raw = (ctypes.c_ubyte * 16)()
        self.call("cuDeviceGetUuid", ctypes.byref(raw), device)
        text = bytes(raw).hex()
        return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def touch(self, device: ctypes.c_int) -> None:
        context, memory = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))
        self.call("cuMemsetD8_v2", memory, ctypes.c_ubyte(PATTERN), ctypes.c_size_t(SIZE))
        self.call("cuCtxSynchronize")
        read = (ctypes.c_ubyte * SAMPLE)()
        last = ctypes.c_uint64(memory.value + SIZE - SAMPLE)
        self.call("cuMemcpyDtoH_v2", ctypes.byref(read), last, ctypes.c_size_t(SAMPLE))
        if bytes(read) != bytes([PATTERN]) * SAMPLE:
            raise Failed("cuMemcpyDtoH: the memory does not hold what was written")
        self.call("cuMemFree_v2", memory)


def main() -> None:
    words = sys.argv[1:]
    if len(words) == 2:
        one(words[0])
        return
    seconds = float(words[0]) if words else SECONDS
    counted = child("count", seconds)
    if "count" not in counted:
        tell(counted)
    else:
        cards = [threading.Thread(target=lambda at=str(at): tell(child(at, seconds))) for at in range(counted["count"])]
        for card in cards:
            card.start()
        for card in cards:
            card.join()
    sys.stdout.flush()
    os._exit(0)


def one(what: str) -> None:
    """In a process of its own: count the cards, or touch one."""
    document: dict = {} if what == "count" else {"card": int(what)}  # type: ignore[type-arg]
    try:
        driver = Driver()
        if what == "count":
            document["count"] = driver.count()
        else:
            device = ctypes.c_int()
            driver.call("cuDeviceGet", ctypes.byref(device), int(what))
            document["uuid"] = driver.uuid(device)
            started = time.monotonic()
            driver.touch(device)
            document["ms"] = round((time.monotonic() - started) * 1000, 1)
    except Failed as failed:
        document["failed"] = str(failed)
    tell(document)


def child(what: str, seconds: float) -> dict:  # type: ignore[type-arg]
    """What the process for it says. One that hangs is killed and not waited for: it may hang in the kernel."""
    itself = subprocess.Popen(
        [sys.executable, "-c", source(), what, "alone"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    card = {} if what == "count" else {"card": int(what)}
    try:
        out, _ = itself.communicate(timeout=seconds)
        return json.loads(out)  # type: ignore[no-any-return]
    except subprocess.TimeoutExpired:
        itself.kill()
        return {**card, "failed": "no answer within %g s" % seconds, "hangs": True}  # noqa: UP031
    except ValueError:
        return {**card, "failed": "the process that touched it ended with status %s" % itself.returncode}  # noqa: UP031


def source() -> str:
    """This program's own text, as it was given with `-c`."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
        given = file.read().decode("utf-8", "surrogateescape").split("\0")
    return given[given.index("-c") + 1]


def tell(document: dict) -> None:  # type: ignore[type-arg]
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
