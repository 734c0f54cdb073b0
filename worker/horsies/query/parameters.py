"""A filter as parameters for statements that never change: each is None when the filter does not use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from horsies.domain.states import TaskStatus
from horsies.query.keys import BARE, INTERRUPTED, RETRY
from horsies.query.reading import LONGEST_ID, looks_like_id
from horsies.query.sense import bounds, in_workflow, states
from horsies.query.values import Choice, Glob, Moment

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from horsies.query.tree import TaskFilter


@dataclass(frozen=True, slots=True)
class Texts:
    """One text column: equal to any of `exact`, or LIKE any of `like`; at most one of the two is there.

    The negated ones exclude: rows whose column is NULL stay. LIKE patterns are escaped with a backslash.
    """

    exact: tuple[str, ...] | None = None
    like: tuple[str, ...] | None = None
    not_exact: tuple[str, ...] | None = None
    not_like: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """Bare words: the name is LIKE any of `name_like`, or the id LIKE any of `id_like`; never the latter alone."""

    name_like: tuple[str, ...] | None = None
    id_like: tuple[str, ...] | None = None
    not_name_like: tuple[str, ...] | None = None
    not_id_like: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TaskParameters:
    """What all hold at once.

    `statuses` are the exact ones to look at. `retry` narrows PENDING rows alone: True to those that wait for a
    next_retry_at that is yet to come, False to the others. `interrupted` narrows FAILED rows alone, by error_code =
    TASK_INTERRUPTED. `since` and `until` bound the time of sending, both included: so long before the database's
    now, or at a moment. Ranges include both ends.
    """

    statuses: tuple[str, ...] | None = None
    retry: bool | None = None
    interrupted: bool | None = None
    id: Texts = field(default_factory=Texts)
    queue: Texts = field(default_factory=Texts)
    name: Texts = field(default_factory=Texts)
    error: Texts = field(default_factory=Texts)
    worker: Texts = field(default_factory=Texts)
    unique: Texts = field(default_factory=Texts)
    workflow: Texts = field(default_factory=Texts)
    in_workflow: bool | None = None
    words: Words = field(default_factory=Words)
    args_like: tuple[str, ...] | None = None
    args_not_like: tuple[str, ...] | None = None
    has_error: bool | None = None
    has_deadline: bool | None = None
    has_unique: bool | None = None
    has_rerun: bool | None = None
    since_ago: timedelta | None = None
    since_at: datetime | None = None
    until_ago: timedelta | None = None
    until_at: datetime | None = None
    tries_min: int | None = None
    tries_max: int | None = None
    wait_min: timedelta | None = None
    wait_max: timedelta | None = None
    run_min: timedelta | None = None
    run_max: timedelta | None = None


def parameters(understood: TaskFilter) -> TaskParameters:
    """What the filter asks for, ready to be bound. No text of the user becomes part of a statement."""
    since, until = _moment(understood, "since"), _moment(understood, "until")
    wait, run = bounds(understood, "wait"), bounds(understood, "run")
    tries = bounds(understood, "tries")
    left = states(understood)
    return TaskParameters(
        statuses=_statuses(left),
        retry=_split(left, "PENDING", RETRY),
        interrupted=_split(left, "FAILED", INTERRUPTED),
        id=_texts(understood, "id", _id_patterns),
        queue=_texts(understood, "queue"),
        name=_texts(understood, "name"),
        error=_texts(understood, "error"),
        worker=_texts(understood, "worker"),
        unique=_texts(understood, "unique"),
        workflow=_texts(understood, "workflow", _id_patterns),
        in_workflow=_in_workflow(understood),
        words=_words(understood),
        args_like=_all(understood.pick("args", Glob), _argument_part),
        args_not_like=_all(understood.pick("args", Glob, negated=True), _argument_part),
        has_error=_has(understood, "error"),
        has_deadline=_has(understood, "deadline"),
        has_unique=_has(understood, "unique"),
        has_rerun=_has(understood, "rerun"),
        since_ago=since.ago,
        since_at=since.at,
        until_ago=until.ago,
        until_at=until.at,
        tries_min=tries[0],
        tries_max=tries[1],
        wait_min=_span(wait[0]),
        wait_max=_span(wait[1]),
        run_min=_span(run[0]),
        run_max=_span(run[1]),
    )


def _statuses(left: frozenset[str]) -> tuple[str, ...] | None:
    """The statuses of which at least a part is left, in the order of a task's life."""
    parts = {"PENDING": RETRY, "FAILED": INTERRUPTED}
    found = tuple(name for name in (status.value for status in TaskStatus) if {name, parts.get(name)} & left)
    return None if len(found) == len(TaskStatus) else found


def _split(left: frozenset[str], whole: str, part: str) -> bool | None:
    """Whether only `part` of the rows with that status is left, or only the others; None for all and for none."""
    return None if (part in left) is (whole in left) else part in left


def _in_workflow(understood: TaskFilter) -> bool | None:
    left = in_workflow(understood)
    return None if len(left) > 1 else "yes" in left


def _has(understood: TaskFilter, what: str) -> bool | None:
    if Choice(what) in understood.pick("has", Choice):
        return True
    return False if Choice(what) in understood.pick("has", Choice, negated=True) else None


def _moment(understood: TaskFilter, key: str) -> Moment:
    return next(iter(understood.pick(key, Moment)), Moment(""))


def _span(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)


def _text_patterns(glob: Glob) -> tuple[str, ...]:
    return (glob.like,)


def _id_patterns(glob: Glob) -> tuple[str, ...]:
    """A part of an id without wildcards is its beginning or its end: screens show either."""
    whole = glob.exact is None or len(glob.exact) == LONGEST_ID
    return (glob.like,) if whole else (f"{glob.like}%", f"%{glob.like}")


def _name_part(glob: Glob) -> tuple[str, ...]:
    return (glob.like if glob.exact is None else f"%{glob.like}%",)


def _id_part(glob: Glob) -> tuple[str, ...]:
    return _id_patterns(Glob(glob.pattern.lower())) if looks_like_id(glob) else ()


def _argument_part(glob: Glob) -> tuple[str, ...]:
    return (f"%{glob.like}%",)


_Patterns: TypeAlias = "Callable[[Glob], tuple[str, ...]]"


def _all(globs: tuple[Glob, ...], patterns: _Patterns) -> tuple[str, ...] | None:
    """The patterns of all of them, each once; None rather than none."""
    return tuple(dict.fromkeys(pattern for glob in globs for pattern in patterns(glob))) or None


def _texts(understood: TaskFilter, key: str, patterns: _Patterns = _text_patterns) -> Texts:
    exact, like = _exact_or_like(understood.pick(key, Glob), patterns)
    not_exact, not_like = _exact_or_like(understood.pick(key, Glob, negated=True), patterns)
    return Texts(exact, like, not_exact, not_like)


def _exact_or_like(
    globs: tuple[Glob, ...], patterns: _Patterns
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Equality as long as all allow it, since only that is served by an index; otherwise patterns for all."""
    exact = [glob.exact for glob in globs if glob.exact is not None and patterns(glob) == (glob.like,)]
    if len(exact) == len(globs):
        return tuple(exact) or None, None
    return None, _all(globs, patterns)


def _words(understood: TaskFilter) -> Words:
    wanted, excluded = understood.pick(BARE, Glob), understood.pick(BARE, Glob, negated=True)
    return Words(_all(wanted, _name_part), _all(wanted, _id_part), _all(excluded, _name_part), _all(excluded, _id_part))
