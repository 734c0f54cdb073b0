"""The task list: live rows under a filter, in an order, or counted in groups."""
