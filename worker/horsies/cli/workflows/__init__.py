"""The commands of `horsies workflows`."""
