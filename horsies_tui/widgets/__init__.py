"""Widgets that several screens of the console use."""
