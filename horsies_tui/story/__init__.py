"""Long texts with sections, folds and search, as on a task's screen; mostly pure functions."""
