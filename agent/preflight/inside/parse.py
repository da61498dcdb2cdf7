"""Run a launch's own program until its parser has taken its words, and no further.

    python3 -c SOURCE vllm serve MODEL --flag …
    python3 -c SOURCE -m sglang.launch_server --model-path … --flag …

The engines' parsers are argparse's: the first `parse_args` that ends well is the end of the program (status 0, and
`ACCEPTED` on standard output); one that refuses ends it as it ends the engine (status 2, its sentence on standard
error). So the words are read by the very code that will read them, whatever module it lives in by now, and no model is
loaded and no device is opened.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import sys
from typing import Any

ACCEPTED = "the engine's own parser takes these arguments"
NOT_HERE = 127
WENT_OVER = "RECIPE_AGENT_WENT_OVER"


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "-m":
        stop_after_parsing()
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    program = shutil.which(words[0])
    if program is None:
        sys.stderr.write("there is no %s in the image\n" % words[0])  # noqa: UP031
        sys.exit(NOT_HERE)
    in_its_own_python(program)
    stop_after_parsing()
    sys.argv = [program, *words[1:]]
    runpy.run_path(program, run_name="__main__")


def in_its_own_python(program: str) -> None:
    """Go over to the interpreter that the program names: in a virtual environment it is not the first of PATH."""
    with open(program, "rb") as file:  # noqa: PTH123
        first = file.readline().decode("utf-8", "replace").strip()
    own = first[2:].split()[0] if first.startswith("#!") else ""
    there_already = os.path.abspath(own) == os.path.abspath(sys.executable)  # noqa: PTH100
    if not os.path.basename(own).startswith("python") or there_already or WENT_OVER in os.environ:  # noqa: PTH119
        return
    os.environ[WENT_OVER] = "1"
    os.execv(own, [own, "-c", source(), *sys.argv[1:]])  # noqa: S606


def source() -> str:
    """This program's own text, as it was given with `-c`."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
        given = file.read().decode("utf-8", "surrogateescape").split("\0")
    return given[given.index("-c") + 1]


def stop_after_parsing() -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_and_end(self: Any, args: Any = None, namespace: Any = None) -> None:
        parse(self, args, namespace)
        sys.stderr.flush()
        os.write(1, (ACCEPTED + "\n").encode())
        os._exit(0)

    argparse.ArgumentParser.parse_args = parse_and_end  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    main()
