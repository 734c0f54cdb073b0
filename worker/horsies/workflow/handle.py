"""The handle of a started workflow, for any thread and any event loop: wait, read, pause, resume, cancel."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from horsies.broker import Operation, PostgresBroker, value_or_raise
from horsies.config.recovery import RecoveryConfig
from horsies.domain.codec import load_task_result
from horsies.domain.codes import ContractCode, OperationalErrorCode, OutcomeCode, RetrievalCode
from horsies.domain.errors import WorkflowContextMissingIdError
from horsies.domain.masking import mask
from horsies.domain.result import Err, Ok, Result
from horsies.domain.states import WorkflowStatus, WorkflowTaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.handle import BrokerErrorCode
from horsies.lifecycle import controlling
from horsies.lifecycle.reconciling import Reconciled, reconcile_all
from horsies.lifecycle.reopening import CannotReopenError
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.store.reading import read_node, read_nodes, read_workflow_outcomes
from horsies.store.statements import statement
from horsies.waits_in_tasks import waited_for
from horsies.workflow.nodes import id_of, restored, result_classes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import asyncpg

    from horsies.domain.codes import BuiltInTaskCode
    from horsies.handle import BrokerOperationError, BrokerResult
    from horsies.store.loop_thread import CallSteps
    from horsies.store.reading import NodeOutcome, WorkflowOutcome, WorkflowTaskInfo
    from horsies.workflow.nodes import Node, NodeKey


T = TypeVar("T")
U = TypeVar("U")


class HandleErrorCode(StrEnum):
    WORKFLOW_NOT_FOUND = "WORKFLOW_NOT_FOUND"
    DB_OPERATION_FAILED = "DB_OPERATION_FAILED"
    LOOP_RUNNER_FAILED = "LOOP_RUNNER_FAILED"
    INTERNAL_FAILED = "INTERNAL_FAILED"


@dataclass(frozen=True, slots=True)
class HandleOperationError:
    """The reason why a handle's operation failed. `retryable`: the same call may succeed later without any change."""

    code: HandleErrorCode
    message: str
    retryable: bool
    workflow_id: str
    exception: BaseException | None = None


HandleResult: TypeAlias = Result[T, HandleOperationError]


