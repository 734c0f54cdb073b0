"""The handle of a workflow: what it reads, when it wakes up, and its errors if the database is down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from advance_steps import fail
from until import LISTENERS, until, until_listening
from workflow_plans import Spec, node, plan

from horsies import (
    ContractCode,
    Err,
    HandleErrorCode,
    Horsies,
    NodeKey,
    Ok,
    OperationalErrorCode,
    OutcomeCode,
    PostgresConfig,
    RetrievalCode,
    SubWorkflowError,
    SubWorkflowSummary,
    TaskError,
    TaskResult,
    WorkflowHandle,
    WorkflowStatus,
    WorkflowTaskInfo,
    WorkflowTaskStatus,
    pause_workflow,
    pause_workflow_sync,
    resume_workflow,
    resume_workflow_sync,
    start_workflow,
)
from horsies.broker import PostgresBroker
from horsies.domain.codec import dump_task_error, dump_task_result, dump_value
from horsies.store import waiting

UNREACHABLE = "postgresql://nobody@localhost:1/none"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ONE = dump_task_result(TaskResult(ok=1))
DIAMOND = plan(node(0), node(1, 0), node(2, 0), node(3, 1, 2))
ENDED = "UPDATE horsies_workflows SET status = $2, result = $3, error = $4 WHERE id = $1"


@pytest.fixture
def broker(app: Horsies) -> PostgresBroker:
    return app.get_broker()


@pytest.fixture
def handle(broker: PostgresBroker) -> WorkflowHandle[Any]:
    """The handle of a diamond of four nodes that was just started."""
    return start_workflow(Spec(DIAMOND, broker), broker, "w-1").unwrap()


@pytest.fixture
def nobody(broker: PostgresBroker) -> WorkflowHandle[Any]:
    """The handle of a workflow that does not exist."""
    return WorkflowHandle("gone", broker)


@pytest.fixture
def away() -> Iterator[WorkflowHandle[Any]]:
    """A handle whose database is down."""
    broker = PostgresBroker(PostgresConfig(database_url=UNREACHABLE))
    yield WorkflowHandle("w-1", broker)
    broker.close()


class Unnamed:
    """A node before it is part of a workflow."""

    node_id = None


@pytest.mark.parametrize("status", list(WorkflowStatus))
async def test_the_status_is_that_of_the_row(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any], status: WorkflowStatus
) -> None:
    await connection.execute(ENDED, "w-1", status.value, None, None)
    assert handle.status() == await handle.status_async() == Ok(status)


async def test_an_unknown_status_is_an_error_and_not_an_exception(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any]
) -> None:
    await connection.execute(ENDED, "w-1", "STRANGE", None, None)
    for answer in (handle.status(), await handle.status_async()):
        assert answer.unwrap_err().code is HandleErrorCode.INTERNAL_FAILED
    await connection.execute("UPDATE horsies_workflow_tasks SET status = 'STRANGE'")
    assert handle.tasks().unwrap_err().code is HandleErrorCode.INTERNAL_FAILED


async def test_the_result_of_a_completed_workflow_is_that_of_its_output_node(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any]
) -> None:
    await connection.execute(ENDED, "w-1", "COMPLETED", ONE, None)
    assert handle.get() == await handle.get_async() == TaskResult(ok=1)


async def test_without_an_output_node_the_result_is_that_of_all_nodes_at_the_end(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any]
) -> None:
    stored = dump_task_result(TaskResult(ok={"n2": TaskResult(ok=1), "n3": None}))
    await connection.execute(ENDED, "w-1", "COMPLETED", stored, None)
    assert handle.get().ok_value == {"n2": TaskResult(ok=1), "n3": None}


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED"])
async def test_a_failed_workflow_gives_its_stored_error(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any], status: str
) -> None:
    summary = SubWorkflowSummary(WorkflowStatus.FAILED, None, 2, 1, 1, 0, "why")
    error = SubWorkflowError(
        error_code=OutcomeCode.SUBWORKFLOW_FAILED, sub_workflow_id="w-2", sub_workflow_summary=summary
    )
    await connection.execute(ENDED, "w-1", status, ONE, dump_task_error(error))
    match handle.get().err_value:
        case SubWorkflowError(sub_workflow_id="w-2", sub_workflow_summary=found):
            assert found == summary
        case other:
            pytest.fail(f"{other!r} is no SubWorkflowError")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("COMPLETED", RetrievalCode.RESULT_NOT_AVAILABLE),
        ("FAILED", OutcomeCode.WORKFLOW_FAILED),
        ("CANCELLED", OutcomeCode.WORKFLOW_CANCELLED),
        ("PAUSED", OutcomeCode.WORKFLOW_PAUSED),
    ],
)
async def test_an_end_without_a_result_or_an_error_has_a_code_of_its_own(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any], status: str, code: object
) -> None:
    await connection.execute(ENDED, "w-1", status, None, None)
    error = handle.get().err_value
    assert error.error_code is code
    assert error.data == {"workflow_id": "w-1"}


@pytest.mark.parametrize("damaged", ["{", "[]", '"text"'])
async def test_a_damaged_result_or_error_is_an_error_result(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any], damaged: str
) -> None:
    await connection.execute(ENDED, "w-1", "COMPLETED", damaged, None)
    assert handle.get().err_value.error_code is OperationalErrorCode.BROKER_ERROR
    await connection.execute(ENDED, "w-1", "FAILED", None, damaged)
    assert handle.get().err_value.error_code is OperationalErrorCode.BROKER_ERROR


async def test_a_workflow_that_was_opened_again_is_waited_for_again(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any]
) -> None:
    await connection.execute(ENDED, "w-1", "FAILED", None, None)
    assert handle.get().is_err()
    await connection.execute(ENDED, "w-1", "COMPLETED", ONE, None)
    assert handle.get() == TaskResult(ok=1)


async def test_a_wait_ends_with_the_time_that_was_given(handle: WorkflowHandle[Any]) -> None:
    for timeout_ms in (0, 30):
        for result in (handle.get(timeout_ms), await handle.get_async(timeout_ms)):
            assert result.err_value.error_code is RetrievalCode.WAIT_TIMEOUT
            assert result.err_value.data == {"workflow_id": "w-1", "timeout_ms": timeout_ms}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED", "PAUSED"])
async def test_a_wait_is_woken_by_the_notification(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any], monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    monkeypatch.setattr(waiting, "_POLL_S", 3_600.0)
    wait = asyncio.create_task(handle.get_async())
    await until_listening(connection)
    await connection.execute(ENDED, "w-1", status, ONE, None)
    result = await wait
    assert result.is_ok() is (status == "COMPLETED")


async def test_waits_for_tasks_and_workflows_share_one_connection(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any], broker: PostgresBroker
) -> None:
    task_id = await connection.fetchval("SELECT id FROM horsies_tasks")
    waits = [asyncio.create_task(handle.get_async())]
    await until_listening(connection)
    # Only now: a LISTEN right after the first probe would hide it, and the next one comes ten seconds later.
    waits.append(asyncio.create_task(broker.get_result_async(task_id)))
    await until(connection, f"EXISTS (SELECT {LISTENERS} AND query LIKE 'LISTEN%task_done%' AND state = 'idle')")
    assert await connection.fetchval(f"SELECT count(*) {LISTENERS}") == 1
    await connection.execute(ENDED, "w-1", "COMPLETED", ONE, None)
    await connection.execute("UPDATE horsies_tasks SET status = 'COMPLETED', result = $1", ONE)
    assert await asyncio.gather(*waits) == [TaskResult(ok=1)] * 2


async def test_waits_from_threads_and_loops_and_inside_a_running_loop(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any]
) -> None:
    with ThreadPoolExecutor(8) as threads:
        waits = [threads.submit(wait) for wait in [handle.get, lambda: asyncio.run(handle.get_async())] * 4]
        here = asyncio.create_task(handle.get_async())
        await until(connection, f"EXISTS (SELECT {LISTENERS})")
        assert handle.status() == Ok(WorkflowStatus.RUNNING)
        await connection.execute(ENDED, "w-1", "COMPLETED", ONE, None)
        assert await here == TaskResult(ok=1)
        assert await asyncio.gather(*map(asyncio.wrap_future, waits)) == [TaskResult(ok=1)] * 8


async def test_a_cancelled_wait_lets_its_caller_go(handle: WorkflowHandle[Any]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(handle.get_async(), 0.05)


async def end_node(
    connection: asyncpg.Connection, index: int, status: str, result: str | None, summary: str | None = None
) -> None:
    await connection.execute(
        "UPDATE horsies_workflow_tasks SET status = $2, result = $3, sub_workflow_summary = $4, started_at = $5,"
        "       completed_at = $5 WHERE task_index = $1",
        *(index, status, result, summary, MOMENT),
    )


async def test_the_nodes_come_in_their_order_with_what_they_came_to(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any]
) -> None:
    summary: SubWorkflowSummary[int] = SubWorkflowSummary(WorkflowStatus.COMPLETED, 1, 2, 2, 0, 0)
    await end_node(connection, 1, "COMPLETED", ONE, dump_value(summary))
    await end_node(connection, 2, "SKIPPED", None)
    nodes = handle.tasks().unwrap()
    assert nodes == (await handle.tasks_async()).unwrap()
    assert [info.index for info in nodes] == [0, 1, 2, 3]
    assert nodes[1] == WorkflowTaskInfo(
        node_id="n1",
        index=1,
        name="demo.add",
        status=WorkflowTaskStatus.COMPLETED,
        result=TaskResult(ok=1),
        started_at=MOMENT,
        completed_at=MOMENT,
        sub_workflow_summary=summary,
    )
    assert (nodes[2].status, nodes[2].result) == (WorkflowTaskStatus.SKIPPED, None)
    assert handle.results() == await handle.results_async() == Ok({"n1": TaskResult(ok=1)})


async def test_the_result_of_one_node(connection: asyncpg.Connection, handle: WorkflowHandle[Any]) -> None:
    key: NodeKey[int] = NodeKey("n1")
    for result in (handle.result_for(key), await handle.result_for_async(key)):
        assert result.err_value.error_code is RetrievalCode.RESULT_NOT_READY
    await end_node(connection, 1, "COMPLETED", ONE)
    assert handle.result_for(key) == await handle.result_for_async(key) == TaskResult(ok=1)


async def test_a_node_that_was_skipped_will_have_no_result(
    connection: asyncpg.Connection, handle: WorkflowHandle[Any]
) -> None:
    await end_node(connection, 1, "SKIPPED", None)
    assert handle.result_for(NodeKey("n1")).err_value.error_code is OutcomeCode.UPSTREAM_SKIPPED


async def test_a_node_that_cannot_be_found_says_why(handle: WorkflowHandle[Any], nobody: WorkflowHandle[Any]) -> None:
    unnamed: Any = Unnamed()
    for result in (handle.result_for(unnamed), await handle.result_for_async(unnamed)):
        assert result.err_value.error_code is ContractCode.WORKFLOW_CTX_MISSING_ID
    assert handle.result_for(NodeKey("other")).err_value.error_code is RetrievalCode.TASK_NOT_FOUND
    assert nobody.result_for(NodeKey("n1")).err_value.error_code is RetrievalCode.WORKFLOW_NOT_FOUND


async def test_a_workflow_that_is_not_there_is_an_error_of_each_question(nobody: WorkflowHandle[Any]) -> None:
    assert nobody.get().err_value.error_code is RetrievalCode.WORKFLOW_NOT_FOUND
    asked = [
        nobody.status(),
        nobody.tasks(),
        nobody.results(),
        nobody.pause(),
        nobody.resume(),
        nobody.cancel(),
        nobody.retry(),
    ]
    asked += [await nobody.status_async(), await nobody.tasks_async(), await nobody.results_async()]
    asked += [await nobody.pause_async(), await nobody.resume_async(), await nobody.cancel_async()]
    for answer in asked:
        assert answer.unwrap_err().code is HandleErrorCode.WORKFLOW_NOT_FOUND
        assert answer.unwrap_err().workflow_id == "gone"


async def test_a_database_that_is_away_is_an_error_of_each_question(away: WorkflowHandle[Any]) -> None:
    for result in (away.get(10), await away.get_async(10), away.result_for(NodeKey("n1"))):
        assert result.err_value.error_code is OperationalErrorCode.BROKER_ERROR
        assert result.err_value.data == {"workflow_id": "w-1", "retryable": True}
    for answer in (away.status(), await away.tasks_async(), away.cancel(), await away.pause_async()):
        error = answer.unwrap_err()
        assert (error.code, error.retryable) == (HandleErrorCode.DB_OPERATION_FAILED, True)
        assert error.exception is not None


async def test_a_broker_that_closes_ends_the_waits(handle: WorkflowHandle[Any], broker: PostgresBroker) -> None:
    wait = asyncio.create_task(handle.get_async())
    await asyncio.to_thread(handle.status)
    await broker.close_async()
    assert (await wait).err_value.error_code is OperationalErrorCode.BROKER_ERROR


async def test_pause_resume_and_cancel_say_whether_they_changed_anything(handle: WorkflowHandle[Any]) -> None:
    assert handle.resume() == Ok(False)
    assert [handle.pause(), await handle.pause_async()] == [Ok(True), Ok(False)]
    assert handle.get().err_value.error_code is OutcomeCode.WORKFLOW_PAUSED
    assert [await handle.resume_async(), handle.resume()] == [Ok(True), Ok(False)]
    assert [handle.cancel(), await handle.cancel_async()] == [Ok(None), Ok(None)]
    assert handle.status() == Ok(WorkflowStatus.CANCELLED)
    assert handle.get().err_value.error_code is OutcomeCode.WORKFLOW_CANCELLED


async def test_a_retry_runs_again_what_failed(handle: WorkflowHandle[Any], connection: asyncpg.Connection) -> None:
    loop = asyncio.get_running_loop()
    assert [handle.retry(), await handle.retry_async()] == [Ok(False), Ok(False)], "nothing has failed"
    for retry in (handle.retry, lambda: asyncio.run_coroutine_threadsafe(handle.retry_async(), loop).result()):
        await fail(connection, "w-1", 0)
        assert handle.status() == Ok(WorkflowStatus.FAILED)
        assert await asyncio.to_thread(retry) == Ok(True)
        assert handle.status() == Ok(WorkflowStatus.RUNNING)


async def test_pause_and_resume_by_id(handle: WorkflowHandle[Any], broker: PostgresBroker) -> None:
    assert await pause_workflow(broker, "w-1") == Ok(True)
    assert resume_workflow_sync(broker, "w-1") == Ok(True)
    assert await asyncio.to_thread(pause_workflow_sync, broker, "w-1") == Ok(True)
    assert await resume_workflow(broker, "w-1") == Ok(True)
    assert isinstance(await pause_workflow(broker, "gone"), Err)


def test_a_handle_shows_its_workflow_and_an_error_its_code(handle: WorkflowHandle[Any]) -> None:
    assert repr(handle) == "WorkflowHandle('w-1')"
    assert isinstance(handle.result_for(NodeKey("x")).err_value, TaskError)
