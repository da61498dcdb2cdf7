"""Product names as NVML gives them."""

from __future__ import annotations

import pytest

from agent.host.known_cards import capability_by_name


@pytest.mark.parametrize(
    ("name", "sm"),
    [
        ("NVIDIA CMP 170HX", "sm_80"),
        ("NVIDIA A100-SXM4-80GB", "sm_80"),
        ("NVIDIA A10G", "sm_86"),
        ("NVIDIA A10", "sm_86"),
        ("NVIDIA GeForce RTX 3090 Ti", "sm_86"),
        ("NVIDIA L40S", "sm_89"),
        ("NVIDIA RTX 6000 Ada Generation", "sm_89"),
        ("NVIDIA H200", "sm_90"),
        ("NVIDIA GH200 480GB", "sm_90"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm_120"),
        ("NVIDIA GB10", "sm_121"),
    ],
)
def test_a_name_tells_the_capability(name: str, sm: str) -> None:
    """The longest name that stands in it as a word counts."""
    found = capability_by_name(name)
    assert found is not None
    assert found.sm == sm


@pytest.mark.parametrize("name", ["", "NVIDIA A1000 Laptop GPU", "AMD Instinct MI300X", "NVIDIA Quadro P4000"])
def test_an_unknown_name_stays_unknown(name: str) -> None:
    """Nothing is guessed from a part of a word."""
    assert capability_by_name(name) is None
