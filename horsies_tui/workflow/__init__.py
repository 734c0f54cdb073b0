"""The screen of one workflow: its graph, and the details of one of its nodes."""
