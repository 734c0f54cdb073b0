"""A task's history as periods (scheduled, waiting, claimed, running, ended), and their widths on a line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto
from random import Random
from typing import TYPE_CHECKING, Final

from horsies.domain.retry import RetryRule, delay_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from horsies.views import Attempt, AuditRow, TaskDetail

_SAME_MOMENT: Final = timedelta(seconds=2)
"""Largest difference between the times of an operator's change and its audit row, which may be from two clocks."""


class LanePhase(Enum):
    LATER = auto()
    """Not due yet."""
    WAITING = auto()
    CLAIMED = auto()
    RUNNING = auto()
    BACKOFF = auto()
    ENDED = auto()
    """The task had ended, until an operator requeued it."""


@dataclass(frozen=True, slots=True)
class LaneStretch:
    phase: LanePhase
    begin: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the timeline: an attempt, the time between two attempts, or the task's present state."""

    stretches: tuple[LaneStretch, ...]
    attempt: Attempt | None = None
    action: AuditRow | None = None
    """The operator action that this lane shows, or that ended the attempt."""
    due: datetime | None = None
    """Time at which the retry is or was due."""
    about: bool = False
    """True if `due` is approximate, because it was computed from the retry policy and jitter is not stored."""

    def phase(self, phase: LanePhase) -> LaneStretch | None:
        return next((stretch for stretch in self.stretches if stretch.phase is phase), None)


def lanes(detail: TaskDetail, now: datetime) -> tuple[Lane, ...]:
    """Return the lanes, oldest first and without gaps. The last one reaches to the task's end, or to `now`."""
    found: list[Lane] = []
    previous: Attempt | None = None
    for attempt in detail.attempts:
        if previous is None and detail.earlier_attempts:
            begin = attempt.started_at
        else:
            between, begin = _between(detail, previous, attempt.started_at)
            found += between
        claimed = _claimed_at(detail, attempt, begin)
        found.append(
            Lane(
                (
                    *_before_start(detail, previous, begin, claimed, attempt.started_at),
                    *_stretch(LanePhase.RUNNING, attempt.started_at, attempt.finished_at),
                ),
                attempt,
                _ended_by(detail, attempt),
            )
        )
        previous = attempt
    return (*found, *_present(detail, previous, now))


def _present(detail: TaskDetail, previous: Attempt | None, now: datetime) -> Iterator[Lane]:
    """Yield the lanes after the last stored attempt; none if the task ended with it."""
    row = detail.row
    live = row.status in ("PENDING", "CLAIMED", "RUNNING")
    if not live and (row.finished_at is None or (previous and row.finished_at <= previous.finished_at + _SAME_MOMENT)):
        return
    until = now if live else row.finished_at or now
    started = row.started_at if row.status == "RUNNING" else None
    claimed = row.claimed_at if row.status in ("CLAIMED", "RUNNING") else None
    between, begin = _between(detail, previous, started or claimed or until)
    yield from between
    if row.status == "PENDING" and any(lane.due is not None and lane.due > until for lane in between):
        return  # the backoff is the present state
    stretches = (
        *_before_start(detail, previous, begin, claimed, started or until),
        *(_stretch(LanePhase.RUNNING, started, until) if started else ()),
    )
    yield Lane(stretches, action=None if live else _action_at(detail, until))


def _between(detail: TaskDetail, previous: Attempt | None, until: datetime) -> tuple[list[Lane], datetime]:
    """Return the lanes before the next attempt, if any, and the time at which the wait begins."""
    if previous is None:
        return [], detail.row.sent_at or detail.row.created_at
    if previous.will_retry:
        due, about = _due_after(detail, previous)
        if due <= previous.finished_at:
            return [], previous.finished_at
        hurried = _action_within(detail, previous.finished_at, until, ("retry-now",))
        waited = _stretch(LanePhase.BACKOFF, previous.finished_at, min(due, until))
        return [Lane(tuple(waited), action=hurried, due=due, about=about)], min(due, until)
    requeued = _action_within(detail, previous.finished_at, until, ("requeue", "undo"))
    if requeued is None or previous.ended_by_operator:
        return [], previous.finished_at
    again = min(requeued.acted_at, until)
    return [Lane(tuple(_stretch(LanePhase.ENDED, previous.finished_at, again)), action=requeued)], again


def _due_after(detail: TaskDetail, attempt: Attempt) -> tuple[datetime, bool]:
    """Return the time at which a retry was due. The row has the last one; others are computed from the policy."""
    if attempt.error_code == "TASK_INTERRUPTED":
        return attempt.finished_at, False
    after = [other for other in detail.attempts if other.attempt > attempt.attempt and other.will_retry]
    exact = detail.row.next_retry_at
    if exact is not None and all(other.error_code == "TASK_INTERRUPTED" for other in after):
        return exact, False
    rule = RetryRule.from_text(detail.options.text if detail.options else None)
    if rule is None:
        return attempt.finished_at, False
    delay = delay_s(replace(rule, jitter=False), attempt.attempt, Random(0))  # noqa: S311 - jitter is off
    return attempt.finished_at + timedelta(seconds=delay), rule.jitter


