"""Which engine a command starts."""

from __future__ import annotations

from agent.engines.dialect import Dialect
from agent.engines.llamacpp import LlamaCpp
from agent.engines.model import Command, EngineKind, EngineLaunch
from agent.engines.openai import OpenAi
from agent.engines.sglang import SGLang
from agent.engines.tabbyapi import TabbyApi
from agent.engines.trtllm import TrtLlm
from agent.engines.vllm import Vllm

# Asked in this order; the generic one last, since it takes what no other knows.
DIALECTS: tuple[Dialect, ...] = (Vllm(), SGLang(), LlamaCpp(), TrtLlm(), TabbyApi(), OpenAi())
_BY_KIND = {dialect.kind: dialect for dialect in DIALECTS}


def engine_of(command: Command) -> tuple[Dialect, EngineLaunch] | None:
    """The engine that this command starts with what its flags say; None where it starts none that is known."""
    for dialect in DIALECTS:
        if dialect.recognise(command):
            return dialect, dialect.describe(command)
    return None


def dialect_of(kind: EngineKind) -> Dialect:
    """The habits of one kind."""
    return _BY_KIND[kind]
