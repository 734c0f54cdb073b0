"""Recordings of what the feeds read (`horsies tui --record`), shown again with `--replay`."""
