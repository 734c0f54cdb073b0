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

    @classmethod
    def of(cls, row: object, names: str, **others: Any) -> Record:
        """Return the columns of a row with these names, in their order, then the others."""
        return cls(**{name: getattr(row, name) for name in names.split()}, **others)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._names.index(key) if isinstance(key, str) else key)

    def keys(self) -> Sequence[str]:
        return self._names

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

    @property
    def has_error(self) -> bool:
        return self.error is not None


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
    workflow_ctx_from: tuple[str, ...]
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
    def workflow_id(self) -> str:
        return self.workflow.id

    @property
    def is_subworkflow(self) -> bool:
        return self.sub_definition_key is not None

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL_NODES

    @property
    def is_ready(self) -> bool:
        """True if its task, or its child workflow, can be made now."""
        free = self.task_id is None and self.sub_workflow_id is None
        return free and self.status is WorkflowTaskStatus.READY and self.workflow.status is WorkflowStatus.RUNNING


class Rows:
    """All rows, and the part of asyncpg's connection that the engine uses, on which its statements are answered.

    Nothing here waits: coroutines end at their first step. The changes of a transaction are kept until its end, so that
    they can be undone.
    """

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
        self._changes: list[Callable[[], object]] = []
        self._depth = 0

    def write(self, row: Workflow | MemoryNode, **columns: Any) -> None:
        before = {name: getattr(row, name) for name in columns}
        self._changes.append(lambda: _set(row, before))
        _set(row, columns)

    def add(self, workflow: Workflow) -> None:
        self.workflows[workflow.id] = workflow
        self._changes.append(lambda: self.workflows.pop(workflow.id))

    def link(self, node: MemoryNode, task_id: str) -> None:
        self._by_task[task_id] = node
        self.write(node, status=WorkflowTaskStatus.ENQUEUED, task_id=task_id)

    def those(self, workflow_ids: Iterable[str]) -> list[Workflow]:
        return [self.workflows[each] for each in dict.fromkeys(workflow_ids) if each in self.workflows]

    def nodes(self, workflow_ids: Sequence[str], indexes: Sequence[int]) -> list[MemoryNode | None]:
        """Return the nodes in the order of the arguments; None where there is no such node."""
        asked = zip(workflow_ids, indexes, strict=True)
        return [found.nodes.get(index) if (found := self.workflows.get(each)) else None for each, index in asked]

    def nodes_of(self, workflow_ids: Iterable[str]) -> list[MemoryNode]:
        return [node for workflow in self.those(workflow_ids) for node in workflow.nodes.values()]

    def node_of(self, task_id: str) -> MemoryNode | None:
        """Return the node whose present task it is."""
        node = self._by_task.get(task_id)
        return node if node is not None and node.task_id == task_id else None

    def is_held(self, task_id: str) -> bool:
        """Return whether its workflow does not run: paused, or ended without it."""
        node = self._by_task.get(task_id)
        return node is not None and node.workflow.status is not WorkflowStatus.RUNNING

    def below(self, workflow_id: str) -> list[Workflow]:
        """Return this workflow and all that its nodes have started, on all levels."""
        found = self.those([workflow_id])
        for workflow in found:  # it grows
            found += [each for each in self.workflows.values() if each.parent_workflow_id == workflow.id]
        return found

    def node_row(self, node: MemoryNode) -> NodeRow:
        """Return the node with the states of its task and child, as the engine reads it for decisions."""
        task = self.tasks.get(node.task_id or "")
        child = self.workflows.get(node.sub_workflow_id or "")
        own = Record.of(
            node,
            "workflow_id task_index node_id task_name status dependencies workflow_ctx_from allow_failed_deps join_type"
            " min_success is_subworkflow task_id sub_workflow_id completed_at",
        )
        of_task = (None, None, None) if task is None else (task.status, task.started_at, task.ended_at)
        has_result = task is not None and task.stored is not None
        columns = [*own, *of_task, has_result, None if child is None else child.status]
        return NodeRow(*columns)

    async def fetch(self, query: str, *parameters: Any) -> Sequence[Record]:
        answer = ANSWERS.get(query)
        if answer is None:
            raise DatabaseUnavailable(
                "inside inline() there is no database",
                help_text="sends, workflows and their handles work here; for the rest use embedded_database() of"
                " horsies.testing, or the fixture horsies_db",
                transient=False,
            )
        return answer(self, *parameters) or ()

    async def fetchrow(self, query: str, *parameters: Any) -> Record | None:
        return next(iter(await self.fetch(query, *parameters)), None)

    async def fetchval(self, query: str, *parameters: Any) -> Any:
        row = await self.fetchrow(query, *parameters)
        return None if row is None else row[0]

    async def execute(self, query: str, *parameters: Any) -> None:
        await self.fetch(query, *parameters)

    @asynccontextmanager
    async def transaction(self, **_options: Any) -> AsyncIterator[None]:
        begin = len(self._changes)
        self._depth += 1
        try:
            yield
        except BaseException:
            while len(self._changes) > begin:
                self._changes.pop()()
            raise
        finally:
            self._depth -= 1
            if not self._depth:
                self._changes.clear()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Rows]:
        """Yield the connection for one use; user code must not run inside."""
        with self.lock:
            yield self


def array(text: str) -> tuple[str, ...]:
    """Return the items of an array in PostgreSQL's text form, as `create_workflow` writes it: each of them quoted."""
    return tuple(json.loads(f"[{text[1:-1]}]", strict=False))


def _set(row: Workflow | MemoryNode, columns: Mapping[str, Any]) -> None:
    for name, value in columns.items():
        setattr(row, name, value)


T = TypeVar("T")

ANSWERS: dict[str, Answer] = {}


def answers(module: str) -> Callable[[Answer], Answer]:
    """Let the function below answer the statement of its name in the SQL file of that module."""

    def add(answer: Answer) -> Answer:
        ANSWERS[statement(module, answer.__name__)] = answer
        return answer

    return add


def run_now(work: Awaitable[T]) -> T:
    """Return the result of a coroutine that waits for nothing, as those on Rows do; it needs no event loop."""
    try:
        next(work.__await__())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"{work!r} waits for something")
