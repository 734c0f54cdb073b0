"""Filters that keys create without typing, and the targets of a verb in the task list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.operations.selection import Selection
from horsies.query import TaskFilter, Term
from horsies.query.keys import EVERY_STATE, INTERRUPTED, SCHEDULED, STATES
from horsies.query.language import states
from horsies.query.values import Choice, Glob
from horsies.views import Sort
from horsies_tui.look.units import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from horsies.query.values import Value
    from horsies.views import GroupBy, TaskStatistics
    from horsies_tui.tasks.snapshot import TaskNeed

GROUP_KEYS: Final[Mapping[GroupBy, str]] = {
    "error_code": "error",
    "task_name": "name",
    "queue_name": "queue",
    "worker": "worker",
}
"""The key of the filter language for each grouping."""

_PARTS: Final = {"PENDING": SCHEDULED, "FAILED": INTERRUPTED}
_ENDED_BADLY: Final = frozenset({"FAILED", INTERRUPTED, "CANCELLED", "EXPIRED"})
_SHORT: Final = {STATES[word]: word for word in ("live", "done")}
_SHOWN_BY: Final = {
    Sort.WAITING: STATES["pending"] | STATES["retry"],
    Sort.RUNNING: STATES["running"],
    Sort.FINISHED: STATES["done"],
}
"""Sort orders that show only tasks in these states."""


class NoSuchFilter(HorsiesError):  # noqa: N818 - not an error of the operator
    """The selection cannot be expressed as a filter; the message says why."""

    default_code = ErrorCode.CLI_INVALID_ARGS


def of_states(current: TaskFilter, shown: frozenset[str]) -> TaskFilter:
    """Return the filter with exactly these states as rows show them; none or all of them mean any."""
    # A scheduled task is shown as pending.
    return _of_states(current, shown | {SCHEDULED} if "PENDING" in shown else shown - {SCHEDULED})


def _of_states(current: TaskFilter, wanted: frozenset[str]) -> TaskFilter:
    others = tuple(term for term in current.terms if term.key != "status")
    if wanted in (frozenset(), EVERY_STATE):
        return TaskFilter(others)
    if wanted in _SHORT:
        return TaskFilter((_status(_SHORT[wanted]), *others))
    without = [part.lower() for whole, part in _PARTS.items() if whole in wanted and part not in wanted]
    # The word of a state also covers the part of it that has a separate word.
    covered = {part for whole, part in _PARTS.items() if whole in wanted}
    words = [word for word in STATES if word.upper() in wanted - covered]
    return TaskFilter((_status(*words), *([_status(*without, negated=True)] if without else []), *others))


def of_groups(current: TaskFilter, by: GroupBy, keys: Sequence[str | None]) -> TaskFilter:
    """Return the filter for tasks that match the current one and are in one of these groups."""
    name = GROUP_KEYS[by]
    named = [key for key in keys if key]
    if len(named) == len(keys):
        others = tuple(term for term in current.terms if term.key != name or term.negated)
        return TaskFilter((*others, Term(name, tuple(map(Glob.literal, named)))))
    if named:
        raise NoSuchFilter(
            f"one filter cannot select tasks with and tasks without a {name}; choose one group at a time"
        )
    if by != "error_code":
        raise NoSuchFilter(f"there is no filter for tasks without a {name}")
    # Groups of error codes count only unsuccessful tasks, unless the filter names states.
    counted = current if any(term.key == "status" for term in current.terms) else of_states(current, _ENDED_BADLY)
    return TaskFilter((*counted.terms, Term("has", (Choice("error"),), negated=True)))


def all_shown(current: TaskFilter, sort: Sort) -> TaskFilter:
    """Return the filter for all matching tasks that this sort order shows."""
    if not current.terms:
        raise NoSuchFilter("this would select every task in the table; set a filter first, with /")
    shown = states(current) & _SHOWN_BY.get(sort, EVERY_STATE)
    if not shown:
        raise NoSuchFilter("no matching task is shown in this sort order; s changes it")
    return current if shown == states(current) else _of_states(current, shown)


def _status(*words: str, negated: bool = False) -> Term:
    values: tuple[Value, ...] = tuple(map(Choice, words))
    return Term("status", values, negated)


@dataclass(frozen=True, slots=True)
class ChosenGroups:
    """The selection. `groups` are the keys of the marked groups or the one under the cursor; `ids` likewise.

    In statistics, groups are task names.
    """

    need: TaskNeed
    statistics: TaskStatistics | None
    all_that_match: bool
    groups: tuple[str | None, ...]
    ids: tuple[str, ...]
    marked: int

    def selection(self) -> Selection | None:
        """Return the selection, None if nothing is chosen. Raises NoSuchFilter if no filter can express it."""
        if self.need.statistics is not None:
            names = [name for name in self.groups if name is not None]
            if self.statistics is None or not names:
                return None
            return Selection.of_filter(self.statistics.filter_of(self.need.filter, names).text)
        if self.need.group_by is not None:
            if not self.groups:
                return None
            return Selection.of_filter(of_groups(self.need.filter, self.need.group_by, self.groups).text)
        if self.all_that_match:
            return Selection.of_filter(all_shown(self.need.filter, self.need.sort).text)
        return Selection.of_ids(self.ids) if self.ids else None

    @property
    def words(self) -> str:
        """Return the selection as text; empty if it is only the row under the cursor."""
        if self.marked:
            return f"{number(self.marked)} marked"
        return "all that match" if self.all_that_match and self.need.in_rows else ""
