"""Which cards: the site's word, those that fit, or a question; and `--gpus all` stays where they are all there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.host.gpu import Mig, MigInstance
from agent.host.reading import Known, Unknown
from agent.plan.gpu_body import in_body
from agent.plan.gpus import Choice
from agent.plan.trouble import UnfitGpus
from agent.quantity import Bytes
from tests.plan.build import NOW, bare, card, cards, host_config, plan, settings

ALL = {"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
VLLM = ["docker", "run", "--gpus", "all", "vllm/vllm-openai:v1", "--model", "m", "--tensor-parallel-size", "2"]


def test_all_stays_where_the_chosen_cards_are_the_whole_host() -> None:
    made = plan(gpus=cards(2))
    assert made.gpus == ("GPU-0000", "GPU-0001")
    assert host_config(made)["DeviceRequests"] == [ALL]
    assert not any("cards are replaced" in text for text in made.warnings)


@pytest.mark.parametrize(
    "chosen",
    [
        ["1", "3"],
        ["GPU-0001", "GPU-0003"],
        ["00000000:02:00.0", "0000:04:00.0"],
        ["02:00.0", "04:00.0"],
        ["1", "GPU-0003", "1"],
    ],
    ids=["index", "uuid", "pci", "short pci", "mixed"],
)
def test_cards_are_chosen_by_index_uuid_or_pci_address(chosen: list[str]) -> None:
    made = plan(gpus=cards(4), settings=settings(gpus=chosen))
    assert made.gpus == ("GPU-0001", "GPU-0003")
    assert host_config(made)["DeviceRequests"] == [{**ALL, "Count": 0, "DeviceIDs": ["GPU-0001", "GPU-0003"]}]
    assert "the launch's cards are replaced by the chosen ones: GPU-0001, GPU-0003" in made.warnings


def test_a_slice_is_chosen_by_its_uuid() -> None:
    size = Known(Bytes.gib(10), NOW)
    slices = tuple(MigInstance(f"MIG-{at}", at, 0, size, Known(Bytes(0), NOW)) for at in range(2))
    host = Known((replace(card(0), mig=Known(Mig(True, True, slices), NOW)),), NOW)
    made = plan(gpus=host, sets={"gpus": "MIG-0,MIG-1"})
    assert made.gpus == ("MIG-0", "MIG-1")
    assert host_config(made)["DeviceRequests"][0]["DeviceIDs"] == ["MIG-0", "MIG-1"]


def test_more_cards_than_the_launch_needs_are_a_question() -> None:
    made = plan(gpus=cards(3))
    question = made.missing[0]
    assert question.key == "gpus"
    assert "3 cards fit and 2 are needed (launch: tensor × pipeline × data parallel = 2 × 1 × 1)" in question.why
    assert question.how.startswith("--set gpus=0,1")
    assert plan(gpus=cards(3), sets={"gpus": "0,1"}).missing == ()


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (["7"], "agent.yaml gpus names 7; this host has 0 (GPU-0000), 1 (GPU-0001)"),
        (["GPU-00"], "names GPU-00"),
        (["0"], "names 1 card and launch: tensor × pipeline × data parallel = 2 × 1 × 1, which needs 2"),
    ],
    ids=["not there", "not unmistakable", "too few"],
)
def test_a_choice_that_does_not_fit_is_refused(chosen: list[str], why: str) -> None:
    with pytest.raises(UnfitGpus) as caught:
        plan(gpus=cards(2), settings=settings(gpus=chosen))
    assert why in caught.value.text
    assert caught.value.exit_code == 3


def test_chosen_cards_beyond_the_need_stay_idle_and_are_told() -> None:
    made = plan(gpus=cards(3), sets={"gpus": "0,1,2"})
    assert any(text.startswith("1 of the chosen cards stays idle") for text in made.warnings)


def test_fewer_cards_than_needed_are_left_for_preflight_to_refuse() -> None:
    made = plan(gpus=cards(1))
    assert (made.gpus, made.missing) == (("GPU-0000",), ())


def test_cards_that_are_not_what_the_recipe_names_are_left_out() -> None:
    host = Known((card(0), card(1, Bytes.gib(2), name="DISPLAY"), card(2), card(3, capability=(6, 1), name="OLD")), NOW)
    profile = {"requirements": {"compute_capability": "8.0"}}
    made = plan(gpus=host, shipped=profile)
    assert made.gpus == ("GPU-0000", "GPU-0002")
    assert host_config(made)["DeviceRequests"][0]["DeviceIDs"] == ["GPU-0000", "GPU-0002"]
    assert any(
        "left out, since they are not what the recipe names: card 1 (DISPLAY), 3 (OLD)" in t for t in made.warnings
    )


def test_a_host_that_cannot_be_seen_leaves_the_launch_as_it_is() -> None:
    made = plan(gpus=Unknown("no driver"))
    assert (made.gpus, host_config(made)["DeviceRequests"]) == ((), [ALL])
    chosen = plan(gpus=Unknown("no driver"), sets={"gpus": "0,1"})
    assert host_config(chosen)["DeviceRequests"][0]["DeviceIDs"] == ["0", "1"]
    assert any("are taken as written: no driver" in text for text in chosen.warnings)


def test_a_launch_without_cards_gets_none() -> None:
    made = plan(bare(["docker", "run", "-p", "1:1", "ghcr.io/ggml-org/llama.cpp:server", "-m", "x"]), gpus=cards(4))
    assert (made.gpus, made.missing) == ((), ())


def test_an_engine_that_takes_what_it_sees_gets_all_unless_the_recipe_counts() -> None:
    llama = bare(["docker", "run", "--gpus", "all", "ghcr.io/ggml-org/llama.cpp:server", "-m", "x"])
    assert len(plan(llama, gpus=cards(4)).gpus) == 4
    assert plan(llama, gpus=cards(4), sets={"requirements.gpu_count": "2"}).missing[0].key == "gpus"


def test_no_card_at_all_can_be_stated() -> None:
    made = plan(bare(["vllm", "serve", "m"]), gpus=cards(4), site={"requirements": {"gpu_count": 0}})
    assert (made.gpus, made.missing) == ((), ())


def test_a_process_is_told_its_cards_by_its_environment() -> None:
    made = plan(bare(["vllm", "serve", "m"]), gpus=cards(2), sets={"gpus": "1"})
    assert made.container is not None
    assert made.container.body["Env"] == ["CUDA_VISIBLE_DEVICES=GPU-0001"]
    whole = plan(bare(["vllm", "serve", "m"]), gpus=cards(1))
    assert whole.container is not None
    assert whole.container.body["Env"] == []


@pytest.mark.parametrize(
    ("body", "whole", "changed"),
    [
        ({"HostConfig": {"DeviceRequests": [ALL]}}, True, None),
        ({"HostConfig": {"DeviceRequests": [{**ALL, "Count": 2}]}}, True, None),
        ({"HostConfig": {"DeviceRequests": [{**ALL, "Count": 1}]}}, True, {"Count": 0, "DeviceIDs": ["A", "B"]}),
        (
            {"HostConfig": {"DeviceRequests": [{**ALL, "Count": 0, "DeviceIDs": ["0", "3"]}]}},
            True,
            {"Count": 0, "DeviceIDs": ["A", "B"]},
        ),
        (
            {"HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]}},
            False,
            {"Count": 0, "DeviceIDs": ["nvidia.com/gpu=A", "nvidia.com/gpu=B"]},
        ),
        ({"HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]}}, True, None),
    ],
    ids=["all", "count that fits", "count that does not", "pins", "cdi all of some", "cdi all of all"],
)
def test_the_authors_cards_are_replaced(body: dict[str, Any], whole: bool, changed: dict[str, Any] | None) -> None:
    made, told = in_body(body, Choice(("A", "B"), ("A", "B"), whole))
    before = body["HostConfig"]["DeviceRequests"][0]
    assert made["HostConfig"]["DeviceRequests"][0] == ({**before, **changed} if changed else before)
    assert bool(told) is (changed is not None)


def test_pins_in_the_environment_are_replaced_too() -> None:
    body = {
        "Env": ["NVIDIA_VISIBLE_DEVICES=3,4", "CUDA_VISIBLE_DEVICES=3,4", "X=1"],
        "HostConfig": {"Runtime": "nvidia"},
    }
    made, _ = in_body(body, Choice(("A", "B"), ("A", "B"), False))
    assert made["Env"] == ["NVIDIA_VISIBLE_DEVICES=A,B", "CUDA_VISIBLE_DEVICES=0,1", "X=1"]
