"""Where an engine's own program and its words stand in a command, for running its argument parser alone."""

from __future__ import annotations

from agent.engines import sglang, vllm
from agent.engines.model import Command, EngineKind
from agent.engines.program import are_arguments, assignments, expand, position, simple_commands

PARSED = {EngineKind.VLLM: vllm.PROGRAMS, EngineKind.SGLANG: sglang.PROGRAMS}
"""Engines in Python, whose parser can be run without anything else; llama-server has none apart from itself."""
DEFAULTS = {EngineKind.VLLM: ("vllm", "serve")}
"""What an image's own entrypoint starts, where the command is arguments alone."""


def own_words(kind: EngineKind, command: Command) -> tuple[str, ...] | None:
    """The program (`vllm serve`, `-m sglang.launch_server`) and its arguments; None where no parser can be run.

    Variables in a shell's script are read from the command's environment and what stands before the program.
    """
    for words in simple_commands(command.words):
        for program in PARSED.get(kind, ()):
            if (at := position(words, program)) is not None:
                env = {**command.env, **assignments(words[:at])}
                return tuple(expand(word, env) for word in (*program, *words[at + len(program) :]))
    default = DEFAULTS.get(kind)
    return (*default, *command.words) if default and are_arguments(command.words) else None
