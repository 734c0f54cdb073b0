"""Who may write to a running task: the claim token, and what becomes of a write that no longer may."""

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
    """What the database made of a guarded write. STALE: somebody else has the task by now; drop what you hold."""

    ACCEPTED = "accepted"
    STALE = "stale"


def in_order(tokens: Iterable[Token]) -> list[Token]:
    """By task: every batch locks its rows in this order, so that no two of them wait for each other."""
    return sorted(tokens, key=attrgetter("task_id"))


def ids(tokens: Iterable[Token]) -> list[str]:
    return [token.task_id for token in tokens]


def claim_times(tokens: Iterable[Token]) -> list[datetime]:
    return [token.claimed_at for token in tokens]
