"""One module per family of findings, with its SQL file; its `SEARCH` reads the findings."""
