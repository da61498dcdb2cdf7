"""SLUG|FILE and --set, as commands that want a recipe take them."""

from __future__ import annotations

import os

from agent.errors import InvalidInput, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

LARGEST_DOCUMENT = 5_000_000


def add_wanted(parser: ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="SLUG|FILE", help="a recipe of the sources, or a document")
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="KEY=VALUE", help="a value of the plan"
    )


def is_file(text: str) -> bool:
    """A path is meant where it exists or looks like one: slugs have neither separators nor endings."""
    return os.sep in text or text.endswith((".json", ".yaml", ".yml")) or os.path.isfile(text)  # noqa: PTH113


def sets_of(arguments: Namespace) -> dict[str, str]:
    """`--set KEY=VALUE` as a mapping; the last of a key wins."""
    pairs = {}
    for text in arguments.sets:
        key, by, value = text.partition("=")
        if not by or not key.strip():
            raise UsageError(why=f"--set takes KEY=VALUE, not {text!r}")
        pairs[key.strip()] = value
    return pairs


def wanted_body(arguments: Namespace) -> dict[str, Any]:
    """The request's body: the slug, or the document that is read here and sent."""
    if not is_file(arguments.recipe):
        return {"slug": arguments.recipe, "sets": sets_of(arguments)}
    data = read_document(arguments.recipe)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(what=arguments.recipe, why=f"it is not UTF-8 text: {error.reason}") from error
    return {"document": text, "source": whole_path(arguments.recipe), "sets": sets_of(arguments)}


def whole_path(path: str) -> str:
    """From the root, for whoever has another folder; as it is where this one was removed."""
    try:
        return os.path.abspath(path)  # noqa: PTH100
    except OSError:
        return path


def read_document(path: str) -> bytes:
    """The bytes of a document, with a bound on its size."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(LARGEST_DOCUMENT + 1)
    except FileNotFoundError as error:
        from agent.recipe.trouble import NoRecipe

        raise NoRecipe(name=path, why="there is no such file") from error
    except OSError as error:
        raise InvalidInput(what=path, why=error.strerror or error, advice="check the path") from error
    if len(data) > LARGEST_DOCUMENT:
        raise InvalidInput(what=path, why=f"it is larger than {LARGEST_DOCUMENT:,} bytes, which no recipe is")
    return data
