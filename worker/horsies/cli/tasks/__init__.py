"""The commands of `horsies tasks`."""
