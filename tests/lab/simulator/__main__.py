"""`python -m simulator serve MODEL …` is vLLM; with `sglang.launch_server` SGLang, with `llama-server` llama.cpp."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from . import flags, llamacpp_flags, settings, sglang_flags
from .clock import Clock
from .dialect import World
from .faults import Board
from .llamacpp import LlamaCpp
from .llamacpp_front import LlamaFront
from .serve import serve
from .sglang import Sglang
from .sglang_front import SglangFront
from .vllm import Vllm
from .vllm_front import VllmFront

SGLANG, LLAMACPP = "sglang.launch_server", "llama-server"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse flags and environment, serve, and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = settings.from_environment(os.environ)
    clock, board = Clock(own.scale), Board()
    if words[:1] == [SGLANG]:
        return serve(SglangFront(World(sglang_flags.parse(words[1:]), own, clock, board, Sglang())), "sglang::server")
    if words[:1] == [LLAMACPP]:
        launch = llamacpp_flags.parse(words[1:], os.environ)
        own = replace(own, kv_tokens=launch.max_model_len * launch.max_running + 1)  # a cache of each slot's own
        return serve(LlamaFront(World(launch, own, clock, board, LlamaCpp())), "llama-server")
    return serve(VllmFront(World(flags.parse(words), own, clock, board, Vllm())), "vllm")


if __name__ == "__main__":
    sys.exit(main())
