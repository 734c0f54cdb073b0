"""Completions at the cursor: keys, their words, and values that the caller has seen."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from horsies.query.keys import TASKS
from horsies.query.scanner import words
from horsies.query.values import Glob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from horsies.query.language import Key, Language
    from horsies.query.scanner import Word

MOST: Final = 50


@dataclass(frozen=True, slots=True)
class Completion:
    """A `text` that can replace the characters from `start` up to `end`; `help` explains the key."""

    start: int
    end: int
    text: str
    help: str = ""


def completions(
    text: str, cursor: int, values: Mapping[str, Sequence[str]], language: Language = TASKS
) -> list[Completion]:
    """Return completions of the text before the cursor, best first. `values` are existing ones by key: queues, …"""
    cursor = min(max(cursor, 0), len(text))
    begun = next((word for word in words(text[:cursor]) if word.end == cursor), None)
    if begun is None:
        found = _keys("", cursor, cursor, language)
    else:
        whole = next(word for word in words(text) if word.start == begun.start)
        offered = _bare if begun.key is None else _of_key
        found = offered(begun, whole, language, values)
    return list(islice(found, MOST))


def _bare(begun: Word, whole: Word, language: Language, values: Mapping[str, Sequence[str]]) -> Iterator[Completion]:
    """Yield keys, and values with their key: for `fail`, `status:failed` too."""
    prefix = begun.items[-1].glob.plain
    if len(begun.items) > 1:
        return
    end = whole.items[0].end if whole.key is None else whole.body + len(whole.key) + 1
    yield from _keys(prefix, whole.body, end, language)
    if prefix and whole.key is None:
        for key in language.keys.values():
            known = (f"{key.name}:{written}" for written in _written(prefix, key, values))
            yield from (Completion(whole.body, end, text) for text in known)


def _keys(prefix: str, start: int, end: int, language: Language) -> Iterator[Completion]:
    prefix = prefix.lower()
    meant = [name for name in language.keys if name.startswith(prefix)]
    if prefix in language.said_elsewhere:
        meant.append(language.said_elsewhere[prefix])
    return (Completion(start, end, f"{name}:", language.keys[name].describe()) for name in dict.fromkeys(meant))


def _of_key(begun: Word, whole: Word, language: Language, values: Mapping[str, Sequence[str]]) -> Iterator[Completion]:
    """Yield values that the word does not have yet."""
    key = language.keys.get((begun.key or "").lower())
    if key is None:
        return
    index = len(begun.items) - 1
    item = whole.items[index]
    others = {str(other.glob) for other in [*whole.items[:index], *whole.items[index + 1 :]]}
    for text in _written(begun.items[index].glob.plain, key, values):
        if text not in others:
            yield Completion(item.start, item.end, text)


def _written(prefix: str, key: Key, values: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """Return the key's own words and the caller's values in their written form, those with this prefix first."""
    prefix = prefix.lower()
    known = [(value, value) for value in key.values]
    known += [(value, str(Glob.literal(value))) for value in values.get(key.name, ()) if value]
    fitting = [(not value.lower().startswith(prefix), text) for value, text in known if prefix in value.lower()]
    return dict.fromkeys(text for _, text in sorted(fitting, key=lambda each: each[0]))
