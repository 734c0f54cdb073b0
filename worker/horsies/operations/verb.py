"""The record of a manual verb, its preview and its outcome. A verb's command, key, sheet, help and line in docs/ are
made from its record.

`horsies tasks --help` and the console's start wait for this module and for those in `verbs`: they import no database
driver at their top.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from horsies.domain.states import TASK_TERMINAL_STATES, TASK_TRANSITIONS, Mover, TaskStatus
from horsies.operations.target import AuditedAction, OperationError, RowOutcome, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from horsies.domain.codes import OutcomeCode
    from horsies.domain.states import TargetKind
    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import QueueFacts, ScheduleFacts, TaskFacts, WorkerFacts, WorkerState, WorkflowFacts
    from horsies.operations.target import ArgumentChange, Undone
    from horsies.views.tasks import ExpectedState

Options: TypeAlias = "Mapping[str, Any]"
SqlName: TypeAlias = tuple[str, str]
"""A statement by its module and its name."""

TYPES = "types"
"""Key in the options of a verb with `typed`: the application's types."""
VALUE = "value"
"""Key in the options of a preview: the value that its verb gives each task."""
RUN_WAS_TAKEN = "its run was taken from its worker, and that attempt has ended"
TERMINAL = frozenset(status.value for status in TASK_TERMINAL_STATES)
_STATUSES = frozenset(status.value for status in TaskStatus)


@dataclass(frozen=True, slots=True)
class Option:
    """An option that only this verb has. `name` is its key in `Preview.options`; without a metavar it is a switch."""

    name: str
    help: str
    metavar: str | None = None
    default: str | None = None
    flags: tuple[str, ...] = ()
    """The option's name in the command, if it differs."""

    @property
    def spelled(self) -> tuple[str, ...]:
        return self.flags or (f"--{self.name.replace('_', '-')}",)


@dataclass(frozen=True, slots=True)
class NewValue:
    """The value that a verb gives every task. A command has options for it; the console asks for it in one line."""

    title: str
    example: str
    read: Callable[[str], Options]
    """Returns the options for the typed line, not checked yet."""
    of: Callable[[Options, datetime], Any]
    """Returns the value for these options at the time of the preview; OperationError if the value is not valid."""
    became: Callable[[Any], str]
    """The result for a task."""
    present: str
    """The column of `op_present` (`operations/selection.sql`): the current value, which the console's line shows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Verb:
    """The fields of all verbs. `kind` is that of its targets; with the name it identifies the verb."""

    kind: TargetKind
    name: str
    done: str
    """The result in words, after the number of targets: `requeued`."""
    will: str = ""
    """The same before it is done; by default `will be` and `done`."""
    title: str = ""
    """The heading of the sheet; by default the name."""
    help: str
    """The help of the command; its first line is used in the list of commands and in docs/."""
    example: str
    key: str = ""
    hint: str = ""
    """The help of the key, one short sentence."""
    label: str = ""
    """The key's label in the footer, if it differs from the name."""
    footer: bool = False
    on_recovery: bool = False
    """True if the recovery screen has this key; a task verb with it has the key only there."""
    options: tuple[Option, ...] = ()
    typed: bool = False
    """True if it takes values of the application's types. Options of a preview may then contain `types`, a
    TypedValues of horsies.operations.edited."""
    check: Callable[[Options], Options] | None = None
    """Returns the checked options; OperationError for invalid ones."""
    inverse: str | None = None
    """The verb that undo applies; tasks are restored from the audit instead."""
    no_way_back: Callable[[AuditedAction], str | None] = lambda action: f"{action.verb} cannot be undone"
    """Returns why undo cannot restore this target, by the audit row alone; None if undo can be tried."""
    batch: int = 500
    """Maximum number of targets that are changed in one transaction."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "will", self.will or f"will be {self.done}")
        object.__setattr__(self, "title", self.title or self.name.replace("-", " ").capitalize())

    def __str__(self) -> str:
        return self.name

    def why_not_undone(self, action: AuditedAction) -> str | None:
        return self.no_way_back(action) if self.inverse is None else None

    @property
    def has_way_back(self) -> bool:
        """True if undo can be tried, at least for tasks that were waiting."""
        return self.why_not_undone(AuditedAction(0, self.name, self.kind, "", "PENDING")) is None

    def checked(self, given: Options) -> Options:
        """Return the given, non-empty options; OperationError for options of another verb."""
        options = {name: value for name, value in given.items() if value is not None and value is not False}
        for name in options.keys() - {option.name for option in self.options} - ({TYPES} if self.typed else set()):
            raise OperationError(f"{self.name} has no option {name.replace('_', '-')!r}", help_text="leave it out")
        return options if self.check is None else self.check(options)

    def command(self, targets: Iterable[str], options: Options) -> str:
        """Return the shell command that does the same."""
        words = ["horsies", COMMAND_GROUPS[self.kind], self.name, *targets]
        for option in self.options:
            value = options.get(option.name)
            words += [option.spelled[0]] if value is True else []
            words += [option.spelled[0], value] if isinstance(value, str) else []
        return shlex.join(words)


COMMAND_GROUPS: Mapping[TargetKind, str] = {
    "task": "tasks",
    "workflow": "workflows",
    "node": "workflows",
    "worker": "workers",
    "queue": "queues",
    "schedule": "schedules",
    "session": "sessions",
    "operation": "audit",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of a task that a verb ends. `words` are stored as the reason instead of the operator and reason."""

    status: TaskStatus
    code: OutcomeCode | str
    words: str | None = None


