"""Several cards in one container with Docker's 64 MB of /dev/shm: NCCL and the engine's own rings do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from agent.plan.advice.rule import Case, Rule

LEAST = 1 << 30
DOCKERS = 64 << 20


def look(case: Case) -> Iterator[tuple[str, str]]:
    engine = case.engine
    if engine is None or engine.gpus_needed < 2 or not case.contained or case.host.get("IpcMode") == "host":
        return
    size = case.host.get("ShmSize") or DOCKERS
    if size < LEAST:
        yield f"{engine.gpus_needed} cards share {size >> 20} MB of /dev/shm", "--set shm_size=16GiB"


RULE = Rule("shared.memory", "vLLM documentation, Using Docker: --ipc=host or --shm-size", look)
