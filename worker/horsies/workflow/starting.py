"""The way of a WorkflowSpec to a running workflow: the checks, the stored plan, and the retry of a failed start."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from operator import methodcaller
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
    from contextlib import AbstractContextManager
    from datetime import datetime

    import asyncpg

    from horsies.broker import PostgresBroker
    from horsies.config.app import AppConfig
    from horsies.domain.plan import WorkflowPlan
    from horsies.domain.trace import Sending, Tracing
    from horsies.handle import BrokerResult
    from horsies.lifecycle.create_workflow import CreatedWorkflow
    from horsies.store.loop_thread import CallSteps

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
    if error.code is not WorkflowStartErrorCode.ENQUEUE_FAILED:
        why = f"a start that failed with {error.code} cannot be repeated: the same would happen again"
    elif error.workflow_name != spec.name:
        why = f"the error is of the workflow {error.workflow_name!r}, not of {spec.name!r}"
    else:
        return (yield from starting_own(spec, error.workflow_id))
    return answer(_refusal(spec.name, error.workflow_id, why), None)


def _starting(
    spec: Startable[T],
    broker: PostgresBroker | None,
    workflow_id: str | None,
    sent_at: datetime | None = None,
    *,
    connection: object,
    resend: bool = False,
) -> CallSteps[WorkflowStartResult[WorkflowHandle[T]]]:
    app = None if broker is None else broker.app
    config: AppConfig | None = None if app is None else app.config
    fail = partial(_refusal, spec.name, workflow_id := new_task_id() if workflow_id is None else workflow_id)
    started: WorkflowStartResult[WorkflowHandle[Any]]
    if broker is None:
        how = "make it with app.workflow(...), or pass one: start_workflow(spec, broker)"
        started = fail(f"the workflow has no broker; {how}", WorkflowStartErrorCode.BROKER_NOT_CONFIGURED)
    else:
        try:
            plan = _checked_plan(spec, broker, workflow_id, sent_at)
        except HorsiesError as error:
            started = fail(error.message + (f"; {error.help_text}" if error.help_text else ""), exception=error)
        except ValueError as error:  # CodecError: a value that cannot be stored
            started = fail(str(error), exception=error)
        else:
            with _span(app, plan, workflow_id) as span:
                plan = plan.traced(span.trace) if span.trace else plan
                resends = resend or spec.resend_on_transient_err
                operation = _creation(plan, workflow_id, sent_at, resends=resends, connection=connection)
                created = yield broker.perform, broker.perform_async, (operation,)
                problem = _why_not_created(created, plan.name, workflow_id)
                started = span.sent(problem or Ok(WorkflowHandle(workflow_id, broker, spec.output)))
    if isinstance(started, Err):
        yield from aborting(connection, config, started)
    return started if app is not None and app.are_sends_suppressed() else answer(started, config)


def _span(app: Any, plan: WorkflowPlan, workflow_id: str) -> AbstractContextManager[Sending]:
    tracing: Tracing | None = None if app is None else app.tracing
    if tracing is None:
        return nullcontext(UNTRACED)
    return tracing.sending(plan.name, {"horsies.workflow.name": plan.name, "horsies.workflow.id": workflow_id})


def _creation(
    plan: WorkflowPlan, workflow_id: str, sent_at: datetime | None, *, resends: bool, connection: object
) -> Operation[CreatedWorkflow]:
    """Return the operation that stores the workflow, in the caller's transaction or in one of its own."""

    async def create(connected: Any) -> CreatedWorkflow:
        created = await create_workflow(connected, plan, workflow_id=workflow_id, sent_at=sent_at)
        if created.existing and created.other_name is None:
            return replace(created, difference=await difference(connected, plan, workflow_id))
        return created

    async def create_alone(connected: asyncpg.Connection) -> CreatedWorkflow:
        async with connected.transaction(isolation="read_committed"):  # else a start of the same id could fail
            return await create(connected)

    limit_s = _MAX_START_S + len(plan.nodes) / _SLOWEST_NODES_PER_S
    act = methodcaller("use", create_alone, limit_s=limit_s)
    return Operation(BrokerErrorCode.ENQUEUE_FAILED, act, resends, connection, create)


def _why_not_created(
    stored: BrokerResult[CreatedWorkflow], name: str, workflow_id: str
) -> Err[WorkflowStartError] | None:
    fail = partial(_refusal, name, workflow_id)
    if isinstance(stored, Err):
        error, code = stored.err_value, WorkflowStartErrorCode.ENQUEUE_FAILED
        return fail(error.message, code, retryable=error.retryable, exception=error.exception)
    if (other := stored.ok_value.other_name) is not None:
        return fail(f"the id {workflow_id} belongs to the workflow {other!r}; start under another id")
    if (other := stored.ok_value.difference) is not None:
        return fail(f"the id {workflow_id} belongs to a {name!r} with {other}; start this one under another id")
    return None


def _checked_plan(
    spec: Startable[Any], broker: PostgresBroker, workflow_id: object, sent_at: datetime | None
) -> WorkflowPlan:
    if not isinstance(workflow_id, str) or not 0 < len(workflow_id) <= _MAX_ID:
        raise ValueError(
            f"workflow_id={workflow_id!r} is not a text of 1 to {_MAX_ID} characters, as a UUID is; "
            "make one of a longer key with uuid.uuid5"
        )
    if (reason := why_not_a_name("workflow_id", workflow_id)) is not None:
        raise ValueError(f"{reason}; make one of any text with uuid.uuid5")
    if sent_at is not None and sent_at.tzinfo is None:
        raise ValueError(f"sent_at={sent_at} has no time zone; pass an aware datetime, as datetime.now(UTC)")
    if broker.app is not None and broker.app.are_sends_suppressed():
        raise ValueError("sends are suppressed, for example while modules are imported")
    plan = spec.to_plan()
    if broker.app is None and any(node.sub_definition_key not in (None, MAP_DEFINITION) for node in plan.nodes):
        raise WorkflowValidationError(
            f"workflow {plan.name!r} has sub-workflows, and its broker belongs to no application",
            code=ErrorCode.WORKFLOW_SUBWORKFLOW_APP_MISSING,
            help_text="start it with the broker of the application that defines them: app.get_broker()",
        )
    return plan


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