def sources(verb: str) -> frozenset[str]:
    """Return the states from which an operator may apply it, by the table of transitions."""
    arrows = (arrow for arrow in TASK_TRANSITIONS if arrow.verb == verb and Mover.OPERATOR in arrow.who)
    return frozenset(arrow.source.value for arrow in arrows if arrow.source is not None)


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskVerb(Verb):
    """A verb for tasks. `operations/task_targets.sql` has the statement; the verb's own parts of it are fragments.

    `refuses` is an expression over a row of `compared`, which has the columns of the fragment `task_columns`: NULL, or
    why the task is not changed. The preview evaluates it, and the statement that changes the row does so again. `sets`
    is the list of an UPDATE; a verb that writes other rows has a `statement` of its own. `values` returns their
    parameters, from $17 on, of a statement from $15 on. With `gives` there is one parameter: $17, for the refusal, too.
    """

    kind: TargetKind = "task"
    sources: frozenset[str]
    """The states that it changes."""
    wrong_state: Callable[[str], str]
    """Returns why a task in another state is refused."""
    refuses: SqlName | None = None
    sets: SqlName | None = None
    statement: SqlName | None = None
    requires: Callable[[asyncpg.Connection, Sequence[ExpectedState], Options], Awaitable[Options]] | None = None
    """Returns the options for these targets; OperationError if they do not apply."""
    values: Callable[[asyncpg.Connection, Sequence[ExpectedState], Options], Awaitable[tuple[Any, ...]]] | None = None
    gives: NewValue | None = None
    ends: Ending | None = None
    """The end that the verb gives a task, instead of `sets`. A FAILED task is changed only if it was interrupted."""
    attempt_code: str | None = None
    """The error code of the attempt, if it takes a RUNNING task from its worker."""
    became: str | None = None
    """The result for a task, if its status and attempt are not enough."""
    takes: str = "what user code has done is not undone"
    """The preview's words for RUNNING tasks."""
    in_workflows: str | None = None
    """The preview's words for tasks of workflows."""
    effects: Callable[[TaskFacts], Iterable[str]] = lambda _: ()
    """Returns further sentences of the preview."""
    reopens_nodes: bool = False
    """True if nodes that ended with their tasks wait for them again."""
    guards_against_others: bool = False
    """True if it refuses a task that another operator has acted on since, although its row is the same."""
    single: frozenset[str] = frozenset()
    """Options that apply only to a single task."""
    changes: Callable[[asyncpg.Connection, ExpectedState, Options], Awaitable[tuple[ArgumentChange, ...]]] | None = None
    """Returns the changes of these options to the task's arguments."""
    no_way_back: Callable[[AuditedAction], str | None] = lambda action: (
        RUN_WAS_TAKEN if action.status == "RUNNING" else None
    )

    def fits(self, status: str, error_code: str | None) -> bool:
        """Return whether it may change a task in this state, by the state alone; a preview checks more."""
        return self.refusal_by_state(status, error_code) is None

    def refusal_by_state(self, status: str, error_code: str | None) -> str | None:
        if status not in _STATUSES:
            return f"horsies does not know its status {status!r}"
        # FAILED may fail again only if it was interrupted: then it needs an operator's decision.
        interrupted = error_code == "TASK_INTERRUPTED" or self.ends is None or status != "FAILED"
        return None if status in self.sources and interrupted else self.wrong_state(status)


