"""Where workflows are searched for: the sources, each with its index, and which of them contains all matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.store.statements import statement
from horsies.views.searching import Source, Table

if TYPE_CHECKING:
    from horsies.query import WorkflowConditions

LIVE_STATUSES: Final = ("PENDING", "RUNNING", "PAUSED")
UNSUCCESSFUL_STATUSES: Final = ("FAILED", "CANCELLED")

WORKFLOWS: Final = Table("horsies_workflows", "workflow", statement(__name__, "view_workflow_candidates"))

_SENT: Final = frozenset({"since", "until"})

CREATED: Final = Source("created", "true", 10_000, time="created_at", serves=_SENT)
LIVE: Final = Source(
    "live",
    "status IN ('PENDING', 'RUNNING', 'PAUSED')",
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
BY_ID: Final = Source("ids", statement(__name__, "view_workflows_by_id"), 10_000, serves=frozenset({"id"}))
OF_PARENTS: Final = Source(
    "parents", statement(__name__, "view_workflows_of_parents"), 10_000, serves=frozenset({"parent"})
)


def source_for(wanted: WorkflowConditions) -> Source:
    """The smallest source that contains all matches."""
    if wanted.exact("id") is not None:
        return BY_ID
    if wanted.exact("parent") is not None:
        return OF_PARENTS
    among = frozenset(wanted.statuses or ())
    if among and among <= set(LIVE_STATUSES):
        return LIVE
    return UNSUCCESSFUL if among and among <= set(UNSUCCESSFUL_STATUSES) else CREATED
