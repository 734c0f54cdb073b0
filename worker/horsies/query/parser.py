"""Parses text to a filter, or reports every problem in it with its place; and turns filters into conditions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from horsies.domain.states import TASK_TERMINAL_STATES, TaskStatus
from horsies.query.conditions import Conditions, conditions_of, statuses_of
from horsies.query.keys import TASKS
from horsies.query.language import BARE, Filter, Kind, Term, contradictions
from horsies.query.other_keys import ACTIVITY, SCHEDULES, WORKERS, WORKFLOWS
from horsies.query.problems import FilterError, Problem, UnreadableValue, nearest
from horsies.query.scanner import words
from horsies.query.values import (
    LONGEST_ID,
    Choice,
    Glob,
    Moment,
    Present,
    looks_like_id,
    read_count,
    read_moment,
    read_past,
    read_span,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.query.language import Language
    from horsies.query.scanner import ScannedValue, Word
    from horsies.query.values import Value

LONGEST_TEXT: Final = 10_000
_CUT: Final = ("…", "...")
"""How screens shorten an id, and so how it is copied from them."""

FilterT = TypeVar("FilterT", bound=Filter)


@dataclass(frozen=True, slots=True)
class TaskFilter(Filter):
    language: ClassVar[Language] = TASKS


@dataclass(frozen=True, slots=True)
class WorkflowFilter(Filter):
    language: ClassVar[Language] = WORKFLOWS


@dataclass(frozen=True, slots=True)
class WorkerFilter(Filter):
    language: ClassVar[Language] = WORKERS


@dataclass(frozen=True, slots=True)
class ScheduleFilter(Filter):
    language: ClassVar[Language] = SCHEDULES


@dataclass(frozen=True, slots=True)
class ActivityFilter(Filter):
    language: ClassVar[Language] = ACTIVITY


@dataclass(frozen=True, slots=True)
class TaskConditions(Conditions):
    language: ClassVar[Language] = TASKS


@dataclass(frozen=True, slots=True)
class WorkflowConditions(Conditions):
    language: ClassVar[Language] = WORKFLOWS


_HAVE_ERRORS: Final = tuple(
    status.value for status in TaskStatus if status in TASK_TERMINAL_STATES and status is not TaskStatus.COMPLETED
)


def task_conditions(understood: TaskFilter) -> TaskConditions:
    statuses = statuses_of(understood)
    wants_error = understood.pick("error", Glob) or Choice("error") in understood.pick("has", Choice)
    if statuses is None and wants_error:  # only these have a code, and an index of their own
        statuses = _HAVE_ERRORS
    return TaskConditions(statuses, conditions_of(understood))


def workflow_conditions(understood: WorkflowFilter) -> WorkflowConditions:
    return WorkflowConditions(statuses_of(understood), conditions_of(understood))


def _parse(kind: type[FilterT], text: str, present: Present | None = None) -> FilterT:
    """Parse a filter; an empty text matches everything. FilterError lists each problem with its place.

    `present` gives the zone of times without one; the default is UTC.
    """
    language = kind.language
    if problem := _unstorable(text, language.thing):
        raise FilterError([problem], text, language.example)
    problems: list[Problem] = []
    values: dict[tuple[str, bool], list[Value]] = {}
    places: dict[str, tuple[int, int]] = {}
    for word in words(text):
        found = list(_problems_around(word, language))
        if not found:
            key = BARE if word.key is None else word.key.lower()
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


parse: Final = partial(_parse, TaskFilter)
parse_workflows: Final = partial(_parse, WorkflowFilter)
parse_workers: Final = partial(_parse, WorkerFilter)
parse_schedules: Final = partial(_parse, ScheduleFilter)
parse_activity: Final = partial(_parse, ActivityFilter)


def _end_after_begin(values: dict[tuple[str, bool], list[Value]], present: Present) -> None:
    """Move the end behind the beginning: at 02:30, `since:02:00 until:03:00` ends today, and not yesterday."""
    match values.get(("since", False)), values.get(("until", False)):
        case [Moment(at=datetime() as begin)], [Moment(at=datetime() as end, of_day=True)] if end < begin:
            values["until", False] = [present.moment(present.first_after(begin, end))]


def _unstorable(text: str, thing: str) -> Problem | None:
    if len(text) > LONGEST_TEXT:
        return Problem(LONGEST_TEXT, len(text), f"a filter has at most {LONGEST_TEXT} characters")
    # PostgreSQL stores neither; a terminal that is not UTF-8 turns unreadable bytes into lone surrogates.
    bad = re.search("[\0\ud800-\udfff]", text)
    return Problem(bad.start(), bad.end(), f"no {thing} can contain this character; remove it") if bad else None


def _problems_around(word: Word, language: Language) -> Iterator[Problem]:
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
        message = f"{key.name} takes one value at a time, and all given values must match"
        yield Problem(word.items[0].end, word.items[1].start, message, f" {key.name}:")


def _unknown_key(word: Word, key: str, language: Language) -> Problem:
    """Return the problem with the nearest key; without one, the colon was probably part of the search text."""
    suggestion = language.said_elsewhere.get(key.lower()) or nearest(key, language.keys)
    if suggestion is not None:
        return Problem(word.body, word.body + len(key), f"there is no key {key!r}", suggestion)
    text = f"{key}:{','.join(item.glob.plain for item in word.items)}"
    message = f"there is no key {key!r} among {', '.join(language.keys)}; quote a text with a colon"
    return Problem(word.body, word.end, message, Glob.literal(text).as_word())


_TURNED: Final = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "since": "until", "until": "since"}


def _turned_around(word: Word, key: str, kind: Kind) -> str | None:
    value = word.items[0].glob.plain
    if kind is Kind.MOMENT:
        return f"{_TURNED[key]}:{value}"
    sign = re.match("[<>]=?", value)
    return f"{key}:{_TURNED[sign[0]]}{value[sign.end() :]}" if sign else None


def _values(
    word: Word, key: str, language: Language, problems: list[Problem], present: Present | None
) -> Iterator[Value]:
    """Yield each valid value of the word; add the problems of the others to `problems`."""
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


def read(key: str, glob: Glob, language: Language, present: Present | None = None) -> Value:
    """Parse the value of `glob` under `key`. UnreadableValue says what the key accepts instead."""
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
        f"{key} cannot be {text!r}; use one of {', '.join(known)}", suggestion or nearest(word, known)
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
