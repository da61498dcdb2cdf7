"""The published document: model, sources, pinned cache, search."""
