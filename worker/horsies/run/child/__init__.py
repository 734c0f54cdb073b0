"""The child process: imports the application, runs user code, and has no database connection."""
