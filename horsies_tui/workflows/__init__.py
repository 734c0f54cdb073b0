"""The workflows screen: a live list of workflows under a filter."""
