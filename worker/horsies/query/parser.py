"""Text to filter, or every problem in it with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from horsies.query.keys import BARE, KEYS, SAID_ELSEWHERE, Kind
from horsies.query.problems import FilterError, Problem, Unreadable, nearest
from horsies.query.reading import read
from horsies.query.scanner import words
from horsies.query.sense import contradictions
from horsies.query.tree import TaskFilter, Term
from horsies.query.values import Glob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.query.scanner import Item, Word
    from horsies.query.values import Value

LONGEST_TEXT: Final = 10_000


def parse(text: str) -> TaskFilter:
    """The filter that `text` asks for; empty text asks for everything. FilterError names each problem and its place."""
    if problem := _unstorable(text):
        raise FilterError([problem], text)
    problems: list[Problem] = []
    values: dict[tuple[str, bool], list[Value]] = {}
    places: dict[str, tuple[int, int]] = {}
    for word in words(text):
        found = list(_problems_around(word))
        if not found:
            key = _key_of(word)
            places[key] = word.start, word.end
            values.setdefault((key, word.negated), []).extend(_values(word, key, found))
        problems += found
    understood = TaskFilter(
        tuple(Term(key, tuple(dict.fromkeys(each)), negated) for (key, negated), each in values.items())
    )
    if not problems:
        problems = [Problem(*places[key], message) for key, message in contradictions(understood)]
    if problems:
        raise FilterError(sorted(problems, key=lambda problem: problem.start), text)
    return understood


def _unstorable(text: str) -> Problem | None:
    if len(text) > LONGEST_TEXT:
        return Problem(LONGEST_TEXT, len(text), f"a filter has at most {LONGEST_TEXT} characters")
    # PostgreSQL stores neither; a terminal that is not UTF-8 makes lone surrogates of what it cannot read.
    bad = re.search("[\0\ud800-\udfff]", text)
    return Problem(bad.start(), bad.end(), "no task can hold this character; take it out") if bad else None


def _key_of(word: Word) -> str:
    return BARE if word.key is None else word.key.lower()


def _problems_around(word: Word) -> Iterator[Problem]:
    """What is wrong with the word besides its values."""
    if word.key is None:
        return
    key = KEYS.get(word.key.lower())
    if key is None:
        yield _unknown_key(word, word.key)
        return
    if word.negated and not key.kind.can_be_negated:
        turned = _turned_around(word, key.name)
        yield Problem(word.start, word.end, f"{key.name} cannot be negated; turn it around", turned)
    if len(word.items) > 1 and not key.kind.any_of:
        message = f"{key.name} takes one value at a time, and each that is given must hold"
        yield Problem(word.items[0].end, word.items[1].start, message, f" {key.name}:")


def _unknown_key(word: Word, key: str) -> Problem:
    """The nearest key; where none is near, a colon was probably part of what to look for."""
    suggestion = SAID_ELSEWHERE.get(key.lower()) or nearest(key, KEYS)
    if suggestion is not None:
        return Problem(word.body, word.body + len(key), f"there is no key {key!r}", suggestion)
    text = f"{key}:{','.join(item.glob.plain for item in word.items)}"
    message = f"there is no key {key!r} among {', '.join(KEYS)}; quote a text with a colon"
    return Problem(word.body, word.end, message, Glob.literal(text).as_word())


_TURNED: Final = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "since": "until", "until": "since"}


def _turned_around(word: Word, key: str) -> str | None:
    """What excludes the same tasks without a minus."""
    value = word.items[0].glob.plain
    if KEYS[key].kind is Kind.MOMENT:
        return f"{_TURNED[key]}:{value}"
    sign = re.match("[<>]=?", value)
    return f"{key}:{_TURNED[sign[0]]}{value[sign.end() :]}" if sign else None


def _values(word: Word, key: str, problems: list[Problem]) -> Iterator[Value]:
    """Each value of the word that can be read; what is wrong with the others is added to `problems`."""
    for item in word.items:
        if problem := _broken(item):
            problems.append(problem)
            continue
        try:
            yield read(key, item.glob)
        except Unreadable as error:
            problems.append(Problem(item.start, item.end, error.message, error.suggestion))


def _broken(item: Item) -> Problem | None:
    if item.unclosed is not None:
        return Problem(item.unclosed, item.end, "this quote is never closed")
    if not item.glob.pattern:
        return Problem(item.start, item.end, "a value is missing here")
    return None
