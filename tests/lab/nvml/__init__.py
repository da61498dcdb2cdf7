"""A stand-in libnvidia-ml.so.1, and hosts for it to show."""
