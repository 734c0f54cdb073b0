"""The `horsies` command."""
