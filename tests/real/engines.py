"""The engines that run on a machine without a GPU, as launches: llama.cpp's server, and vLLM's CPU build."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.place import Unavailable, lab_folder


@dataclass(frozen=True)
class RealEngine:
    """One launch: its words, and what its processes are called by the kernel."""

    slug: str
    port: int
    command: Sequence[str]
    model: str
    ready_s: float
    """Longest start on a machine that others use too."""
    core: str
    """The process whose scheduler makes the tokens."""
    worker: str
    server: str
    env: Mapping[str, str] = field(default_factory=dict)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def llama_server(shared: Path) -> Path:
    """The program, from PATH or from beside the shared documents. Raises Unavailable."""
    found = shutil.which("llama-server")
    beside = shared / "bin/llama-server"
    if found is None and not os.access(beside, os.X_OK):
        raise Unavailable(f"cannot run llama.cpp's server: there is no llama-server on PATH, nor {beside}")
    return Path(found) if found else beside


def llamacpp(shared: Path, port: int, *more: str, model: Path | None = None) -> RealEngine:
    """A tiny model of random weights with a long context: ready in a second, hundreds of tokens a second."""
    weights = model or shared / "captures/llamacpp/tiny.gguf"
    options = f"--alias tiny --host 127.0.0.1 --port {port} --metrics --slots -np 2 -c 131072 -t 1"
    command = [str(llama_server(shared)), "-m", str(weights), *options.split(), *more]
    name = "llama-server"
    return RealEngine("real-llama-cpp", port, command, "tiny", 30.0, name, name, name)


def vllm_python() -> Path:
    """The interpreter of vLLM's own environment (`.lab/vllm/venv`). Raises Unavailable."""
    python = lab_folder() / "vllm/venv/bin/python"
    if not python.exists():
        raise Unavailable(
            f"cannot run vLLM: it is not installed in {python.parents[1]} (tests/real/README.md says how)"
        )
    return python


def vllm(shared: Path, port: int, *more: str, model: Path | None = None, **env: str) -> RealEngine:
    """vLLM's CPU build: API server, engine core and worker, each a process."""
    weights = model or shared / "captures/vllm/tiny-llama"
    options = f"--host 127.0.0.1 --port {port} --served-model-name tiny --enforce-eager --dtype float32"
    sizes = "--max-model-len 2048 --max-num-seqs 8"
    server = "vllm.entrypoints.openai.api_server"
    command = [str(vllm_python()), "-m", server, "--model", str(weights), *options.split(), *sizes.split(), *more]
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    return RealEngine(
        "real-vllm", port, command, "tiny", 300.0, "VLLM::EngineCor", "VLLM::Worker", "python", quiet | env
    )
