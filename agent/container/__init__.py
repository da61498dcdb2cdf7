"""The port to a runtime, labels, adoption, the stop ladder."""
