"""The worker: claims tasks, runs them in child processes, and writes down how they ended."""
