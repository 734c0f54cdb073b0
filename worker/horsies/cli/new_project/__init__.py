"""The files of `horsies new`, with NAME in place of the project's name, and REQUIREMENT of horsies."""
