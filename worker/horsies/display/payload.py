"""Stored arguments and results for display: no user code runs, and secrets stay hidden."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import date, datetime, time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from horsies.config.contexts import config_path, read_config_file
from horsies.domain.codec import CodecError, load_for_display
from horsies.domain.codec.read import Labelled
from horsies.domain.plain_text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from horsies.operations.target import ArgumentChange
    from horsies.views import Stored

SHOWN: Final = 200_000
"""Characters of a stored value that are read for a screen."""
ALL: Final = 1_000_000_000
"""Characters of a stored value that are read for JSON."""
HIDDEN: Final = "***"
_DEEPEST: Final = 200
POSITIONAL: Final = "args"
_ON_ONE_LINE: Final = 100


@dataclass(frozen=True, slots=True)
class Masks:
    """The names, or patterns like `card_*`, of values to hide at any depth; upper and lower case are the same."""

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str] = ()) -> Masks:
        """Return masks of these names, and of those of the user's config file."""
        return cls(frozenset(names) | frozenset(read_config_file(config_path(os.environ)).mask_arguments))

    def hides(self, name: str) -> bool:
        return any(fnmatchcase(name.casefold(), each.casefold()) for each in self.names)

    def on(self, tree: Any) -> Any:
        """Return the tree without hidden values; strings that contain JSON are searched, too."""
        match tree:
            case Labelled():
                return Labelled(tree.label, self.on(tree.data))
            case dict():
                return {key: HIDDEN if self.hides(str(key)) else self.on(item) for key, item in tree.items()}
            case list():
                return [self.on(item) for item in tree]
            case str() if self.names and may_be_json(tree):
                return self._in_text(tree)
            case _:
                return tree

    def _in_text(self, text: str) -> str:
        try:
            tree = json.loads(text)
            hidden = self.on(tree)
        except (ValueError, RecursionError):
            return text
        return text if hidden == tree else json.dumps(hidden)


def may_be_json(text: str) -> bool:
    """Return whether a text can contain names to hide: JSON may begin with blanks, and may be JSON in a string."""
    return text.lstrip()[:1] in ("{", "[", '"')


def change_texts(changes: Iterable[ArgumentChange], masks: Masks) -> list[tuple[str, str]]:
    """Return the name of each edited argument, and a text like `"19,90" → "19.90"`, or `***` for what is masked."""
    return [
        (
            clean(".".join(change.path).replace(".[", "[")) or "kwargs",
            f"{_shown(change.path, change.before, masks)} → {_shown(change.path, change.after, masks)}",
        )
        for change in changes
    ]


def _shown(path: tuple[str, ...], value: str | None, masks: Masks) -> str:
    if value is None:
        return "absent"
    if any(map(masks.hides, path)):
        return HIDDEN
    text = clean(json.dumps(masks.on(json.loads(value)), ensure_ascii=False))
    return text if len(text) <= _ON_ONE_LINE else f"{text[: _ON_ONE_LINE - 1]}…"


def stored_lines(stored: Stored | None, masks: Masks, *, hide: bool = False) -> list[str]:
    """Return the lines of a stored value, as `***` if it is hidden; none if there is no value."""
    if stored is None or hide:
        return [] if stored is None else [HIDDEN]
    try:
        lines = list(_lines(masks.on(load_for_display(stored.text))))
    except (CodecError, RecursionError):
        lines = [HIDDEN] if masks.names else [clean(line) for line in stored.text.splitlines()]
    return [*lines, f"… cut: {stored.size:,} bytes are stored, --json prints all"] if stored.cut else lines


def stored_json(stored: Stored | None, masks: Masks, *, hide: bool = False) -> Any:
    """Return the stored JSON; a string if the text is not JSON."""
    if stored is None or hide:
        return None if stored is None else HIDDEN
    try:
        return masks.on(_flat_enough(json.loads(stored.text)))
    except (ValueError, RecursionError):
        return HIDDEN if masks.names else stored.text


def _flat_enough(tree: Any) -> Any:
    """Return the tree; RecursionError if it is nested so deeply that it can be read, but not printed."""
    level = [tree]
    for _ in range(_DEEPEST):
        level = [item for each in level if isinstance(each, dict | list) for item in _items(each)]
        if not level:
            return tree
    raise RecursionError


def _items(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _lines(value: Any, key: str = "", indent: int = 0, end: str = "") -> Iterator[str]:
    """Yield JSON with the names of types, short values on one line, and multi-line text as such."""
    pad = "  " * indent
    line = _inline(value) + end
    if len(line) + len(key) <= _ON_ONE_LINE and not _has_lines(value):
        yield f"{pad}{key}{line}"
        return
    match value:
        case Labelled() if isinstance(value.data, dict | list):
            yield from _lines(value.data, f"{key}{clean(value.label)} ", indent, end)
        case dict():
            yield f"{pad}{key}{{"
            for name, item in value.items():
                yield from _lines(item, f"{_scalar(name)}: ", indent + 1, ",")
            yield f"{pad}}}{end}"
        case list():
            yield f"{pad}{key}["
            for item in value:
                yield from _lines(item, "", indent + 1, ",")
            yield f"{pad}]{end}"
        case str() if "\n" in value:
            yield f"{pad}{key}|"
            yield from (f"{pad}  {clean(part)}" for part in value.splitlines())
        case _:
            yield f"{pad}{key}{line}"


def _has_lines(value: Any) -> bool:
    match value:
        case Labelled():
            return _has_lines(value.data)
        case dict():
            return any(map(_has_lines, value.values()))
        case list():
            return any(map(_has_lines, value))
        case str():
            return "\n" in value.rstrip("\n")
        case _:
            return False


def _inline(value: Any) -> str:
    match value:
        case Labelled():
            return f"{clean(value.label)} {_inline(value.data)}"
        case dict():
            inside = ", ".join(f"{_scalar(name)}: {_inline(item)}" for name, item in value.items())
            return f"{{{inside}}}"
        case list():
            return f"[{', '.join(map(_inline, value))}]"
        case _:
            return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return clean(json.dumps(value, ensure_ascii=False))
