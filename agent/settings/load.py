"""Reading the site file: `agent.yaml`, then `conf.d/*.yaml` beside it by their names, then the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.errors import InvalidInput
from agent.settings.environment import overrides
from agent.settings.explain import SHOWN, explain
from agent.settings.layers import DEFAULT, flatten, merge
from agent.settings.model import Settings
from agent.settings.yaml_text import read_mapping

DEFAULT_PATH = Path("/etc/recipe-agent/agent.yaml")
VARIABLE = "RECIPE_AGENT_CONFIG"
MAX_BYTES = 1_000_000


class BadSettings(InvalidInput):
    """The site file is there and cannot be used."""

    code = "settings.invalid"
    message = "cannot read the settings {what}: {why}"
    hint = "agentctl config check shows it again; every key is described in config/agent.yaml"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, where each value came from, and the files that were read, in order."""

    settings: Settings
    origins: Mapping[str, str]
    files: tuple[Path, ...]

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """Every key with its value and its origin (`default`, a file, or a variable)."""
        for key, value in flatten(self.settings.model_dump(mode="json")):
            yield key, value, self.origins.get(key, DEFAULT)


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """Settings of `path`, else of RECIPE_AGENT_CONFIG in `environ`, else of the default place.

    A file that is named and missing is an error; nothing at the default place means the defaults. Raises BadSettings.
    """
    named = path if path is not None else _named(environ or {})
    main = DEFAULT_PATH if named is None else named
    files = ([main] if named is not None or main.is_file() else []) + sorted(main.parent.glob("conf.d/*.yaml"))
    read = [(str(file), _mapping(file)) for file in files]
    return from_layers([*read, *overrides(environ or {})], tuple(files))


def from_layers(layers: list[tuple[str, Mapping[str, Any]]], files: tuple[Path, ...] = ()) -> Loaded:
    """Settings out of named mappings. Raises BadSettings, which names the layer that a wrong value came from."""
    merged, origins = merge(layers)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        told = error.errors(include_url=False)[:SHOWN]
        culprits = sorted({_culprit(item["loc"], origins) for item in told} - {""})
        what = ", ".join(culprits) or ", ".join(name for name, _ in layers)
        raise BadSettings(what=what, why=explain(error, Settings)) from error
    return Loaded(settings, origins, files)


def _named(environ: Mapping[str, str]) -> Path | None:
    return Path(environ[VARIABLE]) if environ.get(VARIABLE) else None


def _culprit(loc: tuple[str | int, ...], origins: Mapping[str, str]) -> str:
    """The layer that gave the value at `loc`, or anything below it."""
    key = ".".join(str(part) for part in loc)
    exact = (origins[key[:end]] for end in _ends(key) if key[:end] in origins)
    below = (name for path, name in origins.items() if path.startswith(f"{key}."))
    return next(exact, next(below, ""))


def _ends(key: str) -> Iterator[int]:
    yield len(key)
    yield from (at for at in range(len(key) - 1, 0, -1) if key[at] == ".")


def _mapping(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise BadSettings(what=str(file), why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise BadSettings(what=str(file), why=f"it is no UTF-8 text (byte {error.start})") from error
    if len(data) > MAX_BYTES:
        raise BadSettings(what=str(file), why=f"it is larger than {MAX_BYTES:,} bytes")
    return read_mapping(text, str(file))
