"""Workflows without a database: the engine's own code runs on rows in memory, which answer its statements."""
