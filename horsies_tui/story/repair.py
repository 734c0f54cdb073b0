"""Completes JSON of which only the beginning was read, so that the part that was read can be shown."""

from __future__ import annotations

import re
from typing import Final

_TOKENS: Final = re.compile(
    r'"(?P<inside>[^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*)(?P<end>"|\Z|\\(?:u[0-9a-fA-F]{0,3})?\Z)|[][{},:]'
)
_CLOSING: Final = {"{": "}", "[": "]"}
CUT_OFF: Final = "…"


def closed(beginning: str) -> str | None:
    """Valid JSON with every complete value and the beginning of a cut text; None if there is none."""
    opened: list[str] = []
    safe, safe_depth = 0, 0
    before = ""
    for token in _TOKENS.finditer(beginning):
        kind = token.group()[0]
        if kind == '"':
            is_name = opened[-1:] == ["{"] and before in "{,"
            if token.group("end") != '"':
                if is_name:
                    break
                text = f'{beginning[: token.start()]}"{token.group("inside")}{CUT_OFF}"'
                return text + _closers(opened)
        elif kind in _CLOSING:
            opened.append(kind)
            safe, safe_depth = token.end(), len(opened)
        elif kind in "]}":
            if opened:
                opened.pop()
            safe, safe_depth = token.end(), len(opened)
        elif kind == ",":
            safe, safe_depth = token.start(), len(opened)
        before = kind
    return beginning[:safe] + _closers(opened[:safe_depth]) if safe else None


def _closers(opened: list[str]) -> str:
    return "".join(_CLOSING[each] for each in reversed(opened))
