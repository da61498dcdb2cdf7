"""Steps before a launch, recognised by their words: clone, check out, patch, download, pull, install. Never run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agent.launch.cli import is_tool
from agent.launch.model import SetupStep, StepKind
from agent.launch.programs import program

Facts = dict[str, Any]
Known = tuple[StepKind, Facts]


class _Options:
    """A tool's words as options and operands; `values` names the options that take one."""

    def __init__(self, words: Sequence[str], values: Sequence[str] = ()) -> None:
        self.operands: list[str] = []
        self.options: dict[str, list[str]] = {}
        at = 0
        while at < len(words):
            name, equals, value = words[at].partition("=")
            if words[at] == "--":
                self.operands.extend(words[at + 1 :])
                return
            if not words[at].startswith("-") or words[at] == "-":
                self.operands.append(words[at])
            elif not equals and name in values and at + 1 < len(words):
                at += 1
                self.options.setdefault(name, []).append(words[at])
            else:
                self.options.setdefault(name, []).append(value)
            at += 1

    def first(self, *names: str) -> str | None:
        """The last value of any of the options."""
        return next((self.options[name][-1] for name in names if name in self.options), None)

    def operand(self, at: int) -> str | None:
        """An operand, or None."""
        return self.operands[at] if at < len(self.operands) else None


def step_of(argv: Sequence[str], text: str, cwd: str | None) -> SetupStep:
    """The step that `argv` is; `other` where it is none that is known."""
    kind, facts = _known(argv) or (StepKind.OTHER, {})
    return SetupStep(kind, tuple(argv), facts, text, cwd)


def is_known(argv: Sequence[str]) -> bool:
    """Whether `argv` is a step of a known kind."""
    return _known(argv) is not None


def _known(argv: Sequence[str]) -> Known | None:
    if not argv:
        return None
    words = list(argv[1:])
    name = program(argv)
    if is_tool(argv[0]):
        return _docker(words)
    if name.startswith("python") and words[:2] == ["-m", "pip"]:
        name, words = "pip", words[2:]
    if name in ("uv", "hf", "huggingface-cli", "git", "pip", "pip3", "mkdir", "cd"):
        return _BY_NAME[name](words)
    return None


def _git(words: list[str]) -> Known | None:
    directory = None
    while words[:1] == ["-C"] and len(words) > 1:
        directory, words = words[1], words[2:]
    if not words or words[0] not in _GIT:
        return None
    kind, facts = _GIT[words[0]](words[1:])
    return kind, {**facts, "inside": directory} if directory else facts


def _clone(words: list[str]) -> Known:
    read = _Options(words, ("-b", "--branch", "--depth", "-o", "--origin", "-c", "--config", "-j", "--filter"))
    url = read.operand(0) or ""
    folder = url.rstrip("/").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]
    facts = {"url": url, "directory": read.operand(1) or folder, "ref": read.first("-b", "--branch")}
    return StepKind.GIT_CLONE, {**facts, "submodules": any(name.startswith("--recurs") for name in read.options)}


def _fetch(words: list[str]) -> Known:
    read = _Options(words, ("--depth", "-j"))
    return StepKind.GIT_FETCH, {"remote": read.operand(0), "ref": read.operand(1)}


def _checkout(words: list[str]) -> Known:
    read = _Options(words, ("-b", "-B"))
    made = read.first("-b", "-B")
    return StepKind.GIT_CHECKOUT, {"ref": read.operand(0) or made, "branch": made}


def _apply(words: list[str]) -> Known:
    read = _Options(words, ("-p", "--directory", "--exclude", "--include"))
    return StepKind.GIT_APPLY, {"patches": read.operands, "options": sorted(read.options)}


_GIT: dict[str, Callable[[list[str]], Known]] = {
    "clone": _clone,
    "fetch": _fetch,
    "checkout": _checkout,
    "switch": _checkout,
    "apply": _apply,
    "am": _apply,
}


def _hub(words: list[str]) -> Known | None:
    if words[:1] != ["download"]:
        return None
    values = ("--local-dir", "--revision", "--cache-dir", "--repo-type", "--include", "--exclude", "--token")
    read = _Options(words[1:], values)
    facts: Facts = {
        "repo": read.operand(0),
        "files": read.operands[1:],
        "directory": read.first("--local-dir"),
        "revision": read.first("--revision"),
        "include": read.options.get("--include", []),
        "exclude": read.options.get("--exclude", []),
    }
    return StepKind.HF_DOWNLOAD, facts


def _docker(words: list[str]) -> Known | None:
    if words[:1] == ["image"]:
        words = words[1:]
    if words[:1] == ["pull"]:
        read = _Options(words[1:], ("--platform",))
        return StepKind.DOCKER_PULL, {"image": read.operand(0), "platform": read.first("--platform")}
    if words[:2] == ["buildx", "build"]:
        words = words[1:]
    if words[:1] != ["build"]:
        return None
    values = ("-t", "--tag", "-f", "--file", "--build-arg", "--target", "--platform", "--progress", "--network")
    read = _Options(words[1:], values)
    facts: Facts = {
        "tag": read.first("-t", "--tag"),
        "file": read.first("-f", "--file"),
        "context": read.operand(0),
        "arguments": read.options.get("--build-arg", []),
    }
    return StepKind.DOCKER_BUILD, facts


def _pip(words: list[str]) -> Known | None:
    if words[:1] != ["install"]:
        return None
    values = ("-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-e", "--editable",
              "-t", "--target", "-f", "--find-links")  # fmt: skip
    read = _Options(words[1:], values)
    facts: Facts = {
        "packages": read.operands,
        "editable": [*read.options.get("-e", []), *read.options.get("--editable", [])],
        "requirements": [*read.options.get("-r", []), *read.options.get("--requirement", [])],
    }
    return StepKind.PIP_INSTALL, facts


def _uv(words: list[str]) -> Known | None:
    return _pip(words[1:]) if words[:1] == ["pip"] else None


def _mkdir(words: list[str]) -> Known:
    return StepKind.MKDIR, {"paths": _Options(words, ("-m", "--mode")).operands}


def _cd(words: list[str]) -> Known:
    return StepKind.CHDIR, {"path": _Options(words).operand(0)}


_BY_NAME: dict[str, Callable[[list[str]], Known | None]] = {
    "git": _git,
    "hf": _hub,
    "huggingface-cli": _hub,
    "pip": _pip,
    "pip3": _pip,
    "uv": _uv,
    "mkdir": _mkdir,
    "cd": _cd,
}
