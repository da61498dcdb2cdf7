"""Each rule speaks where its trouble is and is silent where it is not."""

from __future__ import annotations

from typing import Any

import pytest

from agent.plan.advice.advise import RULES
from tests.plan.build import bare, cards, plan

VLLM = "docker run --gpus all {} vllm/vllm-openai:v1 --model /m --max-model-len 4096 {}"
SGLANG = "docker run --gpus all {} lmsysorg/sglang:v1 python3 -m sglang.launch_server --model-path /m {}"
LLAMA = "docker run --gpus all {} ghcr.io/ggml-org/llama.cpp:server -m /m.gguf {}"
ALLOWED: dict[str, Any] = {"policy": {"mount_roots": ["/srv"], "host_network": True}}

CASES = [
    ("gloo.interface", VLLM, "", "-pp 2", True),
    ("gloo.interface", VLLM, "-e GLOO_SOCKET_IFNAME=lo", "-pp 2", False),
    ("gloo.interface", VLLM, "-e GLOO_SOCKET_IFNAME=lo", "-pp 2 --nnodes 2", True),
    ("gloo.interface", VLLM, "--network host", "-pp 2", False),
    ("gloo.interface", VLLM, "", "", False),
    ("jit.caches", VLLM, "", "", True),
    ("jit.caches", VLLM, "-v /srv/c:/root/.cache -v /srv/t:/root/.triton", "", False),
    ("jit.caches", VLLM, "-v /srv/c:/c -e VLLM_CACHE_ROOT=/c/v -e TRITON_CACHE_DIR=/c/t", "", False),
    ("jit.caches", LLAMA, "", "", False),
    ("shared.memory", VLLM, "", "-tp 2", True),
    ("shared.memory", VLLM, "--shm-size 16g", "-tp 2", False),
    ("shared.memory", VLLM, "--ipc=host", "-tp 2", False),
    ("shared.memory", VLLM, "", "", False),
    ("gpus.systemd", VLLM, "", "", True),
    ("gpus.systemd", VLLM.replace("--gpus all", "--device nvidia.com/gpu=all"), "", "", False),
    ("gpus.systemd", VLLM, "--runtime nvidia", "", False),
    ("port.open", VLLM, "-p 8000:8000", "", True),
    ("port.open", VLLM, "-p 127.0.0.1:8000:8000", "", False),
    ("port.open", VLLM, "-p 8000:8000", "--api-key x", False),
    ("port.open", VLLM, "--network host", "", True),
    ("port.open", VLLM, "--network host", "--host 127.0.0.1", False),
    ("weights.folder", VLLM.replace("/m ", "org/m "), "", "", True),
    ("weights.folder", VLLM.replace("/m ", "org/m "), "-v /srv/hf:/root/.cache/huggingface", "", False),
    ("weights.folder", VLLM.replace("/m ", "org/m "), "-e HF_HOME=/hf -v /srv/hf:/hf", "", False),
    ("weights.folder", VLLM, "", "", False),
    ("image.floating", VLLM.replace(":v1", ":latest"), "", "", True),
    ("image.floating", VLLM.replace(":v1", ""), "", "", True),
    ("image.floating", VLLM.replace(":v1", ":nightly-abc"), "", "", True),
    ("image.floating", VLLM, "", "", False),
    ("metrics.off", VLLM, "", "--disable-log-stats", True),
    ("metrics.off", VLLM, "", "", False),
    ("metrics.off", SGLANG, "", "", True),
    ("metrics.off", SGLANG, "", "--enable-metrics", False),
    ("metrics.off", LLAMA, "", "", True),
    ("metrics.off", LLAMA, "", "--metrics", False),
    ("drain.endless", SGLANG, "", "", True),
    ("drain.endless", SGLANG, "-e SGL_FORCE_SHUTDOWN=1", "", False),
    ("drain.endless", VLLM, "", "", False),
    ("kept.alive", VLLM, "-e VLLM_KEEP_ALIVE_ON_ENGINE_DEATH=1", "", True),
    ("kept.alive", VLLM, "", "", False),
    ("developer.mode", VLLM, "-p 8000:8000 -e VLLM_SERVER_DEV_MODE=1", "", True),
    ("developer.mode", VLLM, "-p 127.0.0.1:8000:8000 -e VLLM_SERVER_DEV_MODE=1", "", False),
    ("developer.mode", VLLM, "-p 8000:8000", "", False),
    ("memory.share", VLLM, "", "--gpu-memory-utilization 0.98", True),
    ("memory.share", VLLM, "", "--gpu-memory-utilization 0.93", False),
    ("memory.share", VLLM, "", "--gpu-memory-utilization much", False),
    ("foreign.code", VLLM.replace("/m ", "org/m "), "", "--trust-remote-code", True),
    ("foreign.code", VLLM.replace("/m ", "org/m "), "", "--trust-remote-code --revision abc", False),
    ("foreign.code", VLLM, "", "--trust-remote-code", False),
    ("debugging", VLLM, "-e CUDA_LAUNCH_BLOCKING=1", "", True),
    ("debugging", VLLM, "-e CUDA_LAUNCH_BLOCKING=0", "", False),
    ("context.whole", VLLM.replace("--max-model-len 4096", ""), "", "", True),
    ("context.whole", VLLM, "", "", False),
    ("context.whole", SGLANG, "", "--context-length 4096", False),
]