class WorkflowHandle(Generic[T]):
    """One workflow. Nothing is cached here: an operator may retry a failed one, which then ends with another result."""

    __slots__ = ("_output", "broker", "workflow_id")

    def __init__(self, workflow_id: str, broker: PostgresBroker, output: object = None) -> None:
        """`output` is the node whose result is the workflow's, if it is known."""
        self.workflow_id = workflow_id
        self.broker = broker
        self._output = output

    def get(self, timeout_ms: int | None = None) -> TaskResult[T, TaskError]:
        """Return the output node's result, or a dict of the results of all nodes on which none depends. Never raises.

        Waits at most `timeout_ms`; 0 reads once, None waits without end. WORKFLOW_PAUSED ends the wait too.
        """
        found = waited_for(lambda limit: self._ended(self.broker.perform(self._until_final(limit)), limit), timeout_ms)
        return restored(self._output, found)

    async def get_async(self, timeout_ms: int | None = None) -> TaskResult[T, TaskError]:
        """`get` for any running event loop; it raises only on cancellation."""
        found = await self.broker.perform_async(self._until_final(timeout_ms))
        return restored(self._output, self._ended(found, timeout_ms))

    def status(self) -> HandleResult[WorkflowStatus]:
        return self._found(self._ask(self._read_status))

    async def status_async(self) -> HandleResult[WorkflowStatus]:
        """`status` for a running event loop."""
        return self._found(await self._ask_async(self._read_status))

    def tasks(self) -> HandleResult[list[WorkflowTaskInfo]]:
        """Return the present nodes, in their order."""
        return self._found(self._ask(self._read_nodes))

    async def tasks_async(self) -> HandleResult[list[WorkflowTaskInfo]]:
        """`tasks` for a running event loop."""
        return self._found(await self._ask_async(self._read_nodes))

    def results(self) -> HandleResult[dict[str, TaskResult[Any, TaskError]]]:
        """Return the results that exist so far, by node_id."""
        return self.tasks().map(_results_of)

    async def results_async(self) -> HandleResult[dict[str, TaskResult[Any, TaskError]]]:
        """`results` for a running event loop."""
        return (await self.tasks_async()).map(_results_of)

    def result_for(self, node: Node[U] | NodeKey[U]) -> TaskResult[U, TaskError]:
        """Return one node's present result; RESULT_NOT_READY before it has ended. Never raises."""
        return drive_blocking(self._node_result(node))

    async def result_for_async(self, node: Node[U] | NodeKey[U]) -> TaskResult[U, TaskError]:
        """`result_for` for a running event loop."""
        return await drive_awaited(self._node_result(node))

    def cancel(self) -> HandleResult[None]:
        """Cancel it with all its tasks and child workflows; has no effect if it has ended."""
        return self._found(self._ask(self._control(controlling.cancel))).map(_nothing)

    async def cancel_async(self) -> HandleResult[None]:
        """`cancel` for a running event loop."""
        return self._found(await self._ask_async(self._control(controlling.cancel))).map(_nothing)

    def pause(self) -> HandleResult[bool]:
        """Start no more of its tasks; running ones continue to their end. False if it was not running."""
        return self._found(self._ask(self._control(controlling.pause)))

    async def pause_async(self) -> HandleResult[bool]:
        """`pause` for a running event loop."""
        return self._found(await self._ask_async(self._control(controlling.pause)))

    def resume(self) -> HandleResult[bool]:
        """Continue it. False if it was not paused. If a node of it has failed it will end FAILED: see `retry`."""
        return self._found(self._ask(self._control(controlling.resume)))

    async def resume_async(self) -> HandleResult[bool]:
        """`resume` for a running event loop."""
        return self._found(await self._ask_async(self._control(controlling.resume)))

    def retry(self) -> HandleResult[bool]:
        """Run failed nodes again, and those skipped because of them; completed ones are kept; a paused one is resumed.

        False if nothing has failed, or it cannot continue. Only this lets a failed workflow end COMPLETED:
        `resume` continues its other nodes, and it ends FAILED.
        """
        return self._found(self._ask(self._control(_retry)))

    async def retry_async(self) -> HandleResult[bool]:
        """`retry` for a running event loop."""
        return self._found(await self._ask_async(self._control(_retry)))

    def __repr__(self) -> str:
        return f"WorkflowHandle({self.workflow_id!r})"

    def _ask(self, act: Callable[[asyncpg.Connection], Awaitable[U]]) -> BrokerResult[U]:
        return self.broker.perform(Operation(BrokerErrorCode.MONITORING_QUERY_FAILED, lambda link: link.use(act)))

    async def _ask_async(self, act: Callable[[asyncpg.Connection], Awaitable[U]]) -> BrokerResult[U]:
        operation = Operation(BrokerErrorCode.MONITORING_QUERY_FAILED, lambda link: link.use(act))
        return await self.broker.perform_async(operation)

    # The operations, on the broker's loop.

    def _until_final(self, timeout_ms: int | None) -> Operation[WorkflowOutcome | None]:
        timeout_s = None if timeout_ms is None else max(timeout_ms, 0) / 1000
        return Operation(
            BrokerErrorCode.MONITORING_QUERY_FAILED,
            lambda link: link.waiting_for_workflows.until_final(self.workflow_id, timeout_s),
        )

    async def _read_status(self, connection: asyncpg.Connection) -> WorkflowStatus | None:
        outcome = (await read_workflow_outcomes(connection, [self.workflow_id])).get(self.workflow_id)
        return None if outcome is None else WorkflowStatus(outcome.status)

    async def _read_nodes(self, connection: asyncpg.Connection) -> list[WorkflowTaskInfo] | None:
        return await read_nodes(connection, self.workflow_id, self.broker.classes)

    def _control(
        self, verb: Callable[[asyncpg.Connection, str], Awaitable[bool]]
    ) -> Callable[[asyncpg.Connection], Awaitable[bool | None]]:
        async def act(connection: asyncpg.Connection) -> bool | None:
            if await verb(connection, self.workflow_id):
                return True
            naming = statement("horsies.lifecycle.create_workflow", "workflow_name")
            return None if await connection.fetchval(naming, self.workflow_id) is None else False

        return act

    # The answers.

    def _found(self, answer: BrokerResult[U | None]) -> HandleResult[U]:
        if isinstance(answer, Err):
            return Err(_explained(answer.err_value, self.workflow_id))
        if answer.ok_value is None:
            return Err(
                HandleOperationError(
                    HandleErrorCode.WORKFLOW_NOT_FOUND, _NO_WORKFLOW, retryable=False, workflow_id=self.workflow_id
                )
            )
        return Ok(answer.ok_value)

    def _ended(
        self, answer: BrokerResult[WorkflowOutcome | None], timeout_ms: int | None
    ) -> TaskResult[Any, TaskError]:
        if isinstance(answer, Err):
            return self._unreadable(answer.err_value)
        outcome = answer.ok_value
        if outcome is None:
            return self._failure(RetrievalCode.WORKFLOW_NOT_FOUND, _NO_WORKFLOW)
        if outcome.is_final:
            return outcome.result(result_classes(self._output, self.broker.classes))
        waited = "and nothing here can end it" if timeout_ms is None else f"after {timeout_ms} ms"
        message = f"the workflow was still {outcome.status} {waited}"
        return self._failure(RetrievalCode.WAIT_TIMEOUT, message, timeout_ms=timeout_ms)

    def _node_result(self, key: Node[U] | NodeKey[U]) -> CallSteps[TaskResult[U, TaskError]]:
        try:
            node_id = id_of(key)
        except WorkflowContextMissingIdError as error:
            return self._failure(ContractCode.WORKFLOW_CTX_MISSING_ID, str(error))
        read = partial(read_node, workflow_id=self.workflow_id, node_id=node_id)
        answer: BrokerResult[NodeOutcome | None] = yield self._ask, self._ask_async, (read,)
        return restored(key, self._node_ended(answer, key, node_id))

    def _node_ended(
        self, answer: BrokerResult[NodeOutcome | None], key: object, node_id: str
    ) -> TaskResult[Any, TaskError]:
        if isinstance(answer, Err):
            return self._unreadable(answer.err_value)
        node = answer.ok_value
        if node is None:
            return self._failure(RetrievalCode.WORKFLOW_NOT_FOUND, _NO_WORKFLOW)
        if node.status is None:
            return self._failure(RetrievalCode.TASK_NOT_FOUND, f"the workflow has no node {node_id!r}", node_id=node_id)
        if node.stored is not None:
            return load_task_result(node.stored, result_classes(key, self.broker.classes))
        if node.status == WorkflowTaskStatus.SKIPPED:
            return self._failure(OutcomeCode.UPSTREAM_SKIPPED, f"the node {node_id!r} was skipped", node_id=node_id)
        message = f"the node {node_id!r} is {node.status} and has no result yet"
        return self._failure(RetrievalCode.RESULT_NOT_READY, message, node_id=node_id)

    def _unreadable(self, error: BrokerOperationError) -> TaskResult[Any, TaskError]:
        message = f"the result cannot be read: {error.message}"
        return self._failure(OperationalErrorCode.BROKER_ERROR, message, retryable=error.retryable)

    def _failure(self, code: BuiltInTaskCode, message: str, **data: Any) -> TaskResult[Any, TaskError]:
        data = {"workflow_id": self.workflow_id, **data}
        return TaskResult(err=TaskError(error_code=code, message=message, data=data))


