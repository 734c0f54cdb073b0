"""The claim token, which decides whether a worker may still write to a task, and the verdict on such a write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Token:
    """One claim of one task. `claimed_at` was issued by the database and differs for every claim of a row."""

    task_id: str
    worker_id: str
    claimed_at: datetime


class Verdict(Enum):
    """The result of a guarded write. STALE: the worker has lost the task and must drop its claim."""

    ACCEPTED = "accepted"
    STALE = "stale"


def in_order(tokens: Iterable[Token]) -> list[Token]:
    """Tokens ordered by task: every batch locks its rows in this order, so that no two batches deadlock."""
    return sorted(tokens, key=attrgetter("task_id"))


def ids(tokens: Iterable[Token]) -> list[str]:
    return [token.task_id for token in tokens]


def claim_times(tokens: Iterable[Token]) -> list[datetime]:
    return [token.claimed_at for token in tokens]
