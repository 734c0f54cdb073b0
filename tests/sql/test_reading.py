"""Handles and the broker report the state of a task: results, waits, rows, attempts, and damaged rows."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from hypothesis import given, strategies as st
from until import until_listening

from horsies.broker import PostgresBroker
from horsies.config.app import PostgresConfig
from horsies.domain.codec import dump_task_result
from horsies.domain.codes import ContractCode, OperationalErrorCode, OutcomeCode, RetrievalCode
from horsies.domain.errors import HorsiesError
from horsies.domain.result import Ok
from horsies.domain.states import TASK_TERMINAL_STATES, TaskAttemptOutcome, TaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.handle import BrokerErrorCode, TaskHandle
from horsies.store import waiting
from horsies.store.reading import ProgressInfo, StoredOutcome, TaskAttemptInfo, TaskInfo

FORTY_TWO = TaskResult[int, TaskError](ok=42)
NO = TaskResult[int, TaskError](err=TaskError(error_code="CARD_DECLINED", message="no"))
LOST_CLASS = '{"__task_result__":true,"ok":{"__dataclass__":true,"module":"gone","qualname":"X","data":{}},"err":null}'
STARTED = datetime(2026, 1, 2, 12, tzinfo=UTC)


async def store(connection: asyncpg.Connection, task_id: str = "t", **columns: Any) -> None:
    row = {"id": task_id, "task_name": "demo.add", "queue_name": "mail", **columns}
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await connection.execute(f"INSERT INTO horsies_tasks ({', '.join(row)}) VALUES ({places})", *row.values())


async def finish(connection: asyncpg.Connection, result: TaskResult[Any, Any], task_id: str = "t") -> None:
    await connection.execute(
        "UPDATE horsies_tasks SET status = $2, result = $3, completed_at = now() WHERE id = $1",
        task_id,
        "COMPLETED" if result.is_ok() else "FAILED",
        dump_task_result(result),
    )


@pytest.mark.parametrize(
    ("status", "result"),
    [("COMPLETED", FORTY_TWO), ("COMPLETED", TaskResult(ok=None)), ("FAILED", NO), ("EXPIRED", NO)],
)
async def test_the_stored_result_comes_back(
    broker: PostgresBroker, connection: asyncpg.Connection, status: str, result: TaskResult[Any, Any]
) -> None:
    await store(connection, status=status, result=dump_task_result(result))
    assert await broker.get_result_async("t") == result
    assert broker.get_result("t", timeout_ms=0) == result


@pytest.mark.parametrize(
    ("columns", "code", "words"),
    [
        ({"status": "CANCELLED"}, OutcomeCode.TASK_CANCELLED, "cancelled"),
        ({"status": "CANCELLED", "result": dump_task_result(FORTY_TWO)}, OutcomeCode.TASK_CANCELLED, "cancelled"),
        ({"status": "CANCELLED", "error_code": "OUT_OF_TEA"}, OutcomeCode.TASK_CANCELLED, "cancelled"),
        ({"status": "EXPIRED"}, OutcomeCode.TASK_EXPIRED, "good_until"),
        ({"status": "COMPLETED"}, RetrievalCode.RESULT_NOT_AVAILABLE, "has no result"),
        (
            {"status": "FAILED", "failed_reason": "the child was killed"},
            OperationalErrorCode.WORKER_CRASHED,
            "failed without a result: the child was killed",
        ),
        ({"status": "FAILED", "error_code": "OUT_OF_TEA"}, "OUT_OF_TEA", "without a result"),
        ({"status": "FAILED", "error_code": "TASK_EXCEPTION"}, OperationalErrorCode.TASK_EXCEPTION, "without a result"),
        ({"status": "COMPLETED", "result": '{"ok":'}, OperationalErrorCode.BROKER_ERROR, "not valid JSON"),
        ({"status": "COMPLETED", "result": "[]"}, OperationalErrorCode.BROKER_ERROR, "expected an object"),
        ({"status": "COMPLETED", "result": LOST_CLASS}, ContractCode.PYDANTIC_HYDRATION_ERROR, "gone"),
    ],
)
async def test_a_final_row_without_a_sound_result_says_why(
    broker: PostgresBroker, connection: asyncpg.Connection, columns: dict[str, Any], code: str, words: str
) -> None:
    await store(connection, **columns)
    error = (await broker.get_result_async("t")).err_value
    assert error.error_code == code
    assert type(error.error_code) is type(code)
    assert words in error.message


@given(
    st.sampled_from(sorted(status.value for status in TASK_TERMINAL_STATES)),
    st.none() | st.text() | st.sampled_from(["null", "{}", '{"ok":1}', '{"err":null}', '{"err":{"error_code":7}}']),
    st.none() | st.text() | st.sampled_from(["WORKER_CRASHED", "OUT_OF_TEA"]),
    st.none() | st.text(),
)
def test_whatever_a_final_row_holds_there_is_a_result(
    status: str, stored: str | None, code: str | None, reason: str | None
) -> None:
    result = StoredOutcome("t", status, stored, code, reason).result()
    assert result.is_ok() == (stored in ('{"ok":1}', '{"err":null}') and status != "CANCELLED")
    assert result.is_ok() or result.err_value.error_code is not None


def test_a_task_that_is_not_there_is_not_waited_for(broker: PostgresBroker) -> None:
    error = broker.get_result("nobody").err_value
    assert (error.error_code, error.data) == (RetrievalCode.TASK_NOT_FOUND, {"task_id": "nobody"})


async def test_a_task_pruned_during_the_wait_is_not_found(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    await store(connection)
    waiting = asyncio.create_task(broker.get_result_async("t"))
    await until_listening(connection)
    await connection.execute("DELETE FROM horsies_tasks; SELECT pg_notify('task_done', 't')")
    assert (await waiting).err_value.error_code is RetrievalCode.TASK_NOT_FOUND


@pytest.mark.parametrize("timeout_ms", [0, -5, 30])
async def test_a_wait_that_runs_out_says_how_long_it_was(
    broker: PostgresBroker, connection: asyncpg.Connection, timeout_ms: int
) -> None:
    await store(connection, status="RUNNING")
    error = (await broker.get_result_async("t", timeout_ms)).err_value
    assert error.error_code is RetrievalCode.WAIT_TIMEOUT
    assert error.data == {"task_id": "t", "timeout_ms": timeout_ms}
    assert "RUNNING" in error.message


async def test_many_waits_end_with_the_notifications_of_their_tasks(
    broker: PostgresBroker, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_POLL_S", 600.0)
    names = [f"t{number}" for number in range(50)]
    for name in names:
        await store(connection, name)
    waits = [asyncio.create_task(broker.get_result_async(name)) for name in names]
    await until_listening(connection)
    for number, name in enumerate(names):
        await finish(connection, TaskResult(ok=number), name)
    assert [result.ok for result in await asyncio.wait_for(asyncio.gather(*waits), 60)] == list(range(50))


async def test_a_cancelled_wait_lets_the_cancellation_through_and_other_waits_go_on(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    await store(connection)
    staying = asyncio.create_task(broker.get_result_async("t"))
    leaving = asyncio.create_task(TaskHandle[int]("t", broker).get_async())
    await until_listening(connection)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await finish(connection, FORTY_TWO)
    assert await staying == FORTY_TWO


async def test_a_handle_keeps_what_it_has_seen(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await store(connection)
    handle = TaskHandle[int]("t", broker)
    assert handle.get(timeout_ms=0).err_value.error_code is RetrievalCode.WAIT_TIMEOUT
    assert handle.get(timeout_ms=10).err_value.error_code is RetrievalCode.WAIT_TIMEOUT
    await finish(connection, FORTY_TWO)
    assert await handle.get_async() == FORTY_TWO
    await connection.execute("DELETE FROM horsies_tasks")
    assert handle.get() == FORTY_TWO
    assert await handle.get_async(timeout_ms=0) == FORTY_TWO


async def test_a_handle_keeps_an_error_as_well(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await store(connection, status="FAILED", result=dump_task_result(NO))
    handle = TaskHandle[int]("t", broker)
    assert handle.get() == NO
    await connection.execute("DELETE FROM horsies_tasks")
    assert handle.get() == await handle.get_async() == NO


async def test_a_handle_finds_a_task_that_was_stored_after_it_had_asked(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    """A send in the caller's transaction gives its handle before the row can be seen."""
    handle = TaskHandle[int]("t", broker)
    assert handle.get().err_value.error_code is RetrievalCode.TASK_NOT_FOUND
    assert (await handle.get_async()).err_value.error_code is RetrievalCode.TASK_NOT_FOUND
    await store(connection, status="COMPLETED", result=dump_task_result(FORTY_TWO))
    assert handle.get() == FORTY_TWO


