"""One workflow: its graph, and the story of one of its nodes."""