def spoken(made: Any, rule: str) -> list[str]:
    source = next(one.source for one in RULES if one.id == rule)
    return [text for text in made.warnings if f"({source})" in text]


@pytest.mark.parametrize(("rule", "line", "flags", "arguments", "speaks"), CASES)
def test_a_rule_speaks_where_its_trouble_is(rule: str, line: str, flags: str, arguments: str, speaks: bool) -> None:
    from tests.plan.build import settings

    made = plan(bare(line.format(flags, arguments)), settings=settings(**ALLOWED), gpus=cards(4), sets={"gpus": "0,1"})
    assert bool(spoken(made, rule)) is speaks


@pytest.mark.parametrize(
    ("rule", "flags", "profile", "speaks"),
    [
        ("ready.timeout", "", {"watch": {"start_expected": "900s"}}, True),
        ("ready.timeout", "", {"watch": {"start_expected": "300s"}}, False),
        ("ready.timeout", "-e VLLM_ENGINE_READY_TIMEOUT_S=3600", {"watch": {"start_expected": "900s"}}, False),
        ("ready.timeout", "", {}, False),
        ("memory.limit", "--memory 8g", {"requirements": {"memory_available": "20GiB"}}, True),
        ("memory.limit", "--memory 32g", {"requirements": {"memory_available": "20GiB"}}, False),
        ("memory.limit", "", {"requirements": {"memory_available": "20GiB"}}, False),
    ],
)
def test_a_rule_knows_what_the_profile_states(rule: str, flags: str, profile: dict[str, Any], speaks: bool) -> None:
    made = plan(bare(VLLM.format(flags, "")), site=profile)
    assert bool(spoken(made, rule)) is speaks


@pytest.mark.parametrize(("tokens", "speaks"), [(5, False), (10, False), (6, True), (7, True)])
def test_speculative_tokens_come_in_multiples(tokens: int, speaks: bool) -> None:
    config = f"""--speculative-config '{{"method":"dspark","num_speculative_tokens":{tokens}}}'"""
    made = plan(bare(VLLM.format("", config)), site={"serving": {"drafter_predicts": 5}})
    assert bool(spoken(made, "speculative.tokens")) is speaks


def test_every_rule_has_its_case_its_source_and_its_line() -> None:
    tested = {case[0] for case in CASES} | {"ready.timeout", "memory.limit", "speculative.tokens"}
    assert tested == {rule.id for rule in RULES}
    assert len(RULES) >= 15
    assert all(rule.source for rule in RULES)


def test_the_line_of_an_advice_mends_it() -> None:
    """Where the line is a `--set`, setting it silences the rule."""
    of = bare(VLLM.format("-p 8000:8000 -e VLLM_KEEP_ALIVE_ON_ENGINE_DEATH=1", "-tp 2 -pp 2"))
    first = plan(of, gpus=cards(4))
    lines = [text.rpartition(": --set ")[2].partition(",")[0] for text in first.warnings if ": --set " in text]
    assert len(lines) >= 4
    sets = dict(line.split("=", 1) for line in lines)
    mended = plan(of, gpus=cards(4), sets=sets)
    assert not [text for text in mended.warnings if ": --set " in text]


def test_nothing_is_said_of_a_launch_that_is_not_there() -> None:
    assert not [text for text in plan(bare([])).warnings if any(f"({rule.source})" in text for rule in RULES)]
