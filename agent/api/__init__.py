"""HTTP: routes, the status page, errors as JSON."""
