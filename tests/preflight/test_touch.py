"""The program that touches cards, against a stand-in for CUDA's driver, and what the check makes of its answers."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.adapters.preflight_facts_trial import Trials
from agent.clock import SystemClock
from agent.host.reading import Unknown
from agent.preflight.checks import gpu_touch
from agent.preflight.inside import touch
from agent.preflight.model import Level
from agent.preflight.trial import NOT_FOUND, Ran, Trial
from tests.lab import compiler
from tests.lab.fixtures import without
from tests.lab.place import Unavailable
from tests.preflight.build import WITH_GPUS, FakeFacts, card, case, known

SOURCE = Path(__file__).parent / "cuda" / "standin.c"
ONES = "GPU-01010101-0101-0101-0101-010101010101"
TWOS = "GPU-02020202-0202-0202-0202-020202020202"


@pytest.fixture(scope="session")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in library, built once."""
    folder = tmp_path_factory.mktemp("cuda")
    try:
        compiler.shared_library(SOURCE, folder / "libcuda.so.1")
    except Unavailable as gap:
        without(gap)
    return folder


def touched(folder: Path | None, seconds: float = 20.0, **more: str) -> list[dict[str, Any]]:
    env = {**os.environ, **more} | ({"LD_LIBRARY_PATH": str(folder)} if folder else {})
    words = [sys.executable, "-I", "-c", inspect.getsource(touch), f"{seconds:g}"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted(answers, key=lambda one: one.get("card", -1))


def test_every_card_is_taken_and_given_back(cuda: Path) -> None:
    first, second = touched(cuda, LAB_CUDA_CARDS="2")
    assert (first["uuid"], second["uuid"]) == (ONES, TWOS)
    assert first["ms"] > 0
    assert "failed" not in first | second


@pytest.mark.parametrize(
    ("fail", "says"),
    [
        ("1:cuDevicePrimaryCtxRetain:802", "cuDevicePrimaryCtxRetain: CUDA_ERROR_SYSTEM_NOT_READY"),
        ("1:cuMemAlloc_v2:2", "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"),
        ("1:cuCtxSynchronize:719", "cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED"),
        ("1:cuMemFree_v2:4242", "cuMemFree_v2: CUDA error 4242"),
    ],
)
def test_a_card_that_fails_says_at_which_step_and_costs_no_other(cuda: Path, fail: str, says: str) -> None:
    first, second = touched(cuda, LAB_CUDA_CARDS="2", LAB_CUDA_FAIL=fail)
    assert "failed" not in first
    assert second["failed"] == says


def test_a_card_that_hangs_is_told_from_one_that_answers(cuda: Path) -> None:
    first, second = touched(cuda, 2.0, LAB_CUDA_CARDS="2", LAB_CUDA_HANG="0:cuCtxSynchronize")
    assert first == {"card": 0, "failed": "no answer within 2 s", "hangs": True}
    assert "failed" not in second


def test_memory_that_forgets_is_found(cuda: Path) -> None:
    (only,) = touched(cuda, LAB_CUDA_ROTTEN="0")
    assert "does not hold what was written" in only["failed"]


def test_a_driver_that_hangs_at_once_and_one_that_is_not_there(cuda: Path) -> None:
    assert touched(cuda, 2.0, LAB_CUDA_HANG="*:cuInit") == [{"failed": "no answer within 2 s", "hangs": True}]
    assert touched(cuda, LAB_CUDA_FAIL="*:cuInit:100") == [{"failed": "cuInit: CUDA_ERROR_NO_DEVICE"}]
    assert "libcuda.so.1 cannot be loaded" in touched(None)[0]["failed"]


async def test_it_runs_as_a_trial_on_the_host(cuda: Path) -> None:
    trials = Trials("unix:///nonexistent", SystemClock())
    words = ("python3", "-c", inspect.getsource(touch), "20")
    ran = await trials.run(Trial(words, env={"LD_LIBRARY_PATH": str(cuda)}))
    assert not isinstance(ran, Unknown)
    assert json.loads(ran.value.out)["uuid"] == ONES


async def test_a_trial_on_the_host_that_does_not_end_is_ended() -> None:
    trials = Trials("unix:///nonexistent", SystemClock())
    ran = await trials.run(Trial(("python3", "-c", "import time; time.sleep(600)"), seconds=0.5))
    assert ran == Unknown("no end within 0.5 s")


def said(*answers: dict[str, Any]) -> Ran:
    return Ran(0, "\n".join(["a library greets", *map(json.dumps, answers)]))


GOOD = {"card": 0, "uuid": "GPU-0", "ms": 12.0}
PAIR = (GOOD, {"card": 1, "uuid": "GPU-1", "ms": 15.4})


@pytest.mark.parametrize(
    ("ran", "level", "says"),
    [
        (said(*PAIR), Level.PASS, "2 took and gave back 64 MiB inside the image, the slowest in 15 ms"),
        (
            said(GOOD, {"card": 1, "uuid": "GPU-1", "failed": "cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED"}),
            Level.FAIL,
            "card 1: cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED",
        ),
        (
            said(GOOD, {"card": 1, "failed": "no answer within 30 s", "hangs": True}),
            Level.FAIL,
            "card 1 as CUDA counts them: no answer within 30 s",
        ),
        (
            said(GOOD, {"card": 1, "uuid": "GPU-1", "failed": "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"}),
            Level.WARN,
            "CUDA_ERROR_OUT_OF_MEMORY",
        ),
        (said(GOOD), Level.FAIL, "1 of the 2 chosen cards are to be seen"),
        (said({"failed": "cuInit: CUDA_ERROR_NO_DEVICE"}), Level.FAIL, "CUDA: cuInit"),
        (Ran(1, "", "Traceback\nImportError: no ctypes"), Level.UNKNOWN, "ImportError: no ctypes"),
        (Unknown("no end within 75 s"), Level.UNKNOWN, "no end within 75 s"),
    ],
)
async def test_what_the_check_makes_of_it(ran: Any, level: Level, says: str) -> None:
    facts = FakeFacts(cards=known((card(0), card(1))), ran=[ran if isinstance(ran, Unknown) else known(ran)])
    answer = await gpu_touch.look(case(facts, host=WITH_GPUS, gpus=("GPU-0", "GPU-1")))
    assert answer.level is level, answer
    assert says in answer.found


async def test_an_image_without_python_has_its_cards_touched_from_the_host() -> None:
    facts = FakeFacts(cards=known((card(0),)), ran=[known(Ran(NOT_FOUND)), known(said(GOOD))])
    answer = await gpu_touch.look(case(facts, host=WITH_GPUS, gpus=("GPU-0",)))
    assert answer.level is Level.PASS
    assert "from the host" in answer.found
    inside, outside = facts.tried
    assert inside.image is not None
    assert inside.gpus == tuple(WITH_GPUS["DeviceRequests"])
    assert (outside.image, outside.gpus, outside.env) == (None, (), {"CUDA_VISIBLE_DEVICES": "GPU-0"})
