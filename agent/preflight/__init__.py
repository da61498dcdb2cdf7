"""Findings: one file a check, all run, none raises."""
