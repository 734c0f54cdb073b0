"""The broker under the import path that the documents show."""
