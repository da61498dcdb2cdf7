"""A window of samples becomes a verdict with evidence and one sentence (pure)."""
