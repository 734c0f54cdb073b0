"""Verbs for operations that were done before."""
