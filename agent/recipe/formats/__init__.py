"""Recipes in other people's formats: sparkrun, the vLLM project's, compose files, shell scripts."""
