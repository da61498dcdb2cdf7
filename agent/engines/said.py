"""Whose words a log line holds: the engine's own, or what clients sent, and whether the engine went on after them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

# A quotation begins: what stands behind it was given to the engine (a path of a request, a model's name, a prompt, a
# value that was refused), or is the source text of a traceback. An apostrophe inside a word begins none.
_QUOTE = re.compile(r"(?<![\w\\])['\"`]")
# What clients sent, and what the model said to them, may stand in the log without quotation marks as well
# (`--enable-log-requests`, `--enable-log-outputs`, `--log-requests`, TabbyAPI's `log_prompt`, llama.cpp's requests,
# whose paths are decoded): it must not be read as the engine's own words. So may the dump of its configuration.
_GIVEN = re.compile(
    r"Received request |Generated response |log_server_r: (?:done )?(?:request|response): |Receive: obj=|Finish: obj="
    r"|\bprompt: |(?:Prompt|Response|prompt|response) \(ID: [^)]*\): |non-default args: |server_args="
)
# Levels below an error, in the forms of vLLM and uvicorn, TabbyAPI and Python's own, PyTorch's and NCCL's C++ sides,
# TensorRT-LLM, and llama.cpp. Engines end with an error, or with a traceback that has no level; what they only note or
# warn of was survived. A client's words are never logged above `info`.
_CALM = re.compile(
    r"^(?:\([^()]{1,80}\)\s+)*(?:\[[\d :.,T-]+\]\s+)?(?:INFO|DEBUG|TRACE|WARNING|WARN)\b"
    r"|^(?:\[\w+\]:?\s*)?\[[WI]\d{3,4} "
    r"|^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]?\d*\s+(?:-\s+)?(?:INFO|DEBUG|TRACE|WARNING)\b"
    r"|^\[TensorRT-LLM\]\[(?:INFO|WARNING|DEBUG|VERBOSE)\]"
    r"|^\[[^\]]*\] \[TRT-LLM\] (?:\[[^\]]*\] )*\[[IWVD]\]"
    r"|^\d+\.\d\d\.\d{3}\.\d{3} [IWD] "
)
# The engine says that it goes on all the same.
_SURVIVED = re.compile(r"\b[Rr]etrying\b|\b[Rr]etry \d+ ?(?:/|of)|\b[Ff]all(?:ing|s)? ?back\b|\[Autotuner\]")

_LEVELS = ("level", "levelname", "severity", "lvl")
# A traceback tells more than the sentence that it was logged with.
_TEXTS = ("exc_info", "exception", "traceback", "stack", "message", "msg", "event", "text")


def own_until(text: str) -> tuple[int, int]:
    """Where the engine's own words end: a meaning must begin before the first place, and have ended by the second."""
    quote = _QUOTE.search(text)
    given = _GIVEN.search(text)
    return (quote.start() if quote else len(text)), (given.end() if given else len(text))


def survived(text: str) -> bool:
    """A line that names no end: it is below an error, or says that the engine tries again or does without."""
    return _CALM.search(text) is not None or _SURVIVED.search(text) is not None


def spoken(text: str) -> Iterator[str]:
    """The lines of a record in JSON, as logging configurations of one's own write them, with its level in front; any
    other line as it is. A record has a level: a client's JSON that was merely printed has none."""
    record = record_of(text)
    level = next((str(record[key]).upper() for key in _LEVELS if key in record), None)
    if level is None:
        yield text
        return
    for words in (record.get(key) for key in _TEXTS):
        for line in words.splitlines() if isinstance(words, str) else ():
            yield f"{level} {line}"


def record_of(text: str) -> dict[str, object]:
    """Empty for what is no JSON object."""
    if not text.startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
