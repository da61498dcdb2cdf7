"""The first root cause in a pile of tracebacks, and what can be done about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.engines.llamacpp import LlamaCpp
from agent.engines.model import FailureClass, LogEvent, Phase
from agent.engines.vllm import Vllm
from agent.verdict.failure import CONFIGURATION, WORDS, remedy_of, root_cause
from agent.verdict.model import Remedy

READERS = {"vllm": Vllm(), "llamacpp": LlamaCpp()}


def events(path: Path) -> list[LogEvent]:
    reader = READERS[path.parent.name]
    return [event for line in path.read_text(errors="replace").splitlines() if (event := reader.read_log(line))]


def cause_in(path: Path) -> FailureClass | None:
    cause = root_cause([event for event in events(path) if event.failure])
    return cause.failure if cause else None


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("vllm/startfail-bad-flag", FailureClass.BAD_FLAG),
        ("vllm/startfail-bad-model-path", FailureClass.MODEL_PATH),
        ("vllm/startfail-kv-too-big", FailureClass.KV_TOO_SMALL),
        ("vllm/startfail-port-in-use", FailureClass.PORT),
        ("vllm/startfail-truncated-weights", FailureClass.WEIGHTS),
        ("vllm/server-clean-startup", None),
        ("vllm/server-run2-enginecore-sigkill", FailureClass.ENGINE_DEAD),
        ("vllm/server-run3-worker-stop-timeout", FailureClass.HANG),
        ("vllm/server-run4-worker-sigkill", FailureClass.WORKER_DIED),
        ("vllm/server-run7-apiserver-sigkill", None),
        ("vllm/server-run8-enginecore-sigkill-idle", FailureClass.ENGINE_DEAD),
        ("vllm/server-run9-keepalive-api_server-module", FailureClass.ENGINE_DEAD),
        ("vllm/server-run14-dp2", FailureClass.ENGINE_DEAD),
        ("vllm/server-v12-fork-idlehang", None),
        ("llamacpp/startfail-badmodel", FailureClass.MODEL_PATH),
        ("llamacpp/startfail-flag", FailureClass.BAD_FLAG),
        ("llamacpp/startfail-port", FailureClass.PORT),
        ("llamacpp/startfail-trunc", FailureClass.WEIGHTS),
        ("llamacpp/server-l1", None),
        ("llamacpp/server-l2", None),
    ],
)
def test_every_recorded_end_has_its_cause(shared: Path, log: str, cause: FailureClass | None):
    assert cause_in(shared / f"captures/{log}.log") is cause


def test_every_recorded_start_goes_through_its_phases_in_order(shared: Path):
    order = list(Phase)
    logs = sorted((shared / "captures/vllm").glob("server-*.log"))
    assert logs
    for path in logs:
        phases = list(dict.fromkeys(event.phase for event in events(path) if event.phase))
        assert phases == sorted(phases, key=order.index), path.name
        assert phases[-1] is Phase.READY, path.name


@pytest.mark.parametrize("name", ["run1-sigterm", "run5-sigterm-drain30", "run6-sigterm-idle", "run10-drain-newreq"])
def test_an_engine_that_was_told_to_end_says_so_before_it_complains(shared: Path, name: str):
    found = events(shared / f"captures/vllm/server-{name}.log")
    drain = next(index for index, event in enumerate(found) if event.draining)
    assert not any(event.failure for event in found[:drain])


def line(failure: FailureClass | None, text: str = "") -> LogEvent:
    return LogEvent(text or str(failure), failure=failure)


@pytest.mark.parametrize(
    ("pile", "cause"),
    [
        ([], None),
        ([None], None),
        ([FailureClass.ENGINE_DEAD, FailureClass.WORKER_DIED, FailureClass.GPU_OOM], FailureClass.GPU_OOM),
        ([FailureClass.KV_TOO_SMALL, FailureClass.GPU_OOM], FailureClass.KV_TOO_SMALL),
        ([FailureClass.NCCL, FailureClass.CUDA_FAULT], FailureClass.CUDA_FAULT),
        ([FailureClass.WORKER_DIED, FailureClass.NCCL], FailureClass.NCCL),
        ([FailureClass.START_FAILED, FailureClass.WORKER_DIED], FailureClass.WORKER_DIED),
        ([FailureClass.START_FAILED, FailureClass.ENGINE_DEAD], FailureClass.START_FAILED),
    ],
)
def test_a_consequence_is_not_the_cause(pile, cause):
    found = root_cause([line(failure) for failure in pile])
    assert (found.failure if found else None) is cause


@pytest.mark.parametrize("failure", list(FailureClass))
def test_every_class_has_words_and_a_remedy(failure):
    assert WORDS[failure]
    remedy = remedy_of(failure, started=False)
    if failure in CONFIGURATION or failure is FailureClass.GPU_OOM:
        assert remedy is Remedy.GIVE_UP
    elif failure is FailureClass.DRIVER:
        assert remedy is Remedy.QUARANTINE
    else:
        assert remedy is Remedy.RESTART


def test_out_of_card_memory_in_service_is_worth_a_restart():
    assert remedy_of(FailureClass.GPU_OOM, started=True) is Remedy.RESTART
