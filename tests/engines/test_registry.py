"""Which engine a command starts, behind launchers, shells and images."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.engines.model import Command, EngineKind
from agent.engines.registry import DIALECTS, dialect_of, engine_of

CASES = [
    ("vllm serve m", None, EngineKind.VLLM, 8000),
    ("/opt/venv/bin/vllm serve m --port 9", None, EngineKind.VLLM, 9),
    ("env A=1 numactl --cpunodebind 0 vllm serve m", None, EngineKind.VLLM, 8000),
    ("python3 -m vllm.entrypoints.openai.api_server --model m", None, EngineKind.VLLM, 8000),
    ("--model m --port 8001", "vllm/vllm-openai:v0.20.0", EngineKind.VLLM, 8001),
    ("org/m --port 8001", "vllm/vllm-openai-rocm:latest", EngineKind.VLLM, 8001),
    ("python -m sglang.launch_server --model-path m", "lmsysorg/sglang:latest", EngineKind.SGLANG, 30000),
    ("sglang serve --model-path m --port 8", None, EngineKind.SGLANG, 8),
    ("/app/llama-server -m x.gguf", None, EngineKind.LLAMACPP, 8080),
    ("-m x.gguf --port 81", "ghcr.io/ggml-org/llama.cpp:server-cuda", EngineKind.LLAMACPP, 81),
    ("trtllm-serve serve /engine --port 8009", None, EngineKind.TRTLLM, 8009),
    ("trtllm-serve org/m", None, EngineKind.TRTLLM, 8000),
    ("python3 /app/tabbyAPI/main.py --model-name m", None, EngineKind.TABBYAPI, 5000),
    ("", "ghcr.io/theroyallab/tabbyapi:latest", EngineKind.TABBYAPI, 5000),
    ("--model-id m", "ghcr.io/huggingface/text-generation-inference:3.3.5", EngineKind.OPENAI, 80),
    ("ollama serve", None, EngineKind.OPENAI, 11434),
]


@pytest.mark.parametrize(("line", "image", "kind", "port"), CASES, ids=[case[0] or case[1] for case in CASES])
def test_an_engine_is_recognised_by_program_or_image(line, image, kind, port):
    found = engine_of(Command(tuple(line.split()), {}, image))
    assert found is not None
    dialect, launch = found
    assert (dialect.kind, launch.kind, launch.port) == (kind, kind, port)


@pytest.mark.parametrize(
    ("words", "image"),
    [
        (("bash",), "vllm/vllm-openai:latest"),
        (("/bin/bash",), "vllm/vllm-openai:latest"),
        (("rocminfo",), "ghcr.io/ggml-org/llama.cpp:server-rocm"),
        (("./run-cluster-node.sh", "--role", "head"), "vllm/vllm-openai:latest"),
        (("nvidia-smi",), "ubuntu"),
        (("vllm", "bench", "serve"), None),
        (("llama-cli", "-m", "x.gguf"), None),
        (("ray", "start", "--head", "--block"), None),
        ((), None),
        (("bash", "-c", "echo 'open quote"), None),
    ],
)
def test_other_commands_start_no_engine(words, image):
    assert engine_of(Command(words, {}, image)) is None


def test_a_shells_script_is_looked_into():
    script = 'set -e; export A=1 && pip install x\nexec vllm serve "$MODEL" \\\n  --port ${PORT} --max-model-len 4096'
    found = engine_of(Command(("bash", "-lc", script), {"MODEL": "org/m", "PORT": "8123"}))
    assert found is not None
    assert (found[1].model, found[1].port, found[1].max_model_len) == ("org/m", 8123, 4096)


def test_a_variable_that_is_not_set_is_not_said():
    found = engine_of(Command(("bash", "-c", "vllm serve $MODEL --port $PORT")))
    assert found is not None
    assert (found[1].model, found[1].served_model, found[1].port) == (None, None, 8000)


def test_every_kind_has_its_dialect():
    assert {dialect.kind for dialect in DIALECTS} == set(EngineKind)
    assert all(dialect_of(kind).kind is kind for kind in EngineKind)


def test_the_published_pp4_launch_is_read_exactly(shared: Path):
    slug = "deepseek-v4-1-flash-764b-on-4x-cmp-170hx-pp4-shadow-kv-exl3-2bpw"
    words = json.loads((shared / f"recipes/{slug}.json").read_text())["config"]["launch"]
    image = words.index("pp4-exl3:v14")
    env = dict(words[at + 1].split("=", 1) for at, word in enumerate(words[:image]) if word == "-e")
    found = engine_of(Command((words[words.index("--entrypoint") + 1], *words[image + 1 :]), env, words[image]))
    assert found is not None
    launch = found[1]
    assert (launch.port, launch.served_model, launch.max_model_len) == (8095, "deepseek-v4.1-flash", 524288)
    assert (launch.pipeline_parallel, launch.tensor_parallel, launch.gpus_needed) == (4, 1, 4)
    assert (launch.chunk_tokens, launch.max_num_seqs, launch.speculative_tokens) == (8192, 32, 5)
    assert (launch.ready_timeout_s, launch.dev_mode, launch.guarded) == (3600.0, False, False)


KINDS = {
    "vllm": EngineKind.VLLM,
    "vllm-module": EngineKind.VLLM,
    "sglang": EngineKind.SGLANG,
    "llama.cpp": EngineKind.LLAMACPP,
    "trtllm": EngineKind.TRTLLM,
}


def test_public_command_lines_are_recognised(shared: Path):
    """Every public bare command line of an engine's server is known as that engine; no other is."""
    servers = ("vllm serve", "vllm.entrypoints", "sglang.launch_server", "sglang serve", "llama-server", "trtllm-serve")
    wrong = []
    for row in map(json.loads, (shared / "corpus/bare.jsonl").read_text().splitlines()):
        line = " ".join(row.get("argv", []))
        found = engine_of(Command(tuple(row.get("argv", [])), row.get("env", {})))
        expect = KINDS.get(row["kind"]) if any(server in line for server in servers) else None
        kind = found[0].kind if found and found[0].kind is not EngineKind.OPENAI else None
        if kind is not expect:
            wrong.append((row["id"], kind, expect, line[:80]))
    assert not wrong
