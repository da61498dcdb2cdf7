"""The site file: model, layers with origins."""
