"""The command line: parsed as the real engine parses it, so that a published launch runs unchanged or fails alike."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from . import flag_table

COMMANDS = "chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch,snapshot"
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True)
class Launch:
    """What the flags decide here; the others are taken and change nothing. `given` is what the user wrote."""

    model: str
    names: tuple[str, ...]
    host: str
    port: int
    max_model_len: int
    max_running: int
    batch_tokens: int
    block_size: int
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    api_keys: tuple[str, ...]
    prefix_caching: bool
    spec_tokens: int
    mfu: bool
    load_tracking: bool
    shutdown_timeout: int
    eager: bool
    log_stats: bool
    access_log: bool
    tokens_only: bool
    memory_utilization: float
    given: dict[str, Any]

    @property
    def workers(self) -> int:
        """Worker processes of one engine core: none of its own for a single GPU (the core is the worker then)."""
        world = self.tensor_parallel * self.pipeline_parallel
        return world if world > 1 else 0


def _size(text: str) -> int:
    """`32768`, `32k` (decimal), `32K` (binary), `1.5M`, or `auto` (-1)."""
    if text in {"auto", "-1"}:
        return -1
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"invalid integer value: {text!r}")
    return int(float(found[1]) * _UNITS.get(found[2], 1))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to <function loads>.") from error


class _Serve(argparse.ArgumentParser):
    """Errors end in the engine's own way: its usage, one line, exit 2."""

    def format_usage(self) -> str:
        return "usage: vllm serve [model_tag] [options]\n"

    def error(self, message: str) -> NoReturn:
        before, unrecognized, rest = message.partition("unrecognized arguments: ")
        if unrecognized and not before:
            refuse([rest])
        self.exit(2, f"{self.format_usage()}{self.prog}: error: {message}\n")


def _usage() -> str:
    return f"usage: vllm [-h] [-v]\n            {{{COMMANDS}}}\n            ...\n"


def _parser() -> _Serve:
    parser = _Serve(prog="vllm serve", argument_default=argparse.SUPPRESS)
    parser.add_argument("model_tag", nargs="?")
    for table, kind in ((flag_table.INT, int), (flag_table.FLOAT, float), (flag_table.SIZE, _size),
                        (flag_table.JSON, _json), (flag_table.TEXT, str)):  # fmt: skip
        for options in flag_table.names(table):
            parser.add_argument(*options, type=kind)
    for options in flag_table.names(flag_table.LIST):
        parser.add_argument(*options, nargs="+", action="extend")
    for options in flag_table.names(flag_table.SWITCH):
        parser.add_argument(*options, action=argparse.BooleanOptionalAction)
    return parser


def _normalise(arguments: Sequence[str]) -> list[str]:
    """`--max_model_len` is `--max-model-len`; `--cfg.key value` is a part of the JSON of `--cfg`; `-O3` is `-O 3`."""
    out: list[str] = []
    for argument in arguments:
        head, equals, value = argument.partition("=")
        if head.startswith("--"):
            name, dot, key = head.partition(".")
            out.append(name.replace("_", "-") + dot + key + equals + value)
        else:
            out.append(argument)
    return out


def _take_dotted(arguments: list[str], known: set[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Split off `--cfg.key[=]value`; keys may be dotted again. Returns the rest and the nested values by flag."""
    rest: list[str] = []
    nested: dict[str, dict[str, Any]] = {}
    queue = list(arguments)
    while queue:
        argument = queue.pop(0)
        head, equals, value = argument.partition("=")
        name, dot, key = head.partition(".")
        if not dot or name not in known:
            rest.append(argument)
            continue
        text = value if equals else (queue.pop(0) if queue else "true")
        _put(nested.setdefault(name, {}), key.split("."), text)
    return rest, nested


def _put(target: dict[str, Any], path: list[str], text: str) -> None:
    for part in path[:-1]:
        target = target.setdefault(part, {})
    try:
        target[path[-1]] = json.loads(text)
    except ValueError:
        target[path[-1]] = text


def parse(arguments: Sequence[str]) -> Launch:
    """The arguments after the program's name. Ends the process with code 2 on a bad one, 0 after help or version."""
    if not arguments or arguments[0] in {"-h", "--help", "-v", "--version"} or arguments[0] not in COMMANDS.split(","):
        _end_without_command(arguments)
    parser = _parser()
    json_flags = {option for options in flag_table.names(flag_table.JSON) for option in options}
    rest, nested = _take_dotted(_normalise(arguments[1:]), json_flags)
    values = parser.parse_args(rest)
    given = dict(vars(values))
    for flag, value in nested.items():
        action = next(a for a in parser._actions if flag in a.option_strings)
        given[action.dest] = {**given.get(action.dest, {}), **value}
    return _launch(given)


def refuse(unknown: Sequence[str]) -> NoReturn:
    """End the process as unknown flags do: usage, one line, code 2."""
    sys.stderr.write(f"{_usage()}vllm: error: unrecognized arguments: {' '.join(unknown)}\n")
    sys.exit(2)


def _end_without_command(arguments: Sequence[str]) -> NoReturn:
    parser = argparse.ArgumentParser(prog="vllm", usage=_usage()[len("usage: ") :])
    if arguments and arguments[0] in {"-v", "--version"}:
        parser.exit(0, "0.32.0\n")
    if arguments and arguments[0] not in {"-h", "--help"}:
        quoted = ", ".join(repr(c) for c in COMMANDS.split(","))
        parser.exit(2, f"{_usage()}vllm: error: argument subparser: invalid choice: {arguments[0]!r} "
                       f"(choose from {quoted})\n")  # fmt: skip
    parser.exit(0, _usage())


def _model_length(model: str) -> int:
    """The length that the model's own config.json states, where the folder is there."""
    try:
        config = json.loads((Path(model) / "config.json").read_text())
        return int(config.get("max_position_embeddings", 32768))
    except (OSError, ValueError, AttributeError):
        return 32768


def _launch(given: dict[str, Any]) -> Launch:
    model = given.get("model_tag") or given.get("model") or "Qwen/Qwen3-0.6B"
    length = given.get("max_model_len", -1)
    batch = given.get("max_num_batched_tokens", -1)
    spec = given.get("speculative_config") or {}
    return Launch(
        model=model,
        names=tuple(given.get("served_model_name") or [model]),
        host=given.get("host", "0.0.0.0"),
        port=given.get("port", 8000),
        max_model_len=length if length > 0 else _model_length(model),
        max_running=given.get("max_num_seqs", 256),
        batch_tokens=batch if batch > 0 else 8192,
        block_size=given.get("block_size", 16),
        tensor_parallel=given.get("tensor_parallel_size", 1),
        pipeline_parallel=given.get("pipeline_parallel_size", 1),
        data_parallel=given.get("data_parallel_size", 1),
        api_keys=tuple(given.get("api_key") or ()),
        prefix_caching=given.get("enable_prefix_caching", True),
        spec_tokens=int(spec.get("num_speculative_tokens", 0)),
        mfu=given.get("enable_mfu_metrics", False),
        load_tracking=given.get("enable_server_load_tracking", False),
        shutdown_timeout=given.get("shutdown_timeout", 0),
        eager=given.get("enforce_eager", False),
        log_stats=not given.get("disable_log_stats", False),
        access_log=not given.get("disable_uvicorn_access_log", False),
        tokens_only=given.get("tokens_only", False),
        memory_utilization=given.get("gpu_memory_utilization", 0.92),
        given=given,
    )
