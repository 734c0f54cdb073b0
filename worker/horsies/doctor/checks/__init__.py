"""Modules with related checks, each with its SQL beside it; `CHECKS` lists its records."""
