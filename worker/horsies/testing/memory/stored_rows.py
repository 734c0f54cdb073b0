"""The rows of one `inline()` block, and the connection on which the engine's statements are answered from them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from horsies.domain.states import TaskStatus, WorkflowStatus, WorkflowTaskStatus
from horsies.lifecycle.workflow_rows import TERMINAL_NODES, NodeRow
from horsies.store.connect import DatabaseUnavailable
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from threading import RLock

    from horsies.store.enqueue import EnqueueRequest
    from horsies.testing.inline_task import InlineTask

    Answer: TypeAlias = "Callable[..., Sequence[Record] | None]"


LIVE_WORKFLOWS = frozenset({WorkflowStatus.RUNNING, WorkflowStatus.PAUSED})
LIVE_TASKS = frozenset({TaskStatus.PENDING, TaskStatus.CLAIMED, TaskStatus.RUNNING})


class Record(tuple[Any, ...]):
    """A row of an answer, read by place or by name as asyncpg's."""

    _names: tuple[str, ...]

    def __new__(cls, **columns: Any) -> Record:
        made = super().__new__(cls, columns.values())
        made._names = tuple(columns)
        return made

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._names.index(key) if isinstance(key, str) else key)

    def items(self) -> Iterator[tuple[str, Any]]:
        return zip(self._names, self, strict=True)


@dataclass(slots=True, eq=False)
class Workflow:
    """A row of horsies_workflows, and its nodes by their indexes."""

    id: str
    name: str
    on_error: str
    output_task_index: int | None
    success_policy: str | None
    definition_key: str | None
    parent_workflow_id: str | None
    parent_task_index: int | None
    depth: int
    root: str
    updated_at: datetime
    status: WorkflowStatus = WorkflowStatus.RUNNING
    result: str | None = None
    error: str | None = None
    completed_at: datetime | None = None
    nodes: dict[int, MemoryNode] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class MemoryNode:
    """A row of horsies_workflow_tasks."""

    id: str
    workflow: Workflow
    task_index: int
    node_id: str
    task_name: str
    task_kwargs: str
    queue_name: str
    priority: int
    dependencies: tuple[int, ...]
    args_from: str | None
    workflow_ctx_from: tuple[str, ...] | None
    allow_failed_deps: bool
    join_type: str
    min_success: int | None
    task_options: str | None
    sub_definition_key: str | None
    status: WorkflowTaskStatus
    task_id: str | None = None
    sub_workflow_id: str | None = None
    result: str | None = None
    sub_workflow_summary: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL_NODES


