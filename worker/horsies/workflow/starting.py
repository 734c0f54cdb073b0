"""The way of a WorkflowSpec to a running workflow: the checks, the stored plan, and the retry of a failed start."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from horsies.broker import Operation
from horsies.domain.errors import ErrorCode, HorsiesError, WorkflowValidationError
from horsies.domain.ids import new_task_id
from horsies.domain.plain_text import why_not_a_name
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.result import Err, Ok, Result
from horsies.domain.trace import UNTRACED
from horsies.failed_sends import aborting, answer
from horsies.handle import BrokerErrorCode
from horsies.lifecycle.create_workflow import create_workflow, difference
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.workflow.handle import WorkflowHandle

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from contextlib import AbstractContextManager
    from datetime import datetime

    import asyncpg

    from horsies.broker import PostgresBroker
    from horsies.config.app import AppConfig
    from horsies.domain.plan import WorkflowPlan
    from horsies.domain.trace import Sending, Trace, Tracing
    from horsies.handle import BrokerResult
    from horsies.lifecycle.create_workflow import CreatedWorkflow
    from horsies.store.loop_thread import CallSteps
    from horsies.store.producer_client import Link

T = TypeVar("T")

_MAX_ID = 36
_MAX_START_S = 30.0
_SLOWEST_NODES_PER_S = 1_000


class WorkflowStartErrorCode(StrEnum):
    BROKER_NOT_CONFIGURED = "BROKER_NOT_CONFIGURED"
    VALIDATION_FAILED = "VALIDATION_FAILED"
    ENQUEUE_FAILED = "ENQUEUE_FAILED"
    INTERNAL_FAILED = "INTERNAL_FAILED"


@dataclass(frozen=True, slots=True)
class WorkflowStartError:
    """The reason why a workflow was not started. After ENQUEUE_FAILED `spec.retry_start(error)` uses the same id."""

    code: WorkflowStartErrorCode
    message: str
    retryable: bool
    workflow_name: str
    workflow_id: str
    exception: BaseException | None = None


WorkflowStartResult: TypeAlias = Result[T, WorkflowStartError]


class Startable(Protocol[T]):
    """The part of a WorkflowSpec that its start uses; the class itself is in a higher module."""

    name: str
    broker: PostgresBroker | None
    resend_on_transient_err: bool

    @property
    def output(self) -> object: ...

    def to_plan(self) -> WorkflowPlan: ...

    # Not called here: it tells type checkers what T is.
    def start(
        self, workflow_id: str | None = None, *, connection: object = None
    ) -> WorkflowStartResult[WorkflowHandle[T]]: ...


@dataclass(frozen=True, slots=True)
class _Start:
    """A start that has passed every check."""

    broker: PostgresBroker
    plan: WorkflowPlan
    workflow_id: str
    sent_at: datetime | None
    resend: bool
    output: object
    connection: object
    """The caller's, in whose transaction it is stored; None: in one of its own."""

    def span(self) -> AbstractContextManager[Sending]:
        app, name = self.broker.app, self.plan.name
        tracing: Tracing | None = None if app is None else app.tracing
        if tracing is None:
            return nullcontext(UNTRACED)
        return tracing.sending(name, {"horsies.workflow.name": name, "horsies.workflow.id": self.workflow_id})

    def traced(self, trace: Trace) -> _Start:
        return replace(self, plan=self.plan.traced(trace)) if trace else self

    def operation(self) -> Operation[CreatedWorkflow]:
        return Operation(BrokerErrorCode.ENQUEUE_FAILED, self._act, self.resend, self.connection, self._create)

    def handle(self, stored: BrokerResult[CreatedWorkflow]) -> WorkflowStartResult[WorkflowHandle[Any]]:
        fail = partial(_refusal, self.plan.name, self.workflow_id)
        if isinstance(stored, Err):
            error = stored.err_value
            return fail(
                error.message,
                WorkflowStartErrorCode.ENQUEUE_FAILED,
                retryable=error.retryable,
                exception=error.exception,
            )
        if (other := stored.ok_value.other_name) is not None:
            return fail(f"the id {self.workflow_id} belongs to the workflow {other!r}; start under another id")
        if (other := stored.ok_value.difference) is not None:
            words = f"the id {self.workflow_id} belongs to a {self.plan.name!r} with {other}"
            return fail(f"{words}; start this one under another id")
        return Ok(WorkflowHandle(self.workflow_id, self.broker, self.output))

    def _act(self, link: Link) -> Awaitable[CreatedWorkflow]:
        return link.use(self._insert, limit_s=_MAX_START_S + len(self.plan.nodes) / _SLOWEST_NODES_PER_S)

    async def _insert(self, connection: asyncpg.Connection) -> CreatedWorkflow:
        async with connection.transaction(isolation="read_committed"):  # else a start of the same id could fail
            return await self._create(connection)

    async def _create(self, connection: Any) -> CreatedWorkflow:
        created = await create_workflow(connection, self.plan, workflow_id=self.workflow_id, sent_at=self.sent_at)
        if created.existing and created.other_name is None:
            return replace(created, difference=await difference(connection, self.plan, self.workflow_id))
        return created