@pytest.mark.parametrize("unreadable", [None, '{"ok":', LOST_CLASS])
async def test_a_handle_asks_again_for_a_result_that_it_could_not_read(
    broker: PostgresBroker, connection: asyncpg.Connection, unreadable: str | None
) -> None:
    await store(connection, status="COMPLETED", result=unreadable)
    handle = TaskHandle[int]("t", broker)
    assert handle.get().is_err()
    await finish(connection, FORTY_TWO)
    assert await handle.get_async() == FORTY_TWO


async def test_a_handle_asks_again_after_an_outage(database: str, connection: asyncpg.Connection) -> None:
    await store(connection, status="COMPLETED", result=dump_task_result(FORTY_TWO))
    async with BlackholeProxy(database) as proxy:
        broker = PostgresBroker(PostgresConfig(database_url=proxy.url))
        handle = TaskHandle[int]("t", broker)
        await broker.ensure_schema_initialized()
        proxy.refuse(1_000)
        proxy.cut()
        for result in (await handle.get_async(timeout_ms=0), await asyncio.to_thread(handle.get, 0)):
            assert result.err_value.error_code is OperationalErrorCode.BROKER_ERROR
            assert result.err_value.data == {"retryable": True}
        proxy.refuse(0)
        assert await asyncio.to_thread(handle.get) == FORTY_TWO
        assert await broker.close_async() == Ok(None)