def _before_start(
    detail: TaskDetail, previous: Attempt | None, begin: datetime, claimed: datetime | None, until: datetime
) -> Iterator[LaneStretch]:
    due = begin
    # A requeue resets the time. If it is after the first start, it does not tell how long that waited.
    reset = bool(detail.attempts) and detail.row.enqueued_at > until
    if previous is None and detail.row.next_retry_at is None and not reset:
        due = min(max(detail.row.enqueued_at, begin), until)
        yield from _stretch(LanePhase.LATER, begin, due)
    # Limited to the period, because the clocks of upstream's workers may differ.
    claimed = until if claimed is None else min(max(claimed, due), until)
    yield from _stretch(LanePhase.WAITING, due, claimed)
    yield from _stretch(LanePhase.CLAIMED, claimed, until)


def _claimed_at(detail: TaskDetail, attempt: Attempt, begin: datetime) -> datetime | None:
    """Return the time of the claim. The row has only the last claim; an earlier one is known from its heartbeat."""
    beats = [beat for each in detail.executions if each.attempt == attempt.attempt for beat in each.claimer]
    last = attempt is detail.attempts[-1] and detail.row.claimed_at is not None
    known = [detail.row.claimed_at] if last and detail.row.claimed_at else []
    return min((at for at in (*known, *beats) if begin <= at <= attempt.started_at), default=None)


def _stretch(phase: LanePhase, begin: datetime, end: datetime) -> Iterator[LaneStretch]:
    if end > begin:
        yield LaneStretch(phase, begin, end)


def _ended_by(detail: TaskDetail, attempt: Attempt) -> AuditRow | None:
    return _action_at(detail, attempt.finished_at) if attempt.ended_by_operator else None


def _action_at(detail: TaskDetail, moment: datetime) -> AuditRow | None:
    return _action_within(detail, moment - _SAME_MOMENT, moment + _SAME_MOMENT, ("fail", "requeue", "cancel", "expire"))


def _action_within(detail: TaskDetail, begin: datetime, end: datetime, verbs: tuple[str, ...]) -> AuditRow | None:
    """Return the newest action that changed the task in this period. Undoing an acknowledgement changes none."""
    acknowledged = {row.id for row in detail.audit if row.verb == "acknowledge"}
    for row in detail.audit:
        applied = row.outcome == "applied" and row.verb in verbs and row.undoes not in acknowledged
        if applied and begin <= row.acted_at <= end:
            return row
    return None


def places(lengths: Sequence[float], width: int) -> tuple[int, ...]:
    """Return the number of columns for each length. They add up to `width` if any length is positive.

    Each positive length has at least one column, and a longer length never has fewer than a shorter one. The others
    give up columns in proportion. With more lengths than columns, the longest have one each.
    """
    positive = sorted((index for index, length in enumerate(lengths) if length > 0), key=lambda at: -lengths[at])
    if not positive or width <= 0:
        return (0,) * len(lengths)
    if len(positive) >= width:
        chosen = set(positive[:width])
        return tuple(int(index in chosen) for index in range(len(lengths)))
    small = _smallest(lengths, positive, width)
    given = dict.fromkeys(positive[len(positive) - small :], 1)
    return _shared(lengths, positive[: len(positive) - small], width - small, given)


def _smallest(lengths: Sequence[float], longest_first: list[int], width: int) -> int:
    """Return how many of the shortest lengths would get less than one column if all share the width."""
    total = sum(lengths[index] for index in longest_first)
    aside = 0
    for index in reversed(longest_first[1:]):
        if lengths[index] * (width - aside) >= total:
            break
        total -= lengths[index]
        aside += 1
    return aside


def _shared(lengths: Sequence[float], longest_first: list[int], width: int, given: dict[int, int]) -> tuple[int, ...]:
    """Divide the columns in proportion, rounding up the largest remainders, and of equal ones the longest lengths."""
    total = sum(lengths[index] for index in longest_first)
    exact = {index: lengths[index] / total * width for index in longest_first}
    given |= {index: max(int(share), 1) for index, share in exact.items()}
    left = width - sum(given[index] for index in longest_first)
    for index in sorted(longest_first, key=lambda at: int(exact[at]) - exact[at])[: max(left, 0)]:
        given[index] += 1
    return tuple(given.get(index, 0) for index in range(len(lengths)))
