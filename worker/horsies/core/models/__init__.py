"""Data types under the import paths that the documents show."""
