"""What an engine writes becomes lines that can be read and matched."""

from __future__ import annotations

import pytest

from agent.container.log_text import split


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("one\ntwo\n", ["one", "two"]),
        ("one\r\ntwo", ["one", "two"]),
        ("\r  5%|▌ | 1/20\r 10%|█ | 2/20\n", ["  5%|▌ | 1/20", " 10%|█ | 2/20"]),
        ("\x1b[1;36m(EngineCore pid=7)\x1b[0;0m INFO ready\x1b[K\n", ["(EngineCore pid=7) INFO ready"]),
        ("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", ["textlink"]),
        ("\x1b(Btext\x1b=\n", ["text"]),
        ("tab\tstays, bell\x07 and nul\x00 go  \n", ["tab\tstays, bell and nul go"]),
        ("\x1b[0m\n \n", []),
    ],
)
def test_lines_are_clean(text: str, lines: list[str]) -> None:
    assert split(text) == lines
