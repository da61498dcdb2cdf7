"""Measure an engine and hold it against the claims of its recipe."""
