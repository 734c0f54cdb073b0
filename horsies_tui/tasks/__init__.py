"""The tasks screen: a live list of tasks under a filter, sorted, or counted in groups."""
