"""Workflow services under the import paths that the documents show."""
