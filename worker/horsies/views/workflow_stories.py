"""All stored data of one workflow: its current nodes, its result, its parent; and the texts of one node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.damage import is_whole, json_map, texts, whole_numbers
from horsies.domain.plan import MAP_DEFINITION
from horsies.query import WorkflowConditions
from horsies.store.statements import statement
from horsies.views.audit import audit_page
from horsies.views.detail import Ambiguous, Stored, find_id, stored
from horsies.views.progress import progress_of
from horsies.views.reader_session import aware
from horsies.views.workflows import workflow_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.views.audit import AuditRow
    from horsies.views.progress import Progress
    from horsies.views.workflows import WorkflowRow

_MAX_ACTIONS: Final = 50


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, with the state of its task or child workflow, in the column order of the statement."""

    index: int
    node_id: str | None
    name: str
    """The name of its task, or of the definition of its child."""
    status: str
    dependencies: tuple[int, ...]
    join: str
    min_success: int | None
    allow_failed_deps: bool
    args_from: Mapping[str, int]
    ctx_from: tuple[str, ...]
    queue: str
    priority: int
    task_id: str | None
    task_status: str | None
    """The status of its task; None if it has no task, or if the task was deleted."""
    retry_count: int
    max_retries: int
    next_retry_at: datetime | None
    """Time of the next attempt, only while it waits for a retry."""
    error_code: str | None
    """The error of a failed node, or of the last attempt of one that is retried."""
    started_at: datetime | None
    completed_at: datetime | None
    last_beat: datetime | None
    """The newest beat of the current execution."""
    worker_id: str | None
    worker_hostname: str | None
    worker_pid: int | None
    is_subworkflow: bool
    sub_workflow_id: str | None
    sub_definition_key: str | None
    """`__horsies_map__` (domain.plan.MAP_DEFINITION) for a node that runs one task per item."""
    sub_status: str | None
    sub_total: int | None
    """Number of nodes of the child workflow; None without a child."""
    sub_done: int | None
    sub_failed: int | None
    progress: Progress | None = None
    """The progress of its running task, if its code reports any."""

    @property
    def label(self) -> str:
        return self.node_id or f"{self.name}:{self.index}"

    @property
    def is_map(self) -> bool:
        """True if it runs one task per item; its child workflow contains them."""
        return self.sub_definition_key == MAP_DEFINITION

    @property
    def state(self) -> str:
        """The status; before that is stored, the task's: RUNNING once it runs, RETRY while it waits."""
        if self.status not in ("ENQUEUED", "RUNNING") or self.task_status is None:
            return self.status
        if self.task_status == "PENDING" and self.retry_count > 0:
            return "RETRY"
        return "RUNNING" if self.task_status == "RUNNING" else self.status


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One ended attempt of a node's task, in the column order of the statement."""

    index: int
    started_at: datetime
    finished_at: datetime
    outcome: str


@dataclass(frozen=True, slots=True)
class ParentLink:
    """The node of the parent that waits for this workflow, in the column order of the statement."""

    workflow_id: str
    name: str
    status: str
    task_index: int
    node_id: str | None
    node_status: str | None


@dataclass(frozen=True, slots=True)
class WorkflowStory:
    """The stored data of a workflow. Nodes are in the order of their indexes."""

    now: datetime
    row: WorkflowRow
    nodes: tuple[NodeView, ...]
    """The nodes, at most `most_nodes`; `row.total` is their number."""
    result: Stored | None
    error: Stored | None
    success_policy: Stored | None
    output_index: int | None
    """The node whose result is the workflow's; None for the results of all final nodes."""
    parent: ParentLink | None
    audit: tuple[AuditRow, ...]
    """The last operator actions on the workflow, newest first."""


@dataclass(frozen=True, slots=True)
class NodeStory:
    """The data of a node that a list does not show."""

    now: datetime
    workflow_id: str
    workflow_name: str
    workflow_status: str
    node: NodeView
    args: Stored | None
    kwargs: Stored | None
    options: Stored | None
    result: Stored | None
    summary: Stored | None
    """The summary of an ended child workflow."""
    audit: tuple[AuditRow, ...]


