"""A stand-in for vLLM V1: its flags, its HTTP, its metrics, its log and its ways to fail, without a model."""
