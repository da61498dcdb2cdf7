"""JSON that a stranger wrote (a launch's words, files of weights, answers of engines) and that is nested too deeply."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.engines.flags import Flags
from agent.preflight import exl3, shards
from agent.preflight.checks.gpu_touch import documents
from agent.samples.accept import events
from agent.verify.ask import tokens_in
from agent.verify.stream import Collected

DEEP = "[" * 100_000 + "]" * 100_000
DEEP_OBJECT = f'{{"a": {DEEP}}}'


@pytest.mark.parametrize(
    ("read", "nothing"),
    [
        (lambda: Flags(("--speculative-config", DEEP_OBJECT)).json("--speculative-config"), {}),
        (lambda: exl3.stated(DEEP_OBJECT.encode()), None),
        (lambda: documents(DEEP_OBJECT), []),
        (lambda: list(events(f"data: {DEEP_OBJECT}")), []),
        (lambda: tokens_in(DEEP_OBJECT), None),
    ],
    ids=["flag", "config.json", "program", "stream", "tokenizer"],
)
def test_it_says_nothing(read: Callable[[], object], nothing: object) -> None:
    assert read() == nothing


def test_weights_with_such_a_header_are_bad() -> None:
    header = DEEP_OBJECT.encode()
    with pytest.raises(shards.BadShard):
        shards.full_size(header, len(header))
    with pytest.raises(shards.BadShard):
        shards.shards_in(header)


@pytest.mark.parametrize("bits", ["1" + "0" * 400, "1e999", "NaN"])
def test_a_number_that_cannot_be_counted_with_is_none(bits: str) -> None:
    found = exl3.stated(f'{{"quantization_config": {{"quant_method": "exl3", "bits": {bits}}}}}'.encode())
    assert found == exl3.Quantised("exl3", None)


@pytest.mark.parametrize(
    "line",
    [
        b'data: {"choices": 5}',
        b'data: {"choices": ["a", 1, null, {"delta": "text"}, {"delta": [1]}]}',
        b'data: {"usage": {"completion_tokens": "many", "prompt_tokens": [1]}}',
        b'data: {"usage": 3}',
        b"data: 7",
    ],
)
def test_an_event_of_another_shape_counts_for_nothing(line: bytes) -> None:
    collected = Collected(0.0)
    collected.add(line, 1.0)
    assert (collected.times, collected.tokens, collected.prompt_tokens) == ([], None, None)
