"""What only a machine with an NVIDIA GPU can show."""
