"""One module for each family of findings, with its statement beside it: its `SEARCH` reads them."""
