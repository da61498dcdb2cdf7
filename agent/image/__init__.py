"""Images: pull, overlay build, progress, retention."""
