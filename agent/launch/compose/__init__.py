"""Compose files: each service that serves a model becomes a container body."""
