"""Verbs for single nodes of workflows."""
