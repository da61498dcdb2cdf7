"""A program that holds memory of a card and keeps it busy, as an engine does.

    python3 load.py BYTES idle|work|spin|poll|torch [CARD]

`work` multiplies and adds on every multiprocessor, `spin` lets one thread go round and round: a hung kernel, which
shows full utilization too. `poll` reads the same word again and again from 24 blocks, as a collective does that waits
for a lost peer. All need the driver alone (libcuda.so.1; the kernels are PTX that it compiles itself).
`torch` does its work by PyTorch's matrix products, and counts them on standard error. Prints `holding` once
the memory is taken.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any

CYCLES = 200_000_000
"""About 0.1 s: a launch can be waited for, and an end of the program never waits long."""
TELL_S = 0.5
"""How often the number of products is told, with the host's monotonic time."""
PTX = """
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 cycles, .param .u64 out)
{
    .reg .u64 %a<6>; .reg .pred %p<3>;
    ld.param.u64 %a1, [cycles];
    mov.u64 %a3, %clock64;
GO: mov.u64 %a4, %clock64;
    sub.u64 %a5, %a4, %a3;
    setp.lt.u64 %p1, %a5, %a1;
    @%p1 bra GO;
    ret;
}
.visible .entry poll(.param .u64 cycles, .param .u64 out)
{
    .reg .u64 %a<6>; .reg .u32 %b<3>; .reg .pred %p<3>;
    ld.param.u64 %a1, [cycles];
    ld.param.u64 %a2, [out];
    mov.u64 %a3, %clock64;
GO: ld.volatile.global.u32 %b1, [%a2];
    setp.eq.u32 %p2, %b1, 7;
    @%p2 bra END;
    mov.u64 %a4, %clock64;
    sub.u64 %a5, %a4, %a3;
    setp.lt.u64 %p1, %a5, %a1;
    @%p1 bra GO;
END: ret;
}
.visible .entry work(.param .u64 cycles, .param .u64 out)
{
    .reg .u64 %a<6>; .reg .f32 %f<9>; .reg .pred %p<3>;
    ld.param.u64 %a1, [cycles];
    ld.param.u64 %a2, [out];
    mov.f32 %f8, 0f3F7FBE77;
__START__
    mov.u64 %a3, %clock64;
GO:
__ROUND__
    mov.u64 %a4, %clock64;
    sub.u64 %a5, %a4, %a3;
    setp.lt.u64 %p1, %a5, %a1;
    @%p1 bra GO;
__SUM__
    setp.eq.f32 %p2, %f0, 0f12345678;
    @%p2 st.global.f32 [%a2], %f0;
    ret;
}
""".replace("__START__", "\n".join(f"    mov.f32 %f{n}, 0f3F800000;" for n in range(8)))
PTX = PTX.replace("__ROUND__", "\n".join(f"    fma.rn.f32 %f{n % 8}, %f{n % 8}, %f8, %f8;" for n in range(64)))
PTX = PTX.replace("__SUM__", "\n".join(f"    add.f32 %f0, %f0, %f{n};" for n in range(1, 8)))
GRIDS = {"spin": (1, 1), "poll": (24, 512), "work": (4096, 256)}
"""Blocks and threads of each."""


class Card:
    """One of the cards that can be seen, through CUDA's driver interface."""

    def __init__(self, number: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), number)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._cuda, name)(*arguments):
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(code, ctypes.byref(text))
            sys.exit(f"{name}: CUDA error: {(text.value or str(code).encode()).decode()}")

    def hold(self, size: int) -> ctypes.c_uint64:
        memory = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
        self.call("cuMemsetD8_v2", memory, ctypes.c_ubyte(1), ctypes.c_size_t(size))
        self.call("cuCtxSynchronize")
        return memory

    def run(self, kernel: str, memory: ctypes.c_uint64) -> None:
        """For ever."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX.encode()))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        cycles = ctypes.c_uint64(CYCLES // 20 if kernel == "work" else CYCLES)
        values = (ctypes.c_void_p * 2)(*(ctypes.addressof(one) for one in (cycles, memory)))
        blocks, threads = GRIDS[kernel]
        while True:
            self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, values, None)
            self.call("cuCtxSynchronize")


def by_torch(size: int, number: int) -> None:
    import torch

    torch.cuda.set_device(number)
    side = 8192
    held = torch.ones(max(1, size - 3 * side * side * 2), dtype=torch.uint8, device="cuda")
    one, other = (torch.randn(side, side, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    torch.cuda.synchronize()
    print("holding", held.numel(), flush=True)
    done, told = 0, time.monotonic()
    while True:
        torch.matmul(one, other)
        torch.cuda.synchronize()
        done += 1
        if (now := time.monotonic()) >= told + TELL_S:
            print(f"products {done} at {now:.6f}", file=sys.stderr, flush=True)
            told = now


def only_mine() -> None:
    """Keep to the cards that the container was given: some runtimes show it all of them."""
    given = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    if given.startswith("GPU-"):
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", given)


def main() -> None:
    only_mine()
    size, what, number = int(sys.argv[1]), sys.argv[2], int((*sys.argv, "0")[3])
    if what == "torch":
        by_torch(size, number)
    card = Card(number)
    memory = card.hold(size)
    print("holding", size, flush=True)
    if what in GRIDS:
        card.run(what, memory)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
