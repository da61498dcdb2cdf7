"""`config/agent.yaml` is the model, written down."""

from __future__ import annotations

import re
from pathlib import Path

from agent.settings.document import document
from agent.settings.load import from_layers
from agent.settings.model import Settings
from agent.settings.yaml_text import read_mapping

SHIPPED = Path(__file__).resolve().parents[2] / "config" / "agent.yaml"


def test_the_shipped_file_is_what_the_model_says() -> None:
    assert SHIPPED.read_text() == document(), "run: python -m agent.settings.document > config/agent.yaml"


def test_with_every_comment_taken_away_it_states_the_defaults() -> None:
    live = re.sub(r"^(\s*)#(\w)", r"\1\2", document(), flags=re.M)
    stated = read_mapping(live, "the document")
    assert from_layers([("the document", stated)]).settings == Settings()
    assert set(stated) == set(Settings.model_fields)
