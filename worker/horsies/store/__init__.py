"""The only code that talks to PostgreSQL."""
