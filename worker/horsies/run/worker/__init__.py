"""The worker's own process: claims tasks, starts them, stores their outcomes, beats, sweeps, and obeys operators."""
