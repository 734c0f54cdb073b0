"""Verbs for workflows."""
