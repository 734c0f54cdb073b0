"""The command line of the console: its grammar, its completion, its history, and the line that is typed."""
