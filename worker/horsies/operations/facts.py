"""The facts that decide what a verb may do with a target, and what its preview says; the targets' modules read them.

They are below the records of the verbs, whose functions take them, and below the statements that read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from horsies.config.schedule import stored_pattern
from horsies.domain.ids import enqueue_sha
from horsies.domain.quantities import by_whom, clock, counted, span
from horsies.domain.schedule_times import missed_slots, next_slot, zone_named
from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus, WorkflowTaskStatus
from horsies.findings.cluster import ALIVE_WITHIN_S
from horsies.operations.target import names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from horsies.config.schedule import SchedulePattern
    from horsies.findings.searches.crashed import Unacknowledged
    from horsies.lifecycle.reopening import Reopening
    from horsies.lifecycle.repairs import Repair
    from horsies.lifecycle.workflow_rows import FamilyWorkflowRow, NodeRow
    from horsies.views.tasks import ExpectedState

MAX_COUNTED: Final = 10_000
"""Maximum number of waiting tasks that are counted in a queue."""
_ARGUMENTS_FIXED: Final = frozenset(
    {WorkflowTaskStatus.COMPLETED, WorkflowTaskStatus.RUNNING, WorkflowTaskStatus.ENQUEUED}
)
_COLUMNS: Final = {"target": str, "queue": str, "priority": int, "max_retries": int}
_TEXTS: Final = ("args", "kwargs", "task_options")


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The tasks that a verb would change, with facts that are not in their rows."""

    tasks: Sequence[ExpectedState]
    now: datetime
    options: Mapping[str, Any]

    def count(self, *statuses: str) -> int:
        return sum(task.status in statuses for task in self.tasks)

    def overdue(self) -> Iterator[str]:
        if late := sum(task.good_until is not None and task.good_until <= self.now for task in self.tasks):
            yield f"{late} past the deadline: workers do not start them"


