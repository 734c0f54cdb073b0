"""The worker's side of the processes that it starts: its children with their jobs and output, and their guard."""
