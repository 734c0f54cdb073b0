"""The sources in which workflows are searched, each with its index, and which of them contains all matches."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from horsies.store.statements import STATES, statement
from horsies.views.searching import Source, Table

if TYPE_CHECKING:
    from horsies.query import WorkflowConditions

LIVE_STATUSES: Final = ("PENDING", "RUNNING", "PAUSED")
UNSUCCESSFUL_STATUSES: Final = ("FAILED", "CANCELLED")


class WorkflowSort(StrEnum):
    """Orders that an index serves. OPEN shows only unfinished workflows, ENDED only ended ones."""

    NEWEST = "newest"
    OLDEST = "oldest"
    OPEN = "open"
    ENDED = "ended"

    @property
    def is_ascending(self) -> bool:
        return self in (WorkflowSort.OLDEST, WorkflowSort.OPEN)


WORKFLOWS: Final = Table("horsies_workflows", "workflow", statement(__name__, "view_workflow_candidates"))

_SENT: Final = frozenset({"since", "until"})

CREATED: Final = Source("created", "true", 10_000, time="created_at", serves=_SENT)
LIVE: Final = Source(
    "live",
    f"status IN {STATES['open_workflows']}",
    10_000,
    time="created_at",
    serves=_SENT,
    statuses=frozenset(LIVE_STATUSES),
)
UNSUCCESSFUL: Final = Source(
    "unsuccessful",
    "status IN ('FAILED', 'CANCELLED')",
    3_000,
    time="created_at",
    serves=_SENT,
    statuses=frozenset(UNSUCCESSFUL_STATUSES),
)
# The index does not contain the id: rows of one moment are read together and sorted.
ENDED: Final = Source(
    "ended",
    f"status IN {STATES['ended_workflows']}",
    10_000,
    time="COALESCE(completed_at, updated_at, created_at)",
    statuses=frozenset({"COMPLETED", *UNSUCCESSFUL_STATUSES}),
)
BY_ID: Final = Source("ids", statement(__name__, "view_workflows_by_id"), 10_000, serves=frozenset({"id"}))
OF_PARENTS: Final = Source(
    "parents", statement(__name__, "view_workflows_of_parents"), 10_000, serves=frozenset({"parent"})
)


def source_for(wanted: WorkflowConditions, sort: WorkflowSort = WorkflowSort.NEWEST) -> Source:
    """Return the smallest source that contains all matches, in this order."""
    match sort:
        case WorkflowSort.OPEN:
            return LIVE
        case WorkflowSort.ENDED:
            return ENDED
    if wanted.exact("id") is not None:
        return BY_ID
    if wanted.exact("parent") is not None:
        return OF_PARENTS
    among = frozenset(wanted.statuses or ())
    if among and among <= set(LIVE_STATUSES):
        return LIVE
    return UNSUCCESSFUL if among and among <= set(UNSUCCESSFUL_STATUSES) else CREATED