async def test_a_handle_without_a_broker_says_so() -> None:
    handle = TaskHandle[int]("t")
    assert handle.get().err_value.error_code is RetrievalCode.RESULT_NOT_AVAILABLE
    assert await handle.get_async() == handle.get()
    assert handle.info().unwrap_err().code is BrokerErrorCode.NO_BROKER
    assert (await handle.info_async()).unwrap_err().code is BrokerErrorCode.NO_BROKER


def test_trouble_with_the_database_is_an_error_within_the_time_of_the_wait() -> None:
    broker = PostgresBroker(PostgresConfig(database_url="postgresql://bob:hunter2@localhost:1/shop"))
    handle = TaskHandle[int]("t", broker)
    error = handle.get(timeout_ms=100).err_value
    assert error.error_code is OperationalErrorCode.BROKER_ERROR
    assert error.data == {"retryable": True}
    assert "localhost:1" in error.message
    info = handle.info().unwrap_err()
    assert (info.code, info.retryable) == (BrokerErrorCode.TASK_INFO_QUERY_FAILED, True)
    assert "hunter2" not in repr((error, info))
    assert broker.close() == Ok(None)


async def attempt(connection: asyncpg.Connection, number: int, outcome: str, **columns: Any) -> None:
    row = {"task_id": "t", "attempt": number, "outcome": outcome, "started_at": STARTED, "finished_at": STARTED}
    row |= columns
    places = ", ".join(f"${place}" for place in range(1, len(row) + 1))
    await connection.execute(f"INSERT INTO horsies_task_attempts ({', '.join(row)}) VALUES ({places})", *row.values())


