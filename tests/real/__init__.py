"""Real engines on the CPU under real faults, watched by the real daemon."""
