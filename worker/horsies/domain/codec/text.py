"""Makes free text valid for a PostgreSQL text column."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates (from file names that are not UTF-8), which have no UTF-8 form, by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub(_REPLACEMENT, text)


def first_surrogate(text: str) -> int | None:
    """The position of the first character that UTF-8 cannot encode."""
    found = None if text.isascii() else _SURROGATE.search(text)
    return None if found is None else found.start()


def clean_text(text: str, limit: int) -> str:
    """Return at most `limit` characters without NUL and surrogates, which PostgreSQL refuses in a text column.

    In a longer text a note replaces the middle: the two ends of a traceback are the most useful.
    """
    if len(text) > limit:
        text = _shorten(text, limit)
    return replace_surrogates(text.replace("\0", ""))


def _shorten(text: str, limit: int) -> str:
    note = f" … [shortened from {len(text)} characters] … "
    room = limit - len(note)
    if room < 2:
        return text[:limit]
    tail = room // 2
    return text[: room - tail] + note + text[-tail:]
