"""agentctl config: check the site file and the site's profiles, or show what is in force and where it came from."""

from __future__ import annotations

import os
from pathlib import Path

from agent.cli.output import coloured, print_json, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from agent.settings.model import Settings


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="check|show", choices=("check", "show"), help="check the files, or show every value"
    )
    parser.add_argument("--origin", action="store_true", help="show: where each value came from")


def run(arguments: Namespace) -> int:
    from agent.settings.load import load

    loaded = load(Path(arguments.config) if arguments.config else None, os.environ)
    files = [str(file) for file in loaded.files]
    if arguments.action == "check":
        files += [str(path) for path in checked(loaded.settings)]
        if arguments.json:
            print_json({"ok": True, "files": files})
        elif not arguments.quiet:
            print(f"good: {', '.join(files) or 'there is no site file, the defaults are in force'}")
        return 0
    rows = list(loaded.rows())
    if arguments.json:
        print_json({key: {"value": value, "origin": origin} for key, value, origin in rows})
    elif arguments.origin:
        print(table([(k, shown(v), o) for k, v, o in rows], ("KEY", "VALUE", "ORIGIN"), coloured(arguments)))
    else:
        print("\n".join(f"{key}: {shown(value)}" for key, value, _ in rows))
    return 0


def checked(settings: Settings) -> Iterator[Path]:
    """The site's profiles, each read as a plan reads it. Raises BadProfile or BadYaml at the first unfit one."""
    from agent.errors import InvalidInput
    from agent.plan.watching import overrides
    from agent.plan.windows import derive
    from agent.profile.load import load as load_profile
    from agent.profile.trouble import BadProfile

    folder = settings.paths.profiles
    for path in sorted(folder.glob("*.yaml")):
        profile = load_profile(folder, path.stem)
        if profile is None:
            continue  # it went meanwhile
        try:
            derive(None, (), overrides(profile, settings))
        except InvalidInput as error:
            raise BadProfile(what=str(path), why=error.text, advice=error.advice) from error
        yield path


def shown(value: object) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)
