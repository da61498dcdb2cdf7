"""Every flag of `docker run` and `docker create` (CLI 28), one file a family."""
