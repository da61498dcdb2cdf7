"""The only place that touches Docker, NVML, the network, processes, /proc and the disk's state."""
