"""Splits a command line into words, with quotes and backslashes as in a shell, and keeps their positions."""

from __future__ import annotations

from dataclasses import dataclass

_QUOTES = "'\""


@dataclass(frozen=True, slots=True)
class CommandWord:
    """A word: its `start` and `end` in the line, and its text without quotes."""

    text: str
    start: int
    end: int
    unclosed: int | None = None
    """Position of a quote that is never closed."""


def words(line: str, start: int = 0) -> list[CommandWord]:
    """Return every word from `start` on. Nothing is rejected, so that completion works on an incomplete line."""
    found: list[CommandWord] = []
    position = start
    while True:
        while position < len(line) and line[position].isspace():
            position += 1
        if position >= len(line):
            return found
        found.append(_word(line, position))
        position = found[-1].end


def _word(line: str, start: int) -> CommandWord:
    meant: list[str] = []
    quote, opened, position = "", None, start
    while position < len(line):
        char = line[position]
        if char == "\\" and quote != "'" and position + 1 < len(line):
            position += 1
            meant.append(line[position])
        elif quote:
            quote = "" if char == quote else quote
            meant += [char] if quote else []
        elif char in _QUOTES:
            quote, opened = char, position
        elif char.isspace():
            break
        else:
            meant.append(char)
        position += 1
    return CommandWord("".join(meant), start, position, opened if quote else None)
