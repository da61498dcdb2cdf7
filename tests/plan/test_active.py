"""Active parameters that a recipe or a profile states."""

from __future__ import annotations

import pytest

from agent.engines.model import EngineKind, EngineLaunch
from agent.plan.active import active_of
from agent.plan.model import ActiveParameters
from agent.profile.layers import from_sets, validate
from agent.profile.trouble import BadSet


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("Qwen/Qwen3-235B-A22B", 22e9),
        ("/models/qwen3-30b-a3b-instruct-awq", 3e9),
        ("Qwen/Qwen3.8-2.4T-A95B-FP8", 95e9),
        ("meta-llama/Llama-3.1-70B-Instruct", None),
        ("someone/model-7B-A100B200", None),
        ("someone/v2-A3B", None),
        ("someone/model-7B-A0B", None),  # nothing can be divided by it
        ("someone/model-7B-A" + "9" * 400 + "B", None),  # no number
    ],
)
def test_a_model_s_name_says_them(model: str, count: float | None) -> None:
    found = active_of(validate({}, "x"), EngineLaunch(EngineKind.VLLM, model=model))
    assert found == (ActiveParameters(count, f"the name {model} (the launch's model)") if count else None)


def test_the_name_that_requests_use_and_the_repository_count_too() -> None:
    served = EngineLaunch(EngineKind.VLLM, model="/models/x", served_model="Qwen3-30B-A3B")
    assert active_of(validate({}, "x"), served) == ActiveParameters(
        3e9, "the name Qwen3-30B-A3B (the name that requests use)"
    )
    stated = validate({"requirements": {"weights": "Qwen/Qwen3-235B-A22B"}}, "x")
    assert active_of(stated, None) == ActiveParameters(22e9, "the name Qwen/Qwen3-235B-A22B (requirements.weights)")


@pytest.mark.parametrize(("text", "count"), [("37B", 37e9), ("1.1T", 1.1e12), ("950m", 950e6), ("3300000000", 3.3e9)])
def test_a_profile_s_word_goes_first(text: str, count: float) -> None:
    profile = from_sets({"serving.active_parameters": text})
    found = active_of(profile, EngineLaunch(EngineKind.VLLM, model="Qwen/Qwen3-235B-A22B"))
    assert found == ActiveParameters(count, "profile serving.active_parameters")


@pytest.mark.parametrize("text", ["0", "-3B", "many", "37GB"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(BadSet):
        from_sets({"serving.active_parameters": text})