async def find_workflow(conn: asyncpg.Connection, text: str) -> str | Ambiguous | None:
    """Return the id `text`, or the only id that begins or ends with it; None if there is none."""
    return await find_id(conn, "horsies_workflows", text)


async def workflow_story(
    conn: asyncpg.Connection, text: str, *, exact: bool = False, most_nodes: int = 5_000, most_characters: int = 200_000
) -> WorkflowStory | Ambiguous | None:
    """Read a workflow by its id, or, unless `exact`, its beginning or end. Texts are cut after `most_characters`."""
    found = text if exact else await find_workflow(conn, text)
    if not isinstance(found, str):
        return found
    page = await workflow_page(conn, WorkflowConditions().among("id", (found,)), limit=1)
    story = await conn.fetchrow(statement(__name__, "view_workflow_story"), found, most_characters)
    if not page.rows or story is None:
        return None  # has just been deleted
    nodes = await conn.fetch(statement(__name__, "view_workflow_nodes"), found, most_nodes, None)
    audit = await audit_page(conn, limit=_MAX_ACTIONS, target=("workflow", found))
    return WorkflowStory(
        now=page.now,
        row=page.rows[0],
        nodes=await _with_progress(conn, map(_node, nodes)),
        result=stored(story, "result"),
        error=stored(story, "error"),
        success_policy=stored(story, "policy"),
        output_index=story["output_task_index"],
        parent=ParentLink(*tuple(story)[-6:]) if story["parent_id"] is not None else None,
        audit=audit.rows,
    )


async def workflow_runs(conn: asyncpg.Connection, workflow_id: str, *, most: int = 5_000) -> tuple[NodeRun, ...]:
    """Read the ended attempts of all nodes of the workflow with this complete id, in the order of the nodes."""
    rows = await conn.fetch(statement(__name__, "view_workflow_runs"), workflow_id, most)
    return tuple(NodeRun(*map(aware, row)) for row in rows)


async def node_story(
    conn: asyncpg.Connection, workflow_id: str, index: int, *, most_characters: int = 200_000
) -> NodeStory | None:
    """Read one node of the workflow with this complete id."""
    story = await conn.fetchrow(statement(__name__, "view_node_story"), workflow_id, index, most_characters)
    node = await conn.fetchrow(statement(__name__, "view_workflow_nodes"), workflow_id, 1, index)
    if story is None or node is None:
        return None
    audit = await audit_page(conn, limit=_MAX_ACTIONS, target=("node", f"{workflow_id}:{index}"))
    (reporting,) = await _with_progress(conn, [_node(node)])
    return NodeStory(
        now=story["now"],
        workflow_id=story["id"],
        workflow_name=story["name"],
        workflow_status=story["status"],
        node=reporting,
        args=stored(story, "args"),
        kwargs=stored(story, "kwargs"),
        options=stored(story, "options"),
        result=stored(story, "result"),
        summary=stored(story, "summary"),
        audit=audit.rows,
    )


async def _with_progress(conn: asyncpg.Connection, nodes: Iterable[NodeView]) -> tuple[NodeView, ...]:
    found = tuple(nodes)
    runs = {
        node.index: (node.task_id, node.started_at)
        for node in found
        if node.task_status == "RUNNING" and node.task_id is not None and node.started_at is not None
    }
    reports = await progress_of(conn, runs.values())
    return tuple(
        replace(node, progress=reports.get(runs[node.index])) if node.index in runs else node for node in found
    )


def _node(row: Any) -> NodeView:
    columns = [aware(value) for value in row]
    names = list(row.keys())
    columns[names.index("dependencies")] = whole_numbers(row["dependencies"])
    columns[names.index("args_from")] = json_map(row["args_from"], values=is_whole)
    columns[names.index("workflow_ctx_from")] = texts(row["workflow_ctx_from"])
    return NodeView(*columns)