def start_workflow(
    spec: Startable[T],
    broker: PostgresBroker | None,
    workflow_id: str | None = None,
    sent_at: datetime | None = None,
    *,
    resend_on_transient_err: bool = False,
    connection: object = None,
) -> WorkflowStartResult[WorkflowHandle[T]]:
    """Store the workflow with its first tasks; nothing is raised. With an id of your own, a second start has no effect.

    An existing workflow with the id and the same definition and arguments is returned as it is. With a `connection`
    it is stored in the caller's transaction (see horsies.store.callers).
    """
    resend = resend_on_transient_err
    return drive_blocking(_starting(spec, broker, workflow_id, sent_at, connection=connection, resend=resend))


async def start_workflow_async(
    spec: Startable[T],
    broker: PostgresBroker | None,
    workflow_id: str | None = None,
    sent_at: datetime | None = None,
    *,
    resend_on_transient_err: bool = False,
    connection: object = None,
) -> WorkflowStartResult[WorkflowHandle[T]]:
    """`start_workflow` for a running event loop."""
    resend = resend_on_transient_err
    return await drive_awaited(_starting(spec, broker, workflow_id, sent_at, connection=connection, resend=resend))


def starting_own(
    spec: Startable[T], workflow_id: str | None, connection: object = None
) -> CallSteps[WorkflowStartResult[WorkflowHandle[T]]]:
    """`start_workflow` with the spec's own broker."""
    try:
        broker = spec.broker
    except HorsiesError as error:
        code = WorkflowStartErrorCode.BROKER_NOT_CONFIGURED
        failed = _refusal(spec.name, workflow_id or new_task_id(), error.message, code, exception=error)
        yield from aborting(connection, None, failed)
        return answer(failed, None)
    return (yield from _starting(spec, broker, workflow_id, connection=connection))


def starting_again(spec: Startable[T], error: WorkflowStartError) -> CallSteps[WorkflowStartResult[WorkflowHandle[T]]]:
    """Start under the id of a start that failed, so that it cannot be started twice."""
    refusal = _why_not_again(spec, error)
    return answer(refusal, None) if refusal is not None else (yield from starting_own(spec, error.workflow_id))


def _starting(
    spec: Startable[T],
    broker: PostgresBroker | None,
    workflow_id: str | None,
    sent_at: datetime | None = None,
    *,
    connection: object,
    resend: bool = False,
) -> CallSteps[WorkflowStartResult[WorkflowHandle[T]]]:
    prepared = _prepare(spec, broker, workflow_id, sent_at, connection, resend=resend)
    if isinstance(prepared, Err):
        started: WorkflowStartResult[WorkflowHandle[Any]] = prepared
    else:
        start = prepared.ok_value
        with start.span() as span:
            operation = start.traced(span.trace).operation()
            created = yield start.broker.perform, start.broker.perform_async, (operation,)
            started = span.sent(start.handle(created))
    if isinstance(started, Err):
        yield from aborting(connection, _config_of(broker), started)
    return started if _is_suppressed(broker) else answer(started, _config_of(broker))


