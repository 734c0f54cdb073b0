"""Verbs for workers."""
