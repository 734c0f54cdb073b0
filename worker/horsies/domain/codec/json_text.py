"""The JSON of the text columns, compact, without NaN and Infinity; text that fits in one; and errors of both."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from horsies.domain import tags

if TYPE_CHECKING:
    from collections.abc import Iterable


_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates (from file names that are not UTF-8), which have no UTF-8 form, by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub(_REPLACEMENT, text)


def first_surrogate(text: str) -> int | None:
    """Return the position of the first character that UTF-8 cannot encode."""
    found = None if text.isascii() else _SURROGATE.search(text)
    return None if found is None else found.start()


def clean_text(text: str, limit: int) -> str:
    """Return at most `limit` characters without NUL and surrogates, which PostgreSQL refuses in a text column.

    In a longer text a note replaces the middle: the two ends of a traceback are the most useful.
    """
    if len(text) > limit:
        note = f" … [shortened from {len(text)} characters] … "
        tail = (limit - len(note)) // 2
        text = text[: limit - len(note) - tail] + note + text[-tail:] if tail > 0 else text[:limit]
    return replace_surrogates(text.replace("\0", ""))


# A reason may quote a whole payload (pydantic does); error columns and logs must stay readable.
_REASON_LIMIT = 2_000
_PATH_LIMIT = 120


class CodecError(ValueError):
    """`str()` is `kwargs.order.lines[3]: Decimal is not JSON; convert it to str or float`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = clean_text(reason, _REASON_LIMIT)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class CorruptJsonError(CodecError):
    """The stored text is not JSON, or not the JSON that belongs in its column."""


class HydrationError(CodecError):
    """The stored data is sound, but the object it describes cannot be built in this process."""


def spell_path(steps: Iterable[str | int]) -> str:
    """Write `("kwargs", "order", "lines", 3)` as `kwargs.order.lines[3]`."""
    root, *rest = steps
    are_names = ((step, isinstance(step, str) and step.isidentifier()) for step in rest)
    path = str(root) + "".join(f".{step}" if is_name else f"[{step!r}]" for step, is_name in are_names)
    return clean_text(path, _PATH_LIMIT)


# Created once: with these options json.dumps creates one per call, 0.6 µs of 1.4.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_json(tree: Any, name: str = "value") -> str:
    try:
        return _ENCODER.encode(tree)
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(name, str(error)) from error


def parse_json(text: str, name: str = "value") -> Any:
    """Parse stored text; tags are kept, nothing is imported."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptJsonError(name, f"not valid JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Exact types: a subclass may be an enum, or be encoded differently.
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_KEYS: Final = frozenset((str,))
# Far below MAX_DEPTH, so that values that are too deep, or contain themselves, are rejected in one place.
_LEVELS: Final = 8
# An integer that is refused for its 4,215 digits does not fit.
_MAX_TEXT: Final = 4_000


def plain_json(value: Any) -> str | None:
    """Encode plain JSON, in 1.1 µs for `(5, "x")` instead of 3.2; return None for what only `to_tree` can encode."""
    try:
        if not _is_plain(value, _LEVELS):
            return None
        text = to_json(value)
    # NaN; another thread changes a dict; the caller is close to the recursion limit.
    except (CodecError, RuntimeError):
        return None
    return text if len(text) <= _MAX_TEXT and first_surrogate(text) is None else None


def _is_plain(value: Any, levels: int) -> bool:
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        if not (_KEYS.issuperset(map(type, value)) and tags.RESERVED.isdisjoint(value)):
            return False
        value = value.values()
    elif kind is not list and kind is not tuple:
        return False
    if levels == 0:
        return False
    return _SCALARS.issuperset(map(type, value)) or all(_is_plain(part, levels - 1) for part in value)
