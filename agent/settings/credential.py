"""Where a file of the site lies: credentials of the unit are in a folder that only its process knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.errors import InvalidInput
from agent.settings.model import CREDENTIALS

FOLDER = "CREDENTIALS_DIRECTORY"


class NoCredentials(InvalidInput):
    """A credential is asked for where systemd gave none."""

    code = "settings.credential"
    message = "cannot read the credential {name}: this process has no CREDENTIALS_DIRECTORY"
    hint = "LoadCredential={name}:/path/to/a/file in the unit, or the whole path of the file in agent.yaml"


def place_of(path: Path, environ: Mapping[str, str]) -> Path:
    """The real path. Raises NoCredentials for a credential without systemd."""
    if not path.is_relative_to(CREDENTIALS):
        return path
    name = path.relative_to(CREDENTIALS)
    folder = environ.get(FOLDER, "")
    if not folder:
        raise NoCredentials(name=name)
    return Path(folder) / name
