"""`make demo`: the whole path on this machine, with an engine simulator in the place of an engine."""
