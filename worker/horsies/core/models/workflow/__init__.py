"""Workflow data types under the import paths that the documents show."""
