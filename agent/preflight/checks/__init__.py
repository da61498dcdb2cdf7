"""One file a check; `catalogue` one floor up lists them."""
