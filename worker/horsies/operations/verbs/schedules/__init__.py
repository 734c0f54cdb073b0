"""Verbs for schedules."""
