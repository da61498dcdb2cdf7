"""One look at an engine from all sources, each with a deadline; the window of the last ones."""
