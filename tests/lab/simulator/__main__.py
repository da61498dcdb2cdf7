"""`python -m simulator serve MODEL …`: what the image's `vllm` runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from . import flags, settings
from .serve import serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse flags and environment, serve, and return the exit code."""
    launch = flags.parse(sys.argv[1:] if arguments is None else arguments)
    return serve(launch, settings.from_environment(os.environ))


if __name__ == "__main__":
    sys.exit(main())