class Rows:
    """All rows, with their changes since the begin of the transaction, by which these can be undone."""

    def __init__(
        self,
        tasks: Mapping[str, InlineTask],
        add_task: Callable[[EnqueueRequest], InlineTask],
        now: Callable[[], datetime],
        lock: RLock,
    ) -> None:
        """`lock` is held during each use: tests send from several threads."""
        self.lock = lock
        self.tasks = tasks
        self.add_task = add_task
        self.now = now
        self.workflows: dict[str, Workflow] = {}
        self._by_task: dict[str, MemoryNode] = {}
        self.changes: list[Callable[[], object]] = []

    def write(self, row: Workflow | MemoryNode, **columns: Any) -> None:
        before = {name: getattr(row, name) for name in columns}
        self.changes.append(lambda: _set(row, before))
        _set(row, columns)

    def add(self, workflow: Workflow) -> None:
        self.workflows[workflow.id] = workflow
        self.changes.append(lambda: self.workflows.pop(workflow.id))

    def link(self, node: MemoryNode, task_id: str) -> None:
        self._by_task[task_id] = node
        self.write(node, status=WorkflowTaskStatus.ENQUEUED, task_id=task_id)

    def undo(self, down_to: int) -> None:
        while len(self.changes) > down_to:
            self.changes.pop()()

    def those(self, workflow_ids: Iterable[str]) -> list[Workflow]:
        return [self.workflows[each] for each in dict.fromkeys(workflow_ids) if each in self.workflows]

    def nodes(self, workflow_ids: Sequence[str], indexes: Sequence[int]) -> list[MemoryNode | None]:
        """Return the nodes in the order of the arguments; None where there is no such node."""
        asked = zip(workflow_ids, indexes, strict=True)
        return [
            None if (found := self.workflows.get(workflow_id)) is None else found.nodes.get(index)
            for workflow_id, index in asked
        ]

    def node_of(self, task_id: str) -> MemoryNode | None:
        """The node whose present task it is."""
        node = self._by_task.get(task_id)
        return node if node is not None and node.task_id == task_id else None

    def is_held(self, task_id: str) -> bool:
        """Return whether its workflow does not run: paused, or ended without it."""
        node = self._by_task.get(task_id)
        return node is not None and node.workflow.status is not WorkflowStatus.RUNNING

    def children(self, workflow_id: str) -> list[Workflow]:
        return [each for each in self.workflows.values() if each.parent_workflow_id == workflow_id]

    def below(self, workflow_id: str) -> list[Workflow]:
        """This workflow and all that its nodes have started, on all levels."""
        found = self.those([workflow_id])
        for workflow in found:  # it grows
            found += self.children(workflow.id)
        return found

    def node_row(self, node: MemoryNode) -> NodeRow:
        """Return the node with the states of its task and child, as the engine reads it for decisions."""
        task = self.tasks.get(node.task_id or "")
        child = self.workflows.get(node.sub_workflow_id or "")
        return NodeRow(
            workflow_id=node.workflow.id,
            index=node.task_index,
            node_id=node.node_id,
            task_name=node.task_name,
            status=node.status,
            dependencies=node.dependencies,
            context_from=node.workflow_ctx_from or (),
            allow_failed_deps=node.allow_failed_deps,
            join=node.join_type,
            min_success=node.min_success,
            is_subworkflow=node.sub_definition_key is not None,
            task_id=node.task_id,
            sub_workflow_id=node.sub_workflow_id,
            completed_at=node.completed_at,
            task_status=None if task is None else task.status,
            task_started_at=None if task is None else task.started_at,
            task_ended_at=None if task is None else task.ended_at,
            task_has_result=task is not None and task.stored is not None,
            child_status=None if child is None else child.status,
        )


def array(text: str) -> tuple[str, ...]:
    """The items of an array in PostgreSQL's text form, as `create_workflow` writes it: each of them quoted."""
    return tuple(json.loads(f"[{text[1:-1]}]", strict=False))


def _set(row: Workflow | MemoryNode, columns: Mapping[str, Any]) -> None:
    for name, value in columns.items():
        setattr(row, name, value)


T = TypeVar("T")

ANSWERS: dict[str, Answer] = {}


def answers(module: str) -> Callable[[Answer], Answer]:
    """The function below answers the statement of its name in the SQL file of that module."""

    def add(answer: Answer) -> Answer:
        ANSWERS[statement(module, answer.__name__)] = answer
        return answer

    return add


def run_now(work: Awaitable[T]) -> T:
    """The result of a coroutine that waits for nothing, as those on a MemoryConnection; it needs no event loop."""
    try:
        next(work.__await__())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"{work!r} waits for something")


def no_database() -> DatabaseUnavailable:
    return DatabaseUnavailable(
        "inside inline() there is no database",
        help_text="sends, workflows and their handles work here; for the rest use embedded_database() of"
        " horsies.testing, or the fixture horsies_db",
        transient=False,
    )


class MemoryConnection:
    """The part of asyncpg's connection that the engine uses. Nothing here waits: coroutines end at their first step."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._depth = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[MemoryConnection]:
        """The connection for one use; user code must not run inside."""
        with self.rows.lock:
            yield self

    async def fetch(self, query: str, *parameters: Any) -> Sequence[Record]:
        answer = ANSWERS.get(query)
        if answer is None:
            raise no_database()
        return answer(self.rows, *parameters) or ()

    async def fetchrow(self, query: str, *parameters: Any) -> Record | None:
        return next(iter(await self.fetch(query, *parameters)), None)

    async def fetchval(self, query: str, *parameters: Any) -> Any:
        row = await self.fetchrow(query, *parameters)
        return None if row is None else row[0]

    async def execute(self, query: str, *parameters: Any) -> None:
        await self.fetch(query, *parameters)

    def transaction(self, **_options: Any) -> AbstractAsyncContextManager[None]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        begin = len(self.rows.changes)
        self._depth += 1
        try:
            yield
        except BaseException:
            self.rows.undo(begin)
            raise
        finally:
            self._depth -= 1
            if not self._depth:
                self.rows.changes.clear()
