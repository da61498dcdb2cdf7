"""What the documents for people say is so: links, commands, codes, states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.action.record import State
from agent.cli.main import COMMANDS
from tests.lab.place import REPOSITORY

PARTS = ("agent", "config", "packaging", "tests", "units")
DOCUMENTS = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(path for part in PARTS for path in (REPOSITORY / part).rglob("README.md")),
]
README = (REPOSITORY / "README.md").read_text()


def errors() -> set[str]:
    """Every code that an error of the agent has."""
    sources = (path.read_text() for path in (REPOSITORY / "agent").rglob("*.py"))
    return {code for text in sources for code in re.findall(r'^    code = "([\w.]+)"', text, re.MULTILINE)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(path: Path) -> None:
    """Relative ones, to files and folders of the checkout."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_no_document_is_out_of_reach() -> None:
    """From the README, over any number of links."""
    reached, left = set(), [REPOSITORY / "README.md"]
    while left:
        path = left.pop()
        reached.add(path)
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
        found = {(path.parent / link).resolve() for link in links if link.endswith(".md")}
        left += sorted(found - reached - set(left))
    assert [path for path in DOCUMENTS if path.resolve() not in reached] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_commands_exist(path: Path) -> None:
    """Every `agentctl WORD` is a command."""
    named = set(re.findall(r"(?:`|\$ |^)agentctl ([a-z]+)\b", path.read_text(), re.MULTILINE))
    assert named - set(COMMANDS) == set()


def test_codes_of_errors_exist() -> None:
    """Those of the table; a family stands with an ellipsis."""
    table = README.partition("## When it says no")[2].partition("## More")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [code for cell in first for code in re.findall(r"`([\w.…]+)`", cell)]
    known = {*errors(), "preflight.…", *(f"{code.partition('.')[0]}.…" for code in errors())}
    assert len(named) > 20
    assert [code for code in named if code not in known] == []


def test_every_state_is_explained() -> None:
    """In the table of states, and no other."""
    table = README.partition("| state | means |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(word for row in rows for word in re.findall(r"`(\w+)`", row)) == sorted(State)


def test_targets_of_make_exist() -> None:
    """Every `make WORD` of the documents."""
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for path in DOCUMENTS:
        assert set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)`", path.read_text(), re.MULTILINE)) <= {
            pair for target in targets for pair in ((target, ""), ("", target))
        }
