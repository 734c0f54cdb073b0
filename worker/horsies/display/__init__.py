"""The words, numbers and data that the commands and the console both show."""
