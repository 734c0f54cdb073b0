"""Workflows: how users define graphs of tasks, start them and read their results."""
