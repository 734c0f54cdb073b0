"""The reads of a workflow handle: its outcome and its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.codec import load_summary, load_task_error, load_task_result
from horsies.domain.codec.classes import OURS, Classes
from horsies.domain.codes import OutcomeCode, RetrievalCode
from horsies.domain.infos import WorkflowTaskInfo
from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.domain.codes import BuiltInTaskCode

_FINAL: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED", "PAUSED"})
_WITHOUT_ERROR: Final[dict[str, tuple[BuiltInTaskCode, str]]] = {
    "COMPLETED": (RetrievalCode.RESULT_NOT_AVAILABLE, "the workflow completed, but its row holds no result"),
    "FAILED": (OutcomeCode.WORKFLOW_FAILED, "the workflow failed without an error"),
    "CANCELLED": (OutcomeCode.WORKFLOW_CANCELLED, "the workflow was cancelled"),
    "PAUSED": (OutcomeCode.WORKFLOW_PAUSED, "the workflow is paused, and continues when it is resumed"),
}


@dataclass(frozen=True, slots=True)
class WorkflowOutcome:
    """A workflow's row as far as a wait for its result needs it."""

    workflow_id: str
    status: str
    stored: str | None
    error: str | None

    @property
    def is_final(self) -> bool:
        """True if no automatic change follows, which includes PAUSED, although it may be resumed."""
        return self.status in _FINAL

    def result(self, classes: Classes = OURS) -> TaskResult[Any, TaskError]:
        """The result of the workflow; only for a final one. Never raises, also for a damaged row."""
        if self.status == WorkflowStatus.COMPLETED and self.stored is not None:
            return load_task_result(self.stored, classes)
        if self.status in (WorkflowStatus.FAILED, WorkflowStatus.CANCELLED) and self.error is not None:
            return TaskResult(err=load_task_error(self.error, classes))
        code, message = _WITHOUT_ERROR[self.status]
        return TaskResult(err=TaskError(error_code=code, message=message, data={"workflow_id": self.workflow_id}))


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """One node's row; `status` is None if the workflow has no such node."""

    index: int | None
    status: str | None
    stored: str | None


async def read_workflow_outcomes(
    connection: asyncpg.Connection, workflow_ids: Sequence[str]
) -> dict[str, WorkflowOutcome]:
    """The existing rows with these ids."""
    rows = await connection.fetch(statement(__name__, "read_workflow_outcomes"), workflow_ids)
    return {row["id"]: WorkflowOutcome(*row) for row in rows}


async def read_nodes(
    connection: asyncpg.Connection, workflow_id: str, classes: Classes
) -> list[WorkflowTaskInfo] | None:
    """The nodes in their order; None if there is no such workflow. ValueError for an unknown status."""
    rows = await connection.fetch(statement(__name__, "read_workflow_nodes"), workflow_id)
    return [_info(row, classes) for row in rows if row["task_index"] is not None] if rows else None


async def read_node(connection: asyncpg.Connection, workflow_id: str, node_id: str) -> NodeOutcome | None:
    """One node by its node_id; None if there is no such workflow."""
    rows = await connection.fetch(statement(__name__, "read_workflow_node"), workflow_id, node_id)
    return NodeOutcome(*rows[0]) if rows else None


def _info(row: asyncpg.Record, classes: Classes) -> WorkflowTaskInfo:
    summary = row["sub_workflow_summary"]
    return WorkflowTaskInfo(
        node_id=row["node_id"],
        index=row["task_index"],
        name=row["task_name"],
        status=WorkflowTaskStatus(row["status"]),
        result=None if row["result"] is None else load_task_result(row["result"], classes),
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        sub_workflow_id=row["sub_workflow_id"],
        sub_workflow_summary=None if summary is None else load_summary(summary, classes),
    )
