"""Free text made fit for a PostgreSQL text column."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def replace_surrogates(text: str) -> str:
    """Lone surrogates (file names that are not UTF-8 carry them) have no UTF-8 form; each becomes U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub(_REPLACEMENT, text)


def first_surrogate(text: str) -> int | None:
    """The position of the first character that UTF-8 cannot write."""
    found = None if text.isascii() else _SURROGATE.search(text)
    return None if found is None else found.start()


def clean_text(text: str, limit: int) -> str:
    """At most `limit` characters without NUL and surrogates, which PostgreSQL refuses in a text column.

    The middle of a longer text gives way to a note: a traceback says most at its two ends.
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
