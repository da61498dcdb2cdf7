"""The simulator takes published launches unchanged and refuses what vLLM refuses, in its way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.simulator import faults, flags
from tests.lab.simulator.settings import from_environment


@pytest.mark.parametrize(
    ("words", "field", "expect"),
    [
        (["m"], "port", 8000),
        (["m", "--port=8095"], "port", 8095),
        (["--model", "m", "-tp", "2", "-pp", "4"], "workers", 8),
        (["m", "-tp", "1"], "workers", 0),
        (["m", "--max-model-len", "32k"], "max_model_len", 32000),
        (["m", "--max-model-len", "32K"], "max_model_len", 32768),
        (["m", "--max_model_len", "1.5M"], "max_model_len", 1572864),
        (["m", "--served-model-name", "a", "b", "--port", "1"], "names", ("a", "b")),
        (["m", "--no-enable-prefix-caching"], "prefix_caching", False),
        (["m", "--speculative-config", '{"method":"mtp","num_speculative_tokens":5}'], "spec_tokens", 5),
        (["m", "--speculative-config.num_speculative_tokens", "3"], "spec_tokens", 3),
        (["m", "--speculative-config.num_speculative_tokens=2"], "spec_tokens", 2),
        (["m", "-O3", "-cc.mode=none", "--enforce-eager"], "eager", True),
        (["m", "--shutdown-timeout", "30"], "shutdown_timeout", 30),
        (["m", "--api-key", "k1", "k2"], "api_keys", ("k1", "k2")),
    ],
)
def test_flags_mean_what_they_mean_to_vllm(words: list[str], field: str, expect: object) -> None:
    assert getattr(flags.parse(["serve", *words]), field) == expect


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serve", "m", "--no-such-flag"], "vllm: error: unrecognized arguments: --no-such-flag\n"),
        (["serve", "m", "--port", "x"], "vllm serve: error: argument --port: invalid int value: 'x'\n"),
        (["serve", "m", "--speculative-config", "{method:mtp}"], "cannot be converted"),
        (["server", "m"], "invalid choice: 'server'"),
    ],
)
def test_a_bad_command_line_ends_with_usage_and_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        flags.parse(words)
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert said.startswith("usage: vllm")
    assert says in said


def test_a_models_own_length_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 2048}')
    assert flags.parse(["serve", str(tmp_path)]).max_model_len == 2048


@pytest.mark.shared
def test_the_published_launch_is_taken_verbatim(shared: Path) -> None:
    document = json.loads(next((shared / "recipes").glob("*pp4*.json")).read_text())
    words = document["config"]["launch"]
    launch = flags.parse(words[words.index("serve") :])
    assert (launch.pipeline_parallel, launch.port, launch.max_model_len) == (4, 8095, 524288)
    assert (launch.spec_tokens, launch.batch_tokens, launch.max_running) == (5, 8192, 32)


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        ("", []),
        ("stall", [("stall", "", None)]),
        ("stall@100, slow_decode:3", [("stall", "", 100.0), ("slow_decode", "3", None)]),
        ("# a note\nexit 7\nstart_fail:kv_too_small\n", [("exit", "7", None), ("start_fail", "kv_too_small", None)]),
        ("zombie", [("zombie_held", "", None)]),
    ],
)
def test_faults_are_written_as_words(text: str, expect: list[tuple[str, str, float | None]]) -> None:
    settings = from_environment({"SIM_FAULT": text})
    assert [(f.kind, f.arg, f.for_s) for f in settings.faults] == expect


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(faults.UnknownFault, match="no fault 'flood'"):
        faults.parse("flood")
    with pytest.raises(faults.UnknownFault, match="no class 'flood'"):
        faults.parse("start_fail:flood")


def test_the_board_shows_what_was_put_last() -> None:
    board = faults.Board()
    assert board.faults() == {}
    board.put([faults.parse("stall@5")])
    assert board.get("stall") == faults.Fault("stall", "", 5.0)
    board.put([])
    assert board.get("stall") is None