def _is_suppressed(broker: PostgresBroker | None) -> bool:
    return broker is not None and broker.app is not None and broker.app.are_sends_suppressed()


def _config_of(broker: PostgresBroker | None) -> AppConfig | None:
    return None if broker is None or broker.app is None else broker.app.config


def _prepare(
    spec: Startable[Any],
    broker: PostgresBroker | None,
    workflow_id: str | None,
    sent_at: datetime | None,
    connection: object,
    *,
    resend: bool,
) -> WorkflowStartResult[_Start]:
    if workflow_id is None:
        workflow_id = new_task_id()
    fail = partial(_refusal, spec.name, workflow_id)
    if broker is None:
        return fail(
            "the workflow has no broker; make it with app.workflow(...), or pass one: start_workflow(spec, broker)",
            WorkflowStartErrorCode.BROKER_NOT_CONFIGURED,
        )
    try:
        _check(workflow_id, sent_at)
        if _is_suppressed(broker):
            raise ValueError("sends are suppressed, for example while modules are imported")
        plan = spec.to_plan()
        _check_app(plan, broker)
    except HorsiesError as error:
        return fail(error.message + (f"; {error.help_text}" if error.help_text else ""), exception=error)
    except ValueError as error:  # CodecError: a value that cannot be stored
        return fail(str(error), exception=error)
    resend = resend or spec.resend_on_transient_err
    return Ok(_Start(broker, plan, workflow_id, sent_at, resend, spec.output, connection))


def _check(workflow_id: object, sent_at: datetime | None) -> None:
    if not isinstance(workflow_id, str) or not 0 < len(workflow_id) <= _MAX_ID:
        raise ValueError(
            f"workflow_id={workflow_id!r} is not a text of 1 to {_MAX_ID} characters, as a UUID is; "
            "make one of a longer key with uuid.uuid5"
        )
    if (reason := why_not_a_name("workflow_id", workflow_id)) is not None:
        raise ValueError(f"{reason}; make one of any text with uuid.uuid5")
    if sent_at is not None and sent_at.tzinfo is None:
        raise ValueError(f"sent_at={sent_at} has no time zone; pass an aware datetime, as datetime.now(UTC)")


def _check_app(plan: WorkflowPlan, broker: PostgresBroker) -> None:
    if broker.app is None and any(node.sub_definition_key not in (None, MAP_DEFINITION) for node in plan.nodes):
        raise WorkflowValidationError(
            f"workflow {plan.name!r} has sub-workflows, and its broker belongs to no application",
            code=ErrorCode.WORKFLOW_SUBWORKFLOW_APP_MISSING,
            help_text="start it with the broker of the application that defines them: app.get_broker()",
        )


def _why_not_again(spec: Startable[Any], error: WorkflowStartError) -> Err[WorkflowStartError] | None:
    fail = partial(_refusal, spec.name, error.workflow_id)
    if error.code is not WorkflowStartErrorCode.ENQUEUE_FAILED:
        return fail(f"a start that failed with {error.code} cannot be repeated: the same would happen again")
    if error.workflow_name != spec.name:
        return fail(f"the error is of the workflow {error.workflow_name!r}, not of {spec.name!r}")
    return None


def _refusal(
    workflow_name: str,
    workflow_id: str,
    message: str,
    code: WorkflowStartErrorCode = WorkflowStartErrorCode.VALIDATION_FAILED,
    *,
    retryable: bool = False,
    exception: BaseException | None = None,
) -> Err[WorkflowStartError]:
    text = f"workflow {workflow_name!r} was not started: {message}"
    return Err(WorkflowStartError(code, text, retryable, workflow_name, workflow_id, exception))
