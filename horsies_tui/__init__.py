"""The console: live screens over the tables that the `horsies` engine fills."""
