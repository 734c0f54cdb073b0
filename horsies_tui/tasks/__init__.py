"""The tasks screen: a live list of filtered tasks, sorted or counted in groups."""
