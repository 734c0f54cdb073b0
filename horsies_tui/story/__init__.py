"""Texts with sections, folds and search, as on the screen of a task; mostly pure functions, tested without a
terminal."""
