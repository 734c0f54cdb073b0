"""The console's command line: grammar, completion, history, and the input line."""
