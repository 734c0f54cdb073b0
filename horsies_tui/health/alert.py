"""What an alert says: how bad it is, by which evidence, and where the rows are that it speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class Level(IntEnum):
    """Worst first when sorted descending."""

    NOTE = 1
    LOOK = 2
    """It is handled, or only slow."""
    HURT = 3
    """It stays so until somebody acts, or tasks are lost on the way."""


@dataclass(frozen=True, slots=True)
class Alert:
    """`what` fits into a verdict, `evidence` says by which numbers.

    `rows` is the filter of the tasks that it speaks of, `workers` that of the workers where it speaks of those alone.
    Neither: the recovery desk has a line for each.
    """

    id: str
    level: Level
    what: str
    evidence: str
    since: datetime | None = None
    lasts: str = ""
    """How long since then, when it was judged: as its evidence has it."""
    told: str = ""
    """The same for the verdict, where nothing else says since when."""
    rows: str | None = None
    workers: str | None = None
    workflow: str | None = None
    """The id of the one workflow that it speaks of."""
    failing_since: datetime | None = None
    """Of failures: from when on `rows` has them. It is kept while the alert stands, so that no row slides out."""
