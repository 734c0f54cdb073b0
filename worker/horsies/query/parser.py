"""Parses text to a filter, or reports every problem in it with its place."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from horsies.query.filters import ActivityFilter, ScheduleFilter, TaskFilter, WorkerFilter, WorkflowFilter
from horsies.query.language import BARE, Filter, Kind, Term
from horsies.query.problems import FilterError, Problem, UnreadableValue, nearest
from horsies.query.scanner import words
from horsies.query.sense import contradictions
from horsies.query.value_parsing import read
from horsies.query.values import Glob, Moment, Present

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.query.language import Language
    from horsies.query.scanner import ScannedValue, Word
    from horsies.query.values import Value

LONGEST_TEXT: Final = 10_000

FilterT = TypeVar("FilterT", bound=Filter)


def parse(text: str, present: Present | None = None) -> TaskFilter:
    """The filter of `text`; empty text matches everything. FilterError names each problem and its place.

    `present` says what times mean that name no zone; without it, they are in UTC.
    """
    return _parse(text, TaskFilter, present)


def parse_workflows(text: str, present: Present | None = None) -> WorkflowFilter:
    """The same for workflows."""
    return _parse(text, WorkflowFilter, present)


def parse_workers(text: str, present: Present | None = None) -> WorkerFilter:
    """The same for workers."""
    return _parse(text, WorkerFilter, present)


def parse_schedules(text: str, present: Present | None = None) -> ScheduleFilter:
    """The same for schedules."""
    return _parse(text, ScheduleFilter, present)


def parse_activity(text: str, present: Present | None = None) -> ActivityFilter:
    """The same for operations and what changed."""
    return _parse(text, ActivityFilter, present)


def _parse(text: str, kind: type[FilterT], present: Present | None) -> FilterT:
    language = kind.language
    if problem := _unstorable(text, language.thing):
        raise FilterError([problem], text, language.example)
    problems: list[Problem] = []
    values: dict[tuple[str, bool], list[Value]] = {}
    places: dict[str, tuple[int, int]] = {}
    for word in words(text):
        found = list(_problems_around(word, language))
        if not found:
            key = _key_of(word)
            places[key] = word.start, word.end
            values.setdefault((key, word.negated), []).extend(_values(word, key, language, found, present))
        problems += found
    _end_after_begin(values, present or Present(datetime.now(UTC)))
    understood = kind(tuple(Term(key, tuple(dict.fromkeys(each)), negated) for (key, negated), each in values.items()))
    if not problems:
        problems = [Problem(*places[key], message) for key, message in contradictions(understood)]
    if problems:
        raise FilterError(sorted(problems, key=lambda problem: problem.start), text, language.example)
    return understood


def _end_after_begin(values: dict[tuple[str, bool], list[Value]], present: Present) -> None:
    """Order the times: at 02:30, `since:02:00 until:03:00` ends today and not yesterday, although that is to come."""
    match values.get(("since", False)), values.get(("until", False)):
        case [Moment(at=datetime() as begin)], [Moment(at=datetime() as end, of_day=True)] if end < begin:
            values["until", False] = [present.moment(present.first_after(begin, end))]


def _unstorable(text: str, thing: str) -> Problem | None:
    if len(text) > LONGEST_TEXT:
        return Problem(LONGEST_TEXT, len(text), f"a filter has at most {LONGEST_TEXT} characters")
    # PostgreSQL stores neither; a terminal that is not UTF-8 turns unreadable bytes into lone surrogates.
    bad = re.search("[\0\ud800-\udfff]", text)
    return Problem(bad.start(), bad.end(), f"no {thing} can hold this character; take it out") if bad else None


def _key_of(word: Word) -> str:
    return BARE if word.key is None else word.key.lower()


def _problems_around(word: Word, language: Language) -> Iterator[Problem]:
    """Problems of the word apart from its values."""
    if word.key is None:
        return
    key = language.keys.get(word.key.lower())
    if key is None:
        yield _unknown_key(word, word.key, language)
        return
    if word.negated and not key.kind.can_be_negated:
        turned = _turned_around(word, key.name, key.kind)
        yield Problem(word.start, word.end, f"{key.name} cannot be negated; turn it around", turned)
    if len(word.items) > 1 and not key.kind.any_of:
        message = f"{key.name} takes one value at a time, and each that is given must hold"
        yield Problem(word.items[0].end, word.items[1].start, message, f" {key.name}:")


def _unknown_key(word: Word, key: str, language: Language) -> Problem:
    """The nearest key; if none is near, the colon was probably part of the search text."""
    suggestion = language.said_elsewhere.get(key.lower()) or nearest(key, language.keys)
    if suggestion is not None:
        return Problem(word.body, word.body + len(key), f"there is no key {key!r}", suggestion)
    text = f"{key}:{','.join(item.glob.plain for item in word.items)}"
    message = f"there is no key {key!r} among {', '.join(language.keys)}; quote a text with a colon"
    return Problem(word.body, word.end, message, Glob.literal(text).as_word())


_TURNED: Final = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "since": "until", "until": "since"}


def _turned_around(word: Word, key: str, kind: Kind) -> str | None:
    """The equivalent condition without a minus."""
    value = word.items[0].glob.plain
    if kind is Kind.MOMENT:
        return f"{_TURNED[key]}:{value}"
    sign = re.match("[<>]=?", value)
    return f"{key}:{_TURNED[sign[0]]}{value[sign.end() :]}" if sign else None


def _values(
    word: Word, key: str, language: Language, problems: list[Problem], present: Present | None
) -> Iterator[Value]:
    """Each valid value of the word; the problems of the others are added to `problems`."""
    for item in word.items:
        if problem := _broken(item):
            problems.append(problem)
            continue
        try:
            yield read(key, item.glob, language, present)
        except UnreadableValue as error:
            problems.append(Problem(item.start, item.end, error.message, error.suggestion))


def _broken(item: ScannedValue) -> Problem | None:
    if item.unclosed is not None:
        return Problem(item.unclosed, item.end, "this quote is never closed")
    if not item.glob.pattern:
        return Problem(item.start, item.end, "a value is missing here")
    return None
