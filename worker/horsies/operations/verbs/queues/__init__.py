"""Verbs for queues."""
