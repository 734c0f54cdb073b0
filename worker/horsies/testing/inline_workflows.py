"""The workflows of an `inline()` block: the engine's own advance, on rows in memory."""

from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from horsies.lifecycle.advancing import advance, nodes_started
from horsies.lifecycle.create_workflow import ready_children
from horsies.lifecycle.node_tasks import resolved
from horsies.run.worker.subworkflow_builder import build_child
from horsies.store.reading import read_nodes, read_workflow_outcomes
from horsies.testing.here import loop_runs_here
from horsies.testing.memory import advancing as _advancing, workflow_statements as _workflows  # noqa: F401 - the answers
from horsies.testing.memory.rows import run_now
from horsies.workflow.subworkflow_plan import BuildFailed, child_plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horsies.app import Horsies
    from horsies.domain.codec.classes import Classes
    from horsies.domain.plan import WorkflowPlan
    from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
    from horsies.domain.task_result import TaskError, TaskResult
    from horsies.lifecycle.create_workflow import ReadyChild
    from horsies.store.reading import WorkflowOutcome, WorkflowTaskInfo
    from horsies.testing.memory.rows import Rows, Workflow

T = TypeVar("T")

_CHILDREN = 100


class InlineWorkflow:
    """One workflow that was started inside `inline()`, for asserts. It changes as its tasks run."""

    def __init__(self, row: Workflow, rows: Rows, classes: Classes) -> None:
        self._row = row
        self._rows: Any = rows
        self._classes = classes

    @property
    def workflow_id(self) -> str:
        return self._row.id

    @property
    def name(self) -> str:
        return self._row.name

    @property
    def definition_key(self) -> str | None:
        return self._row.definition_key

    @property
    def parent_id(self) -> str | None:
        """The workflow whose node has started it, if it is a sub-workflow."""
        return self._row.parent_workflow_id

    @property
    def status(self) -> WorkflowStatus:
        return self._row.status

    @property
    def statuses(self) -> dict[str, WorkflowTaskStatus]:
        """The state of each node by its node_id: `{"charge": "COMPLETED", "ship": "SKIPPED"}`."""
        return {node.node_id: node.status for node in self._row.nodes.values()}

    @property
    def nodes(self) -> list[WorkflowTaskInfo]:
        return run_now(read_nodes(self._rows, self.workflow_id, self._classes)) or []

    @property
    def result(self) -> TaskResult[Any, TaskError] | None:
        """The result; None before its end."""
        outcome = run_now(read_workflow_outcomes(self._rows, [self.workflow_id]))[self.workflow_id]
        return outcome.result(self._classes) if self.status.is_terminal else None

    def __repr__(self) -> str:
        return f"<workflow {self.name!r} {self.status}: {', '.join(f'{n} {s}' for n, s in self.statuses.items())}>"


class InlineWorkflows:
    """Takes the workflows on after each task, as a worker does with its advance."""

    def __init__(self, app: Horsies, rows: Rows, on_error: Callable[[BaseException | None], None]) -> None:
        """`on_error` is called with what the `build_with` of a child has raised."""
        self.rows = rows
        self._app = app
        self._on_error = on_error

    def all(self) -> list[InlineWorkflow]:
        return [InlineWorkflow(row, self.rows, self._app.storable) for row in self.rows.workflows.values()]

    def outcome(self, workflow_id: str) -> WorkflowOutcome | None:
        return self._use(partial(read_workflow_outcomes, workflow_ids=[workflow_id])).get(workflow_id)

    def arguments(self, kwargs_json: str | None) -> str | None:
        """Return the arguments with the results that are too large to be copied from node to node."""
        return self._use(partial(resolved, kwargs=kwargs_json))

    def task_started(self, task_id: str) -> None:
        if self.rows.node_of(task_id) is not None:
            self._use(partial(nodes_started, task_ids=[task_id]))

    def task_ended(self, task_id: str) -> None:
        if self.rows.node_of(task_id) is not None:
            self._use(partial(advance, task_ids=[task_id]))

    def includes(self, workflow_id: str, task_id: str) -> bool:
        """Return whether the task is of this workflow, or of one above or below it."""
        node, workflow = self.rows.node_of(task_id), self.rows.workflows.get(workflow_id)
        return node is not None and workflow is not None and node.workflow.root == workflow.root

    def waiting_children(self) -> list[tuple[str, int]]:
        """Return the nodes that wait for the start of their child workflows."""
        if not self.rows.workflows:
            return []
        return self._use(partial(ready_children, workflow_ids=None, limit=_CHILDREN))

    def build_children(self) -> bool:
        """Start the child workflows that nodes wait for; returns whether there were any."""
        waiting = self.waiting_children()
        for workflow_id, index in waiting:
            refused = run_now(build_child(self._app, self.rows.acquire, workflow_id, index, make_plan=_plan_here))
            if isinstance(refused, BuildFailed):
                self._on_error(refused.__cause__)
        return bool(waiting)

    def _use(self, act: Callable[[Any], Awaitable[T]]) -> T:
        with self.rows.lock:
            return run_now(act(self.rows))


async def _plan_here(app: Horsies, child: ReadyChild) -> WorkflowPlan:
    """Build the plan in the test's thread, unless it runs an event loop: a worker's `build_with` has none."""
    build = partial(child_plan, app, child.definition_key, child.kwargs_json)
    if not loop_runs_here():
        return build()
    with ThreadPoolExecutor(1, thread_name_prefix="horsies inline") as thread:
        return thread.submit(contextvars.copy_context().run, build).result()
