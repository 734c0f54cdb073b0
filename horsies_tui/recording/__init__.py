"""What the feeds saw, written into a file (`horsies tui --record`), and shown again from it (`--replay`)."""
