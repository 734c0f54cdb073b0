"""Background tasks and workflows on PostgreSQL."""

__version__ = "0.1.0"
