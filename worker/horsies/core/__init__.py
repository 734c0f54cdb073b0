"""Import paths that the documents show; everything here is defined elsewhere."""
