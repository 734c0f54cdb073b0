"""An alert: its level, its evidence, and the filter for the rows that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class Level(IntEnum):
    """Sorted descending, the worst comes first."""

    NOTE = 1
    LOOK = 2
    """The system handles it, or it is only slow."""
    HURT = 3
    """It stays until an operator acts, or tasks are being lost."""


@dataclass(frozen=True, slots=True)
class Alert:
    """`what` is short enough for the verdict, `evidence` gives the numbers.

    `rows` is the filter of the tasks that the alert is about, `workers` that of the workers if it is only about those.
    If neither is set, the recovery screen has a line for each.
    """

    id: str
    level: Level
    what: str
    evidence: str
    since: datetime | None = None
    lasts: str = ""
    """How long it has lasted when it was computed, as in its evidence."""
    told: str = ""
    """The same for the verdict, if no other part says how long."""
    rows: str | None = None
    workers: str | None = None
    workflow: str | None = None
    """The id of the workflow, if the alert is about a single one."""
    failing_since: datetime | None = None
    """For failures: the start of `rows`. Kept while the alert lasts, so that no row drops out."""
