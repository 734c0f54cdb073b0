"""What the detail of a task tells, as lines: pure, so that scale, folds and search are tested without a terminal."""
