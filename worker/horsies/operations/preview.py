"""What a manual verb would do, and what it did: the same few shapes for tasks, workers and queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from horsies.domain.errors import HorsiesError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

TargetKind: TypeAlias = Literal["task", "workflow", "node", "worker", "queue", "schedule"]


_WITH_WAY_BACK = frozenset({"requeue", "fail", "cancel", "retry-now", "drain", "resume", "pause"})


class OperationError(HorsiesError):
    """A manual verb that cannot be tried at all; what is refused row by row is no error."""


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to act on. `state` is what a person saw, `seen` what the statement compares with the row."""

    kind: TargetKind
    id: str
    label: str
    state: str
    seen: Any = None
    queue: str | None = None
    """Of a task."""


@dataclass(frozen=True, slots=True)
class Refusal:
    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class Preview:
    """Frozen at `taken_at` of the database's clock: what comes later is not touched, what changes is refused."""

    verb: str
    options: Mapping[str, Any]
    eligible: tuple[Target, ...]
    refused: tuple[Refusal, ...]
    consequences: tuple[str, ...]
    filter: str | None
    command: str
    """The line that does the same from a shell."""
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """`detail` of a refused one says what the row is now. `new_id` is the copy that a rerun made."""

    target: Target
    applied: bool
    detail: str
    new_id: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a preview's eligible rows; those that it refused are not in here.

    `stopped` says why there are rows in `not_attempted`. `in_doubt` were sent when the connection broke: the audit rows
    of `operation_id` tell whether they were changed.
    """

    operation_id: UUID
    verb: str
    rows: tuple[RowOutcome, ...]
    not_attempted: tuple[Target, ...] = ()
    in_doubt: tuple[Target, ...] = field(default=())
    stopped: str | None = None

    @property
    def can_be_undone(self) -> bool:
        """Whether any of it has a way back. A run that was taken from its worker has none: that attempt is history."""
        return any(_has_way_back(self.verb, row.target) for row in self.applied)

    @property
    def applied(self) -> tuple[RowOutcome, ...]:
        return tuple(row for row in self.rows if row.applied)

    @property
    def refused(self) -> tuple[RowOutcome, ...]:
        return tuple(row for row in self.rows if not row.applied)


def _has_way_back(verb: str, target: Target) -> bool:
    if target.kind in ("workflow", "node"):
        return verb in ("pause", "resume")
    return verb in _WITH_WAY_BACK and target.state != "RUNNING"
