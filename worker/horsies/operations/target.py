"""The target of a manual verb, its result and its actor: the same types for all kinds of targets."""

from __future__ import annotations

import os
import pwd
import socket
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import HorsiesError
from horsies.domain.quantities import counted, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from horsies.domain.states import TargetKind
    from horsies.lifecycle.workflow_rows import NodeRow


_MAX_NODES: Final = 5


class OperationError(HorsiesError):
    """The error for an operator action that cannot be tried at all; a refused row is not an error."""


class RefusedError(Exception):
    """The reason why one target is not changed: it is no longer as it was in the preview."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that offers the known name that is most alike; empty if there is none."""
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def names(nodes: Sequence[NodeRow]) -> str:
    """Return the names of the first five nodes, and how many more there are."""
    more = f" and {len(nodes) - _MAX_NODES} more" if len(nodes) > _MAX_NODES else ""
    return ", ".join(node.node_id for node in nodes[:_MAX_NODES]) + more


@dataclass(frozen=True, slots=True)
class Target:
    """One target of an action. `state` is what the operator saw, `seen` what the statement compares with the row."""

    kind: TargetKind
    id: str
    label: str
    state: str
    seen: Any = None
    queue: str | None = None
    """The queue, if the target is a task."""


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """`detail` of a refused row is its present state. `new_id` is the copy that a rerun made."""

    target: Target
    applied: bool
    detail: str
    new_id: str | None = None


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """The columns of a change's audit row that undo needs."""

    id: int
    verb: str
    target_kind: TargetKind
    target_id: str
    status: str | None
    """The result of a task before the change."""
    new_id: str | None = None
    """The copy that a rerun made."""


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """One argument of a task that is sent again with another value. The values are JSON, None where it is absent.

    `path` are the names that lead to it, by which it may be masked.
    """

    path: tuple[str, ...]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Undone:
    """The operation that an undo restores, in the column order of the statement."""

    verb: str
    kind: TargetKind
    count: int
    acted_at: datetime
    by: str
    reason: str | None

    @property
    def what(self) -> str:
        """The operation in words, such as `requeue of 776 tasks`."""
        return f"{self.verb} of {counted(self.count, self.kind)}"

    def words(self, now: datetime) -> str:
        """The operation in words, such as `requeue of 776 tasks · 2m04s ago · ops@bastion · "the limit was raised"`."""
        why = [f'"{self.reason}"'] if self.reason else []
        return " · ".join([self.what, f"{span((now - self.acted_at).total_seconds())} ago", self.by, *why])


@dataclass(frozen=True, slots=True)
class Actor:
    os_user: str
    os_host: str

    @classmethod
    def current(cls) -> Actor:
        """Return the account of this process; not $USER, which the user can set to any value."""
        uid = os.getuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:  # a container that runs under a uid without an account
            name = f"uid-{uid}"
        return cls(name, socket.gethostname())

    def __str__(self) -> str:
        return f"{self.os_user}@{self.os_host}"
