"""The workflow list."""
