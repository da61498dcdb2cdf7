"""Profiles on disk, by slug: the shipped ones in this package, the operator's in a folder of theirs."""

from __future__ import annotations

from pathlib import Path

from agent.profile.document import Profile
from agent.profile.layers import validate
from agent.profile.trouble import BadProfile
from agent.settings.yaml_text import read_mapping

SHIPPED_FOLDER = Path(__file__).with_name("shipped")
"""A link to the repository's config/profiles; in a wheel it is a folder with the same files."""
MAX_BYTES = 1_000_000


def load(folder: Path, slug: str) -> Profile | None:
    """The profile SLUG.yaml of a folder, None where there is none. Raises BadProfile, BadYaml."""
    path = folder / f"{slug}.yaml"
    text = _text(path)
    if text is None:
        return None
    profile = validate(read_mapping(text, str(path)), str(path))
    if profile.recipe is not None and profile.recipe.slug != slug:
        raise BadProfile(what=str(path), why=f"it says that it is for {profile.recipe.slug!r}")
    return profile


def shipped(slug: str) -> Profile | None:
    """The profile that comes with the agent for a recipe, None where there is none."""
    return load(SHIPPED_FOLDER, slug)


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadProfile(what=str(path), why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise BadProfile(what=str(path), why=f"it is no UTF-8 text (byte {error.start})") from error
    if len(data) > MAX_BYTES:
        raise BadProfile(what=str(path), why=f"it is larger than {MAX_BYTES:,} bytes")
    return text
