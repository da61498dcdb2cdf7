"""Every Prometheus metric's name, help and labels; one collector that renders a snapshot."""
