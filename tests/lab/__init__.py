"""Real parts for the tests: a Docker Engine, a registry, Prometheus, a recipe site, images made from this machine."""
