"""One file an engine: its flags, endpoints, metrics, log lines and exits (pure)."""
