"""The site's settings, for commands that need them."""

from __future__ import annotations

import os
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from agent.settings.model import Settings


def settings_of(arguments: Namespace) -> Settings:
    """The settings by --config, RECIPE_AGENT_CONFIG or the default place."""
    from agent.settings.load import load

    return load(Path(arguments.config) if arguments.config else None, os.environ).settings
