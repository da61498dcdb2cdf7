"""Labels say whose container it is."""

from __future__ import annotations

import pytest

from agent.container.labels import Identity, identity_of, labels_for

OURS = {"recipe-agent.recipe": "r", "recipe-agent.plan": "p", "recipe-agent.generation": "3"}


@pytest.mark.parametrize("identity", [Identity("r", "p", 1), Identity("a-b", "0f", 12, 8000)])
def test_labels_say_the_identity_back(identity: Identity) -> None:
    assert identity_of(labels_for(identity, ["HF_TOKEN"]) | {"other": "label"}) == identity


@pytest.mark.parametrize(
    "labels",
    [
        None,
        {},
        {"other": "label"},
        *({key: value for key, value in OURS.items() if key != missing} for missing in OURS),
        OURS | {"recipe-agent.generation": "three"},
        OURS | {"recipe-agent.generation": "-1"},
        OURS | {"recipe-agent.generation": "9" * 40},
        OURS | {"recipe-agent.recipe": ""},
    ],
)
def test_what_is_not_fully_labelled_is_not_ours(labels: dict[str, str] | None) -> None:
    assert identity_of(labels) is None


def test_a_port_that_is_no_number_is_unknown() -> None:
    assert identity_of(OURS | {"recipe-agent.port": "http"}) == Identity("r", "p", 3)
