"""Workflows: tasks that wait for each other, as users define them, start them and look at them."""