@dataclass(frozen=True, slots=True)
class AppliedVerb:
    """The result of a verb for one workflow. `audited` is added to the state after it in the audit row."""

    detail: str
    audited: Mapping[str, Any] = field(default_factory=dict)
    new_id: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkflowVerb(Verb):
    """A verb for workflows, or with kind="node" for one node. It is applied under the lock of the family."""

    kind: TargetKind = "workflow"
    batch: int = 1
    """The locks of a family are held for one workflow only."""
    sources: frozenset[str]
    """The states of the workflow in which the console offers it."""
    refusal: Callable[[WorkflowFacts], str | None]
    effects: Callable[[WorkflowFacts], Iterable[str]]
    change: Callable[[asyncpg.Connection, OperatorAction, WorkflowFacts], Awaitable[AppliedVerb]] | None = None
    """Changes one workflow or node; by default the function of `lifecycle.controlling` with the verb's name does."""
    reads: Callable[[asyncpg.Connection, WorkflowFacts], Awaitable[WorkflowFacts]] | None = None
    """Adds facts that only this verb needs."""
    requires: Callable[[Sequence[WorkflowFacts], Options], Options] | None = None
    """Returns the options for these targets; OperationError if they do not apply."""
    warns: Callable[[Options], tuple[str, ...]] | None = None
    """Returns further sentences of the preview about the options."""

    def fits(self, status: str) -> bool:
        return status in self.sources


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerVerb(Verb):
    """A verb for workers; in place of `change` it may have a statement that is run for all of them."""

    kind: TargetKind = "worker"
    fits: Callable[[WorkerState], bool]
    wrong_state: Callable[[WorkerFacts], str]
    effects: Callable[[asyncpg.Connection, Sequence[WorkerFacts]], Awaitable[list[str]]]
    reads_losses: bool = False
    order: SqlName | None = None
    guarded: bool = False
    """True if the statement revokes the order that was seen, but no newer one."""
    taken_back: SqlName | None = None
    """The statement by which undo takes back audit rows of workers and of their tasks, if these rows are all that the
    verb writes."""
    change: Callable[[asyncpg.Connection, OperatorAction, Target], Awaitable[RowOutcome]] | None = None
    """Changes one worker."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueueVerb(Verb):
    """A verb for queues. `order` is the statement for all of them."""

    kind: TargetKind = "queue"
    for_paused: bool
    """True if it applies to paused queues, False for all other queues."""
    effect: Callable[[QueueFacts], str]
    order: SqlName


@dataclass(frozen=True, kw_only=True, eq=False)
class ScheduleVerb(Verb):
    """A verb for schedules. `order` is the statement for all of them; `change` does it in the caller's transaction."""

    kind: TargetKind = "schedule"
    refusal: Callable[[ScheduleFacts], str | None]
    effect: Callable[[ScheduleFacts], str]
    order: SqlName | None = None
    orders_slot: bool = False
    """True if the statement has a column for the next slot that the operator saw."""
    change: Callable[[asyncpg.Connection, OperatorAction, Sequence[Target]], Awaitable[list[RowOutcome]]] | None = None
    for_paused: bool | None = None
    """True if it applies only to paused schedules, False if only to other schedules; None for both."""
    taken_back: SqlName | None = None
    """The statement that undo runs, if no other verb is its inverse."""

    def fits(self, is_paused: bool) -> bool:
        """Return whether the console offers it; a preview checks further conditions."""
        return self.for_paused is None or self.for_paused is is_paused


@dataclass(frozen=True, kw_only=True, eq=False)
class SessionVerb(Verb):
    """A verb for sessions of the server, which cannot be undone."""

    kind: TargetKind = "session"
    batch: int = 100
    only_active: bool
    """True if it ends only the session's statement, not the session."""
    effect: str


@dataclass(frozen=True, slots=True)
class Refusal:
    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The rows as they were at `taken_at`: applying it leaves later rows alone, and refuses rows that have changed."""

    verb: Verb
    options: Mapping[str, Any]
    eligible: tuple[Target, ...]
    refused: tuple[Refusal, ...]
    consequences: tuple[str, ...]
    command: str
    """The equivalent shell command."""
    taken_at: datetime
    filter: str | None = None
    undone: Undone | None = None
    held: int = 0
    """Number of waiting tasks that workers do not start while an operator decides about an undo."""
    changes: tuple[ArgumentChange, ...] = ()
    """The edited arguments."""


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """The results for a preview's eligible rows; those that it refused are not included.

    `stopped` is the reason for rows in `not_attempted`. `in_doubt` rows were sent when the connection broke: the audit
    rows of `operation_id` show whether they were changed.
    """

    operation_id: UUID
    verb: Verb
    rows: tuple[RowOutcome, ...]
    not_attempted: tuple[Target, ...] = ()
    in_doubt: tuple[Target, ...] = field(default=())
    stopped: str | None = None

    @property
    def can_be_undone(self) -> bool:
        """True if any row can be undone. A run that was taken from its worker cannot: its attempt has ended."""
        changes = (
            AuditedAction(0, self.verb.name, target.kind, target.id, target.state.partition(" ")[0])
            for target in (row.target for row in self.applied)
        )
        return any(self.verb.why_not_undone(change) is None for change in changes)

    @property
    def applied(self) -> tuple[RowOutcome, ...]:
        return tuple(row for row in self.rows if row.applied)

    @property
    def refused(self) -> tuple[RowOutcome, ...]:
        return tuple(row for row in self.rows if not row.applied)
