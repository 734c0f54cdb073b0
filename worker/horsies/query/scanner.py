"""Splits text into words with their bounds, sign, key and values; resolves quotes and escapes."""

from __future__ import annotations

from dataclasses import dataclass, field

from horsies.query.values import Glob, escaped


@dataclass(slots=True)
class ScannedValue:
    """One value, from `start` up to `end`, quotes included."""

    start: int
    end: int
    glob: Glob
    unclosed: int | None = None
    """The place of a quote that is never closed."""


@dataclass(slots=True)
class Word:
    """`[-][key:]value[,value…]`, from `start` up to `end`; `body` is where the key, or the value, begins."""

    start: int
    end: int
    body: int
    key: str | None = None
    items: list[ScannedValue] = field(default_factory=list)

    @property
    def negated(self) -> bool:
        return self.body > self.start


def words(text: str) -> list[Word]:
    """Return every word of the text. No text is an error, so that completion works on an incomplete filter."""
    found: list[Word] = []
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text):
            return found
        found.append(_word(text, position))
        position = found[-1].end


def _word(text: str, start: int) -> Word:
    body = start + 1 if text[start] == "-" else start
    word = Word(start, body, body)
    value = body
    colon = _colon(text, body)
    if colon is not None:
        word.key, value = text[body:colon], colon + 1
    while True:
        item = _item(text, value)
        word.items.append(item)
        word.end = item.end
        if not text.startswith(",", item.end):
            return word
        value = item.end + 1


def _colon(text: str, start: int) -> int | None:
    """Return where the key ends. A colon after a quote, an escape or a comma is part of the search text."""
    for position in range(start, len(text)):
        char = text[position]
        if char == ":":
            return position
        if char in "\"'\\," or char.isspace():
            return None
    return None


def _item(text: str, start: int) -> ScannedValue:
    """Scan one value. A single quote opens only at its beginning: elsewhere it is an apostrophe."""
    pattern: list[str] = []
    position, quote, opened = start, "", start
    while position < len(text):
        char = text[position]
        if not quote and (char == "," or char.isspace()):
            break
        if char == quote:
            quote = ""
        elif not quote and (char == '"' or (char == "'" and position == start)):
            quote, opened = char, position
        elif char == "\\" and quote != "'":
            # The last character of a text has nothing to escape and is taken literally.
            position += 1
            pattern.append(escaped(text[position : position + 1] or "\\"))
        else:
            pattern.append(escaped(char) if quote else char)
        position += 1
    return ScannedValue(start, min(position, len(text)), Glob("".join(pattern)), opened if quote else None)
