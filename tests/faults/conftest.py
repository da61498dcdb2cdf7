"""One agent for all plays of a run, on a host whose cards are shown by the stand-in driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import recipes
from tests.e2e.rig import Rig
from tests.faults.plays import PLAYS
from tests.faults.stage import Cards, Season
from tests.lab import images
from tests.lab.engine import Engine
from tests.lab.nvml.standin import StandIn


@pytest.fixture(scope="module")
def season(
    request: pytest.FixtureRequest, lab_engine: Engine, nvml_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Season]:
    """The plays whose tests were asked for, begun all at once."""
    wanted = {item.callspec.params["play"].id for item in request.session.items if is_play(item)}
    images.simulator(lab_engine, recipes.IMAGE)
    folder = tmp_path_factory.mktemp("faults")
    standin = StandIn(nvml_library, folder / "nvml.json")
    cards = Cards(standin)
    rig = Rig(folder, lab_engine, standin.environment)
    rig.site["budget"] = {"host_restarts": 1000}
    try:
        rig.start()
        season = Season(rig, cards, [play for play in PLAYS if play.id in wanted])
        yield season
        season.close()
    finally:
        rig.close()


def is_play(item: pytest.Item) -> bool:
    return getattr(item, "originalname", "") == "test_a_row_played_in_real_time"