async def test_info_is_the_row_and_more_where_it_is_asked_for(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    times = {name: STARTED + timedelta(minutes=minute) for minute, name in enumerate(("sent_at", "enqueued_at"))}
    times |= {"claimed_at": STARTED, "started_at": STARTED, "failed_at": STARTED, "next_retry_at": STARTED}
    worker = {"worker_hostname": "db1", "worker_pid": 7, "worker_process_name": "worker-7"}
    counts = {"priority": 3, "retry_count": 1, "max_retries": 2}
    row = {"error_code": "CARD_DECLINED", **times, **worker, **counts}
    await store(connection, status="FAILED", result=dump_task_result(NO), failed_reason="declined", **row)
    await attempt(connection, 1, "WORKER_FAILURE", will_retry=True, failed_reason="killed", worker_id="w", worker_pid=5)
    await attempt(connection, 2, "FAILED", error_code="CARD_DECLINED", error_message="no")
    columns = {"task_id": "t", "task_name": "demo.add", "queue_name": "mail", "status": TaskStatus.FAILED, **row}
    bare = TaskInfo(**columns, completed_at=None)
    handle = TaskHandle[int]("t", broker)
    assert handle.info() == await handle.info_async() == Ok(bare)
    full = await handle.info_async(include_result=True, include_failed_reason=True, include_attempts=True)
    at = {"task_id": "t", "started_at": STARTED, "finished_at": STARTED}
    failed, killed = TaskAttemptOutcome.FAILED, TaskAttemptOutcome.WORKER_FAILURE
    assert full == Ok(
        TaskInfo(
            **columns,
            completed_at=None,
            result=NO,
            failed_reason="declined",
            attempts=[
                TaskAttemptInfo(
                    **at, attempt=2, outcome=failed, will_retry=False, error_code="CARD_DECLINED", error_message="no"
                ),
                TaskAttemptInfo(
                    **at,
                    attempt=1,
                    outcome=killed,
                    will_retry=True,
                    failed_reason="killed",
                    worker_id="w",
                    worker_pid=5,
                ),
            ],
        )
    )


async def test_info_has_the_progress_of_the_present_run(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await store(connection, status="RUNNING", started_at=STARTED)
    columns = "(task_id, started_at, done, total, unit, reported_at)"
    insert = f"INSERT INTO horsies_progress {columns} VALUES ('t', $1, $2, 9, 'rows', $1)"
    await connection.execute(insert, STARTED - timedelta(minutes=1), 8.0)  # of an attempt before
    assert (await TaskHandle[int]("t", broker).info_async()).unwrap().progress is None
    await connection.execute(insert, STARTED, 3.0)
    assert (await TaskHandle[int]("t", broker).info_async()).unwrap().progress == ProgressInfo(3, 9, "rows", STARTED)


async def test_info_of_an_unfinished_task_has_no_result(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await store(connection, status="RUNNING")
    info = broker.get_task_info("t", include_result=True, include_attempts=True).unwrap()
    assert info is not None
    assert (info.status, info.result, info.attempts) == (TaskStatus.RUNNING, None, [])


async def test_info_of_no_task_is_none_and_of_a_strange_status_an_error(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    assert broker.get_task_info("nobody") == Ok(None)
    await store(connection, status="DREAMING")
    error = broker.get_task_info("t").unwrap_err()
    assert (error.code, error.retryable) == (BrokerErrorCode.TASK_INFO_QUERY_FAILED, False)
    assert "DREAMING" in error.message


RUNNING = {"status": "RUNNING", "worker_hostname": "db1", "worker_pid": 7, "worker_process_name": "worker-7"}


async def beat(connection: asyncpg.Connection, task_id: str, minutes_ago: float, role: str = "runner") -> datetime:
    return await connection.fetchval(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ($1, 'w:7', $2, now() - $3::float8 * interval '1 minute') RETURNING sent_at",
        task_id,
        role,
        minutes_ago,
    )


async def test_stale_tasks_are_those_whose_execution_shows_no_sign_of_life(
    broker: PostgresBroker, connection: asyncpg.Connection
) -> None:
    now = await connection.fetchval("SELECT now()")
    for name, started_minutes_ago in (("beats", 60), ("silent", 60), ("never", 10), ("second attempt", 1), ("new", 1)):
        await store(connection, name, started_at=now - timedelta(minutes=started_minutes_ago), **RUNNING)
    await store(connection, "done", status="COMPLETED", started_at=now - timedelta(minutes=60))
    await beat(connection, "beats", 1)
    await beat(connection, "silent", 59)
    last = await beat(connection, "silent", 5)
    await beat(connection, "silent", 1, role="claimer")
    await beat(connection, "second attempt", 15)  # of the first one
    stale = await broker.get_stale_tasks()
    assert [task["id"] for task in stale] == ["never", "silent"]
    assert stale[1] == {
        "id": "silent",
        "worker_hostname": "db1",
        "worker_pid": 7,
        "worker_process_name": "worker-7",
        "last_heartbeat": last,
        "started_at": now - timedelta(minutes=60),
        "task_name": "demo.add",
    }
    assert stale[0]["last_heartbeat"] is None
    assert [task["id"] for task in await broker.get_stale_tasks(stale_threshold_minutes=7)] == ["never"]


async def test_worker_stats_count_what_runs_where(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    await store(connection, "a", started_at=STARTED, **RUNNING)
    await store(connection, "b", started_at=STARTED + timedelta(minutes=1), **RUNNING)
    await store(connection, "c", started_at=STARTED, **RUNNING | {"worker_pid": 8})
    await store(connection, "waiting")
    await beat(connection, "a", 3)
    latest = await beat(connection, "b", 1)
    busy, other = (await broker.get_worker_stats()).unwrap()
    assert busy == {
        "worker_hostname": "db1",
        "worker_pid": 7,
        "worker_process_name": "worker-7",
        "active_tasks": 2,
        "oldest_task_start": STARTED,
        "latest_heartbeat": latest,
    }
    assert (other["worker_pid"], other["active_tasks"], other["latest_heartbeat"]) == (8, 1, None)


async def test_expired_tasks_wait_past_their_deadline(broker: PostgresBroker, connection: asyncpg.Connection) -> None:
    now = await connection.fetchval("SELECT now()")
    await store(connection, "late", good_until=now - timedelta(minutes=5), sent_at=STARTED, enqueued_at=STARTED)
    await store(connection, "in time", good_until=now + timedelta(hours=1))
    await store(connection, "no deadline")
    await store(connection, "runs", status="RUNNING", good_until=now - timedelta(minutes=5))
    (late,) = (await broker.get_expired_tasks()).unwrap()
    assert timedelta(minutes=5) < late.pop("expired_for") < timedelta(minutes=6)
    assert late == {
        "id": "late",
        "task_name": "demo.add",
        "queue_name": "mail",
        "priority": 100,
        "sent_at": STARTED,
        "enqueued_at": STARTED,
        "good_until": now - timedelta(minutes=5),
    }


async def test_monitoring_without_a_database_is_an_error_value() -> None:
    broker = PostgresBroker(PostgresConfig(database_url="postgresql://localhost:1/shop"))
    with pytest.raises(HorsiesError, match="cannot connect to localhost:1"):
        await broker.get_stale_tasks()
    for answer in (await broker.get_worker_stats(), await broker.get_expired_tasks()):
        error = answer.unwrap_err()
        assert (error.code, error.retryable) == (BrokerErrorCode.MONITORING_QUERY_FAILED, True)
    assert await broker.close_async() == Ok(None)


async def test_an_empty_database_gets_the_tables_and_a_second_time_nothing(empty_database: str) -> None:
    for _ in range(2):
        broker = PostgresBroker(PostgresConfig(database_url=empty_database))
        assert await broker.ensure_schema_initialized() == Ok(None)
        assert await broker.ensure_schema_initialized() == Ok(None)
        assert broker.get_task_info("t") == Ok(None)
        assert await broker.close_async() == Ok(None)


async def test_foreign_tables_are_refused_by_every_call(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    await connection.execute("CREATE TABLE horsies_tasks (id text)")
    broker = PostgresBroker(PostgresConfig(database_url=empty_database))
    for answer in (
        await broker.ensure_schema_initialized(),
        broker.enqueue("demo.add", task_id="t", enqueue_sha="a"),
        broker.get_task_info("t"),
    ):
        error = answer.unwrap_err()
        assert (error.code, error.retryable) == (BrokerErrorCode.SCHEMA_INIT_FAILED, False)
        assert "use another database" in error.message
    assert broker.get_result("t").err_value.error_code is OperationalErrorCode.BROKER_ERROR
    await connection.execute("DROP TABLE horsies_tasks")
    assert await broker.ensure_schema_initialized() == Ok(None)
    await broker.close_async()
    await connection.close()
