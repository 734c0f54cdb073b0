"""A module for each check, or for some that read the same, with its SQL beside it: `CHECKS` lists its records."""
