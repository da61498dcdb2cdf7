"""TabbyAPI on exllamav3: no metrics at all.

`/health` turns 503 after one generation error and stays so, so it says nothing about death; after a deadlock it stays
200 (theroyallab/tabbyAPI#428). What shows progress is a log line at the end of each request, the cards' power, and a
canary.
"""

from __future__ import annotations

import re
from dataclasses import replace

from agent.engines.dialect import Silent
from agent.engines.failures import FAILURES
from agent.engines.flags import Flags
from agent.engines.lines import Meaning, fails, moves, read, starts
from agent.engines.model import (
    Command,
    EngineKind,
    EngineLaunch,
    FailureClass,
    LogEvent,
    Phase,
    Traits,
)
from agent.engines.program import Found, arguments

PORT = 5000
CHUNK = 2048
"""Prefill tokens a step (`chunk_size`) where the launch does not say."""

_PROGRAMS = (("tabbyapi",), ("-m", "tabbyAPI.main"))
_IMAGES = re.compile(r"(?:^|/)tabbyapi(?:-\w+)*(?:[:@]|$)")
_SCRIPT = re.compile(r"(?:^|/)tabbyapi/(?:main\.py|start\.(?:sh|py))$", re.IGNORECASE)

_LOG: tuple[Meaning, ...] = (
    *FAILURES,
    fails(FailureClass.GPU_OOM, r"Insufficient VRAM(?: in split)?(?: for|$)"),
    starts(Phase.READY, r"Developer documentation:"),
    starts(Phase.WARM_UP, r"Model successfully loaded\."),
    starts(Phase.LOAD, r"Loading model(?: modules)?:?\s.*?(?P<percent>\d+)%|Loading model:"),
    starts(Phase.BOOT, r"(?i:exllamav[23]) version|Your API key is:"),
    moves(r"(?:^|INFO: +)Metrics \(ID: \S+\):"),
)
# Its console wraps lines at 80 columns where it is no terminal: what has no time and level in front is a traceback of
# Python's own, or the rest of a line, a client's words among them (a request's path, or a prompt with `log_prompt`).
_BEGINS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]* [A-Z]+:")


class TabbyApi(Silent):
    """TabbyAPI's habits."""

    kind = EngineKind.TABBYAPI
    traits = Traits()

    def recognise(self, command: Command) -> bool:
        return words_of(command) is not None

    def describe(self, command: Command) -> EngineLaunch:
        flags = Flags((words_of(command) or Found(command.words, {})).words)
        model = flags.text("--model-name")
        return EngineLaunch(
            kind=self.kind,
            port=flags.positive("--port") or PORT,
            host=flags.text("--host"),
            health="/health",
            metrics=None,
            model=model,
            served_model=model,
            max_model_len=flags.positive("--max-seq-len"),
            chunk_tokens=flags.positive("--chunk-size") or CHUNK,
            max_num_seqs=flags.positive("--max-batch-size"),
            guarded=not flags.has("--disable-auth") or flags.text("--disable-auth") == "false",
        )

    def read_log(self, line: str) -> LogEvent | None:
        event = read(line, _LOG)
        if event is None or event.failure is None or _BEGINS.match(event.text):
            return event
        return replace(event, unsure=True)


def words_of(command: Command) -> Found | None:
    """Its arguments: behind its program, its script in its own folder, or as the words of its image."""
    for index, word in enumerate(command.words):
        if _SCRIPT.search(word):
            return Found(command.words[index + 1 :], dict(command.env))
    return arguments(command, _PROGRAMS, _IMAGES)
