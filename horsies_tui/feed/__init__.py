"""Reads the database for the console: connections, pace and freshness. Without Textual, Rich or SQL."""
