"""Stories: long texts with sections, folds and search, as on a task's screen. Mostly pure functions."""
