"""Parts of a container body as flags of `docker run`."""
