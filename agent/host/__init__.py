"""What a host is: GPUs, memory, disk, driver."""
