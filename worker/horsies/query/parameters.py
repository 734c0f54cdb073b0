"""A filter as parameters for fixed statements: each is None if the filter does not use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.states import TaskStatus
from horsies.query.keys import INTERRUPTED, RETRY, SCHEDULED
from horsies.query.patterns import (
    Texts,
    Words,
    bare_words,
    every,
    id_patterns,
    moment,
    texts,
    worker_patterns,
    yes_or_no,
)
from horsies.query.sense import bounds, states, times
from horsies.query.values import Choice, Glob

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.query.tree import TaskFilter


WAITING: Final = ("PENDING", SCHEDULED, RETRY)
"""The parts of PENDING, by what a task waits for: a worker, its time, its retry."""


@dataclass(frozen=True, slots=True)
class TaskParameters:
    """Conditions that must all hold.

    `statuses` are the exact ones to read. `waiting` restricts PENDING rows alone, to those that wait for a future
    next_retry_at (RETRY), for a future enqueued_at (SCHEDULED), or for neither (PENDING). `interrupted` restricts
    FAILED rows alone, by error_code = TASK_INTERRUPTED. `since` and `until` bound the time of sending, both included: a
    duration before the database's now, or a moment. Ranges include both ends.
    """

    statuses: tuple[str, ...] | None = None
    waiting: tuple[str, ...] | None = None
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
    has_due: bool | None = None
    ended_min: timedelta | None = None
    ended_max: timedelta | None = None
    ended_from: datetime | None = None
    ended_until: datetime | None = None


def parameters(understood: TaskFilter) -> TaskParameters:
    """The filter as bind parameters. No text of the user is put into a statement."""
    since, until = moment(understood, "since"), moment(understood, "until")
    wait, run = bounds(understood, "wait"), bounds(understood, "run")
    tries, ended = bounds(understood, "tries"), bounds(understood, "ended")
    ended_between = times(understood, "ended")
    left = states(understood)
    return TaskParameters(
        statuses=_statuses(left),
        waiting=_waiting(left),
        interrupted=_interrupted(left),
        id=texts(understood, "id", id_patterns),
        queue=texts(understood, "queue"),
        name=texts(understood, "name"),
        error=texts(understood, "error"),
        worker=texts(understood, "worker", worker_patterns),
        unique=texts(understood, "unique"),
        workflow=texts(understood, "workflow", id_patterns),
        in_workflow=yes_or_no(understood, "workflow"),
        words=bare_words(understood),
        args_like=every(understood.pick("args", Glob), _argument_part),
        args_not_like=every(understood.pick("args", Glob, negated=True), _argument_part),
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
        has_due=_has(understood, "due"),
        ended_min=_span(ended[0]),
        ended_max=_span(ended[1]),
        ended_from=ended_between[0],
        ended_until=ended_between[1],
    )


def _statuses(left: frozenset[str]) -> tuple[str, ...] | None:
    """The statuses of which at least a part remains, in the order of a task's life."""
    parts = {"PENDING": set(WAITING), "FAILED": {"FAILED", INTERRUPTED}}
    found = tuple(name for name in (status.value for status in TaskStatus) if parts.get(name, {name}) & left)
    return None if len(found) == len(TaskStatus) else found


def _waiting(left: frozenset[str]) -> tuple[str, ...] | None:
    """The parts of PENDING that remain; None for all and for none."""
    found = tuple(part for part in WAITING if part in left)
    return None if len(found) in (0, len(WAITING)) else found


def _interrupted(left: frozenset[str]) -> bool | None:
    """Whether only the interrupted ones of the failed tasks remain, or only the others; None for all and for none."""
    return None if (INTERRUPTED in left) is ("FAILED" in left) else INTERRUPTED in left


def _has(understood: TaskFilter, what: str) -> bool | None:
    if Choice(what) in understood.pick("has", Choice):
        return True
    return False if Choice(what) in understood.pick("has", Choice, negated=True) else None


def _span(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)


def _argument_part(glob: Glob) -> tuple[str, ...]:
    return (f"%{glob.like}%",)
