"""A launch in any form becomes a container body (pure)."""
