"""The preview of a verb and its outcome: the same few types for all kinds of targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from horsies.operations.target import AuditedAction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from horsies.operations.target import ArgumentChange, RowOutcome, Target, Undone
    from horsies.operations.verb import Verb


@dataclass(frozen=True, slots=True)
class Refusal:
    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class Preview:
    """Frozen at `taken_at` of the database's clock: later rows are not touched, changed rows are refused."""

    verb: Verb
    options: Mapping[str, Any]
    eligible: tuple[Target, ...]
    refused: tuple[Refusal, ...]
    consequences: tuple[str, ...]
    filter: str | None
    command: str
    """The equivalent shell command."""
    taken_at: datetime
    undone: Undone | None = None
    held: int = 0
    """Number of waiting tasks that workers do not start while an operator decides about an undo."""
    changes: tuple[ArgumentChange, ...] = ()
    """The edited arguments."""


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """The results for a preview's eligible rows; those that it refused are not included.

    `stopped` is the reason for rows in `not_attempted`. `in_doubt` rows were sent when the connection broke: the audit
    rows of `operation_id` show whether they were changed.
    """

    operation_id: UUID
    verb: Verb
    rows: tuple[RowOutcome, ...]
    not_attempted: tuple[Target, ...] = ()
    in_doubt: tuple[Target, ...] = field(default=())
    stopped: str | None = None

    @property
    def can_be_undone(self) -> bool:
        """True if any row can be undone. A run that was taken from its worker cannot: its attempt has ended."""
        return any(self.verb.why_not_undone(_as_audited(self.verb, row.target)) is None for row in self.applied)

    @property
    def applied(self) -> tuple[RowOutcome, ...]:
        return tuple(row for row in self.rows if row.applied)

    @property
    def refused(self) -> tuple[RowOutcome, ...]:
        return tuple(row for row in self.rows if not row.applied)


def _as_audited(verb: Verb, target: Target) -> AuditedAction:
    return AuditedAction(0, verb.name, target.kind, target.id, target.state.partition(" ")[0])
