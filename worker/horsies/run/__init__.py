"""The worker: claims tasks, runs them in child processes, and stores their outcomes."""
