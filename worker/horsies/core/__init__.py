"""The running parts of the engine, and the import paths that the documents show."""