@dataclass(frozen=True, slots=True)
class WorkflowFacts:
    """A workflow as the operator saw it, with its family."""

    flow: FamilyWorkflowRow
    flows: Mapping[str, FamilyWorkflowRow] = field(default_factory=dict)
    nodes: Mapping[str, Sequence[NodeRow]] = field(default_factory=dict)
    index: int | None = None
    node: NodeRow | None = None
    """The target node of a verb for nodes; None if the workflow has no node with this index."""
    last_action: int | None = None
    """The newest audit row of an action on it; read only if the verb does not change the row."""
    repairs: tuple[Repair, ...] = ()
    reopening: Reopening | None = None
    definition_key: str | None = None
    """The definition key of a target node that is a map or a sub-workflow; read only by the verb `complete`."""
    problem: str | None = None
    """The reason why repairs cannot be listed, or why no node can be reopened."""

    def below(self) -> list[str]:
        """Return this workflow and all workflows below it."""
        ids = [self.flow.id]
        for flow in self.flows.values():  # parents come first
            if flow.parent_workflow_id in ids:
                ids.append(flow.id)
        return ids

    def nodes_below(self) -> list[NodeRow]:
        """Return all open nodes of this workflow and of the workflows below it."""
        return [
            node
            for one in self.below()
            if self.flows[one].status not in WORKFLOW_TERMINAL_STATES
            for node in self.nodes[one]
        ]

    def stopped(self) -> Iterator[str]:
        """Yield what happens to the running code of the node."""
        node = self.node
        if node is None or node.has_ended:
            return
        if node.sub_workflow_id is not None:
            yield f"{node.node_id}: its child workflow is cancelled, with everything below it"
        elif node.task_status == "RUNNING":
            taken = "its task is taken from the worker, which stops it"
            yield f"{node.node_id}: {taken}; side effects of its code remain"
        elif node.task_status is not None:
            yield f"{node.node_id}: its task is cancelled before it starts"

    def still_paused(self) -> Iterator[str]:
        if self.flow.status == WorkflowStatus.PAUSED:
            yield f"{self.flow.name} stays PAUSED: its nodes continue after a resume"

    def family(self, what: str) -> Iterator[str]:
        """Yield a sentence that its unfinished children change as well."""
        alive = [one for one in self.below()[1:] if self.flows[one].status not in WORKFLOW_TERMINAL_STATES]
        if alive:
            below = counted(len(alive), "child workflow below is", "child workflows below are")
            yield f"{self.flow.name}: {below} {what} as well"

    def kept(self, opened: Collection[tuple[str, int]]) -> Iterator[str]:
        """Return later nodes that keep their outcome, although they got a failure as their input."""
        kept = [
            node
            for workflow_id in sorted({workflow_id for workflow_id, _ in opened})
            for node in self.nodes[workflow_id]
            if node.status in _ARGUMENTS_FIXED and any((workflow_id, index) in opened for index in node.dependencies)
        ]
        if kept:
            yield (
                f"{self.flow.name}: these ran with the failure as their input, or without it, and do not run again:"
                f" {names(kept)}; only a rerun of the whole workflow computes them again"
            )


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state that decides whether a verb applies to a worker."""

    lives: bool
    drains: bool
    holds_tasks: bool
    is_unacknowledged: bool


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker's last sign of life, tasks and orders, in the column order of the statement."""

    worker_id: str
    snapshot_at: datetime | None
    claimed: int
    running: int
    last_sign: datetime | None
    silent_s: float | None
    draining_since: datetime | None
    ordered_by: str | None
    finalizing_ms: int
    now: datetime
    excused: bool
    """True if the database accepted no heartbeats during part of the worker's silence."""
    unacknowledged: Unacknowledged | None = None
    """The unacknowledged losses and crashes of the worker; read only for the verb that acknowledges them."""

    @property
    def lives(self) -> bool:
        return self.silent_s is not None and (self.silent_s <= ALIVE_WITHIN_S or self.excused)

    @property
    def words(self) -> str:
        if self.silent_s is None:
            return "unknown: it has no snapshot (any more) and no task"
        if not self.lives:
            return f"lost: no sign of life for {span(self.silent_s)}"
        if self.draining_since is not None:
            return f"draining since {clock(self.draining_since)}{by_whom(self.ordered_by)}"
        return f"alive: last sign of life {self.late}"

    @property
    def since(self) -> datetime | None:
        """The time of the order to drain."""
        return self.draining_since

    @property
    def late(self) -> str:
        """The age of its last sign of life, and the excuse for its silence if there is one."""
        silent_s = self.silent_s or 0
        if silent_s <= ALIVE_WITHIN_S or not self.excused:
            return f"{span(silent_s)} ago"
        return f"{span(silent_s)} ago, and the database accepted no heartbeats meanwhile: try again in a minute"

    @property
    def state(self) -> WorkerState:
        return WorkerState(
            lives=self.lives,
            drains=self.draining_since is not None,
            holds_tasks=bool(self.claimed or self.running),
            is_unacknowledged=self.unacknowledged is not None,
        )


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue and its pause, in the column order of the statement."""

    name: str
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None
    due: int
    later: int
    claimed: int
    running: int
    workers: int

    @property
    def words(self) -> str:
        if self.paused_at is None:
            return "open"
        why = f' "{self.reason}"' if self.reason else ""
        return f"paused since {clock(self.paused_at)}{by_whom(self.paused_by)}{why}"

    @property
    def since(self) -> datetime | None:
        return self.paused_at

    @property
    def waiting(self) -> str:
        """The number of its waiting tasks, as far as they were counted."""
        more = "at least " if self.due + self.later >= MAX_COUNTED else ""
        return f"{more}{counted(self.due + self.later, 'task waits', 'tasks wait')}"


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule's stored definition: the pattern, and the columns of what it sends."""

    stored: Mapping[str, Any]

    @property
    def target(self) -> str:
        return str(self.stored.get("target"))

    @property
    def queue(self) -> str:
        return str(self.stored.get("queue"))

    @property
    def zone(self) -> str:
        return str(self.stored.get("timezone"))

    @property
    def pattern(self) -> SchedulePattern | None:
        """The pattern; None for a pattern of a later release, or a zone that this machine does not know."""
        try:
            zone_named(self.zone)
            return stored_pattern(self.stored.get("pattern"))
        except ValueError:
            return None

    @property
    def is_workflow(self) -> bool:
        return self.stored.get("kind") == "workflow"

    @property
    def problem(self) -> str | None:
        """The reason why its definition cannot be sent."""
        if self.is_workflow:
            return None  # a scheduler builds it
        wrong = [name for name, kind in _COLUMNS.items() if type(self.stored.get(name)) is not kind]
        wrong += [name for name in _TEXTS if not isinstance(self.stored.get(name), str | None)]
        return f"its definition has no usable {', '.join(wrong)}: start its scheduler again" if wrong else None

    def fingerprint(self, sent_at: datetime) -> str:
        stored = self.stored
        return enqueue_sha(
            task_name=self.target,
            queue_name=self.queue,
            priority=stored["priority"],
            args_json=stored.get("args"),
            kwargs_json=stored.get("kwargs"),
            sent_at=sent_at,
            task_options=stored.get("task_options"),
        )


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """A schedule, its plan and its orders. `registered_at` is when its definition was stored."""

    name: str
    definition: StoredSchedule
    registered_at: datetime
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None
    skip_slot: datetime | None
    next_run_at: datetime | None
    now: datetime
    has_scheduler: bool
    """True if a running scheduler has it."""
    is_served: bool = True
    """True if a live worker serves the queue of its task; read only for previews."""

    @property
    def words(self) -> str:
        if self.paused_at is not None:
            why = f' "{self.reason}"' if self.reason else ""
            return f"paused since {clock(self.paused_at)}{by_whom(self.paused_by)}{why}"
        if self.next_run_at is None:
            return "not planned yet"
        skips = ", which is skipped" if self.skip_slot == self.next_run_at else ""
        return f"planned for {clock(self.next_run_at)}{skips}"

    @property
    def since(self) -> datetime | None:
        return self.paused_at

    @property
    def following(self) -> datetime | None:
        """Return the first run after now; None without a plan, or with a plan that this release cannot read."""
        if self.next_run_at is None or self.next_run_at > self.now:
            return self.next_run_at
        return self._after(self.next_run_at, self.now)

    @property
    def after_next(self) -> datetime | None:
        """Return the run after the next one; it may be in the past if the schedule catches up on missed runs."""
        slot = self.next_run_at
        if slot is None:
            return None
        return self._after(slot, slot if self.definition.stored.get("catch_up_missed") else max(slot, self.now))

    def passed(self, limit: int) -> list[datetime]:
        """Return the slots that are due and were not sent, up to a maximum."""
        pattern, slot = self.definition.pattern, self.next_run_at
        if pattern is None or slot is None or slot > self.now:
            return []
        return missed_slots(pattern, slot, self.now, self.definition.zone, limit)

    def _after(self, slot: datetime, now: datetime) -> datetime | None:
        pattern = self.definition.pattern
        return None if pattern is None else next_slot(pattern, slot, now, self.definition.zone)
