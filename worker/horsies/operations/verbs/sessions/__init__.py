"""Verbs for sessions of the server."""
