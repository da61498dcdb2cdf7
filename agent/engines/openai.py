"""Any other server with the OpenAI API: no metrics that mean the same everywhere, so it is watched blind.

Connections, canary, log silence, processor and cards are what is left; the plan and `detector_blind` say so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.engines.dialect import Silent, ask_one_token
from agent.engines.failures import FAILURES
from agent.engines.flags import Flags
from agent.engines.lines import Meaning, read, starts
from agent.engines.model import (
    Command,
    EngineKind,
    EngineLaunch,
    LogEvent,
    Phase,
    Request,
    Traits,
)
from agent.engines.program import Found, arguments


@dataclass(frozen=True, slots=True)
class Server:
    """A server that speaks the API: how it is started, where it listens unless told otherwise, what says "up"."""

    programs: tuple[tuple[str, ...], ...]
    images: re.Pattern[str] | None
    port: int
    health: str = "/v1/models"


SERVERS: tuple[Server, ...] = (
    Server((("text-generation-launcher",),), re.compile(r"text-generation-inference"), 80, "/health"),
    Server((("lmdeploy", "serve", "api_server"),), None, 23333),
    Server((("mlc_llm", "serve"), ("-m", "mlc_llm", "serve")), None, 8000),
    Server((("ollama", "serve"),), re.compile(r"(?:^|/)ollama/ollama(?:[:@]|$)"), 11434),
    Server((("aphrodite", "run"), ("-m", "aphrodite.endpoints.openai.api_server")), None, 2242, "/health"),
    Server((("-m", "llama_cpp.server"),), None, 8000),
    Server((("mistralrs-server",), ("mistralrs", "serve")), None, 1234, "/health"),
    Server((("-m", "mlx_lm.server"), ("mlx_lm.server",)), None, 8080),
    Server((("transformers", "serve"),), None, 8000),
    Server((("infinity_emb", "v2"),), re.compile(r"(?:^|/)infinity(?:[:@]|$)"), 7997, "/health"),
)

_LOG: tuple[Meaning, ...] = (
    *FAILURES,
    starts(Phase.READY, r"Application startup complete\.|Uvicorn running on http|Connected$"),
)


class OpenAi(Silent):
    """What every such server has in common."""

    kind = EngineKind.OPENAI
    traits = Traits()

    def recognise(self, command: Command) -> bool:
        return find(command) is not None

    def describe(self, command: Command) -> EngineLaunch:
        server, found = find(command) or (None, Found(command.words, dict(command.env)))
        flags = Flags(found.words)
        model = flags.text("--model", "--model-id", "--model-path", "-m") or flags.first()
        return EngineLaunch(
            kind=self.kind,
            port=flags.positive("--port", "--server-port", "-p") or (server.port if server else None),
            host=flags.text("--host", "--hostname", "--server-name"),
            health=server.health if server else "/v1/models",
            metrics=None,
            model=model,
            served_model=flags.text("--served-model-name", "--model-name") or model,
            max_model_len=flags.positive("--max-model-len", "--max-total-tokens", "--session-len"),
            tensor_parallel=flags.positive("--tensor-parallel-size", "--tp", "--num-shard") or 1,
            guarded=flags.has("--api-key", "--api-keys"),
        )

    def read_log(self, line: str) -> LogEvent | None:
        return read(line, _LOG)

    def canary(self, launch: EngineLaunch, nonce: str) -> Request:
        return ask_one_token(launch, nonce, chat=True)


def find(command: Command) -> tuple[Server, Found] | None:
    """The server that this command starts, with its words."""
    for server in SERVERS:
        if (found := arguments(command, server.programs, server.images)) is not None:
            return server, found
    return None
