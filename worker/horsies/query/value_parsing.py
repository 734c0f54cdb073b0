"""Reads one value of a key: its words, copied ids, ranges, moments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from horsies.query.language import BARE, Kind
from horsies.query.problems import UnreadableValue, nearest
from horsies.query.values import Choice, Glob, read_count, read_moment, read_past, read_span

if TYPE_CHECKING:
    from horsies.query.language import Language
    from horsies.query.values import Present, Value

LONGEST_ID: Final = 36

_CUT: Final = ("…", "...")
"""How screens shorten an id, and so how it is copied from them."""


def read(key: str, glob: Glob, language: Language, present: Present | None = None) -> Value:
    """The value of `glob` under `key`. Unreadable says what the key accepts instead."""
    if key == BARE:
        return uncut(glob)
    match language.keys[key].kind:
        case Kind.STATUS | Kind.HAS:
            return _read_choice(key, glob.plain, language)
        case Kind.ID:
            return read_id(glob)
        case Kind.WORKFLOW:
            plain = glob.plain.lower()
            return Choice(plain) if plain in language.keys[key].values else read_id(glob)
        case Kind.MOMENT:
            return read_moment(glob.plain.lower(), present)
        case Kind.TRIES:
            return read_count(glob.plain, least=1)
        case Kind.COUNT:
            return read_count(glob.plain, least=0)
        case Kind.SPAN:
            return read_span(glob.plain.lower())
        case Kind.PAST:
            return read_past(glob.plain.lower(), present)
        case _:
            return glob


def _read_choice(key: str, text: str, language: Language) -> Choice:
    known, word = language.keys[key].values, text.lower()
    if word in known:
        return Choice(word)
    suggestion = language.states_elsewhere.get(word) if language.keys[key].kind is Kind.STATUS else None
    raise UnreadableValue(
        f"{key} is never {text!r}; it is one of {', '.join(known)}", suggestion or nearest(word, known)
    )


def read_id(glob: Glob) -> Glob:
    glob = uncut(glob)
    if len(glob.plain) > LONGEST_ID:
        raise UnreadableValue(f"an id has at most {LONGEST_ID} characters; this has {len(glob.plain)}")
    return Glob(glob.pattern.lower()) if looks_like_id(glob) else glob


def uncut(glob: Glob) -> Glob:
    """Replace the mark of a shortened id with a wildcard."""
    pattern = glob.pattern
    for cut in _CUT:
        if len(pattern) > len(cut):
            pattern = f"*{pattern.removeprefix(cut)}" if pattern.startswith(cut) else pattern
            pattern = f"{pattern.removesuffix(cut)}*" if pattern.endswith(cut) else pattern
    return Glob(pattern)


_ID: Final = re.compile("[0-9a-f-]+", re.IGNORECASE)


def looks_like_id(glob: Glob) -> bool:
    """Return whether all characters that are not wildcards can occur in a UUID."""
    return _ID.fullmatch("".join(char for char, wild in glob.pieces() if not wild)) is not None
