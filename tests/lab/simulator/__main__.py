"""`python -m simulator serve MODEL …` is vLLM, `python -m simulator sglang.launch_server …` is SGLang."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from . import flags, settings, sglang_flags
from .clock import Clock
from .dialect import World
from .faults import Board
from .serve import serve
from .sglang import Sglang
from .sglang_front import SglangFront
from .vllm import Vllm
from .vllm_front import VllmFront

SGLANG = "sglang.launch_server"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse flags and environment, serve, and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = settings.from_environment(os.environ)
    clock, board = Clock(own.scale), Board()
    if words[:1] == [SGLANG]:
        return serve(SglangFront(World(sglang_flags.parse(words[1:]), own, clock, board, Sglang())), "sglang::server")
    return serve(VllmFront(World(flags.parse(words), own, clock, board, Vllm())), "vllm")


if __name__ == "__main__":
    sys.exit(main())
