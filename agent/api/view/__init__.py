"""What the status page shows, as HTML made on this side alone: the first page and every later change of it."""