_NO_WORKFLOW = "there is no such workflow; it may have been pruned"


async def _retry(connection: asyncpg.Connection, workflow_id: str) -> bool:
    try:
        await controlling.retry_from_failed(connection, workflow_id)
    except CannotReopenError:
        return False
    return True


def _explained(error: BrokerOperationError, workflow_id: str) -> HandleOperationError:
    if error.code is BrokerErrorCode.NO_BROKER:
        code = HandleErrorCode.LOOP_RUNNER_FAILED
    elif isinstance(error.exception, ValueError):  # a row that makes no sense
        code = HandleErrorCode.INTERNAL_FAILED
    else:
        code = HandleErrorCode.DB_OPERATION_FAILED
    return HandleOperationError(code, error.message, error.retryable, workflow_id, error.exception)


def _results_of(nodes: list[WorkflowTaskInfo]) -> dict[str, TaskResult[Any, TaskError]]:
    return {node.node_id: node.result for node in nodes if node.node_id is not None and node.result is not None}


def _nothing(_changed: bool) -> None:
    """Drop the answer of `cancel`, which promises that the workflow has ended, not that this call cancelled it."""


async def pause_workflow(broker: PostgresBroker, workflow_id: str) -> HandleResult[bool]:
    """Start no more of its tasks; running ones continue to their end. False if it was not running."""
    return await WorkflowHandle[Any](workflow_id, broker).pause_async()


def pause_workflow_sync(broker: PostgresBroker, workflow_id: str) -> HandleResult[bool]:
    """`pause_workflow` for code without a running event loop."""
    return WorkflowHandle[Any](workflow_id, broker).pause()


async def resume_workflow(broker: PostgresBroker, workflow_id: str) -> HandleResult[bool]:
    """Continue it. False if it was not paused."""
    return await WorkflowHandle[Any](workflow_id, broker).resume_async()


def resume_workflow_sync(broker: PostgresBroker, workflow_id: str) -> HandleResult[bool]:
    """`resume_workflow` for code without a running event loop."""
    return WorkflowHandle[Any](workflow_id, broker).resume()


_log = logging.getLogger("horsies.workflow")

_MAX_S = 120.0


async def recover_stuck_workflows(where: PostgresBroker | asyncpg.Connection) -> int:
    """Repair like the sweep of a worker; returns the number of repairs. Workers do it at every check interval.

    Each workflow is repaired in a transaction of its own; one that cannot be repaired is logged and skipped. Tasks that
    ended within crashed_worker_recovery_grace_ms are left to their worker. HorsiesError if the database cannot be
    reached.
    """
    if not isinstance(where, PostgresBroker):
        return _log_refused(await reconcile_all(where, RecoveryConfig().crashed_worker_recovery_grace_ms))
    config = RecoveryConfig() if where.app is None else where.app.config.recovery
    sweep = partial(reconcile_all, grace_ms=config.crashed_worker_recovery_grace_ms)
    operation = Operation(BrokerErrorCode.CLEANUP_FAILED, lambda link: link.use(sweep, limit_s=_MAX_S))
    return _log_refused(value_or_raise(await where.perform_async(operation)))


def _log_refused(done: Reconciled) -> int:
    for refused in done.refused:
        _log.warning("workflow %s could not be repaired: %s", refused.item, mask(refused.error))
    return done.repairs
