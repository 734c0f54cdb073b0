"""A worker under load: bounded memory, claims only for what it can store, few claims under caps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg
import psutil
import pytest
from database_server import DatabaseServer
from test_worker import PATIENCE_S, Table, Worker

from horsies.domain.ids import new_task_id

SEND = """
INSERT INTO horsies_tasks (id, task_name, queue_name, args)
SELECT id, $2, $3, $4 FROM unnest($1::text[]) id
"""
STATUSES = "SELECT status, count(*) FROM horsies_tasks GROUP BY status"


async def send(conn: asyncpg.Connection, count: int, name: str, *, queue: str = "default", args: str = "[]") -> None:
    await conn.execute(SEND, [new_task_id() for _ in range(count)], name, queue, args)


async def statuses(conn: asyncpg.Connection) -> dict[str, int]:
    return dict(await conn.fetch(STATUSES))


async def until(conn: asyncpg.Connection, condition: str, seconds: float = PATIENCE_S) -> None:
    """Wait until the SQL condition holds, polling inside the database."""
    await conn.execute(
        f"""DO $$ BEGIN
            FOR attempt IN 1..{seconds * 100:.0f} LOOP
                IF {condition} THEN RETURN; END IF;
                PERFORM pg_sleep(0.01);
                PERFORM pg_stat_clear_snapshot();
            END LOOP;
            RAISE EXCEPTION 'this has not come true';
        END $$"""
    )


async def all_completed(conn: asyncpg.Connection, seconds: float = 3 * PATIENCE_S) -> None:
    await until(conn, "NOT EXISTS (SELECT FROM horsies_tasks WHERE status <> 'COMPLETED')", seconds)


class Peak:
    """The peak memory of a process; the kernel's own record would include its start."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._over = threading.Event()
        self.megabytes = 0.0
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.01):
            self.megabytes = max(self.megabytes, self._process.memory_info().rss / 1e6)

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


async def memory_for(
    worker: Worker, conn: asyncpg.Connection, count: int, name: str, megabytes: int, seconds: float
) -> float:
    peak = Peak(psutil.Process(worker.process.pid))
    with peak.watched():
        await send(conn, count, name, args=f"[{megabytes}]")
        await all_completed(conn, seconds)
    return peak.megabytes


@pytest.mark.chaos  # two seconds of processor time
async def test_results_of_15_mb_wait_in_the_children_while_the_database_takes_nothing(
    connection: asyncpg.Connection, database: str, start: Callable[..., Worker]
) -> None:
    """To store all 24 would take seven seconds of a processor: the scene below stores them."""
    worker = start("--processes", "4")
    blocker = await asyncpg.connect(database)
    peak = Peak(psutil.Process(worker.process.pid))
    with peak.watched():
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE horsies_task_attempts IN EXCLUSIVE MODE")
            await send(connection, 24, "large_async", args="[15]")
            await until(connection, "(SELECT count(*) FROM horsies_tasks WHERE status = 'RUNNING') = 24")
            await asyncio.sleep(3)  # what has been read by then would be more than 300 MB
        await until(connection, "EXISTS (SELECT FROM horsies_tasks WHERE status = 'COMPLETED')")
    assert peak.megabytes < 300
    await blocker.close()


@pytest.mark.chaos
@pytest.mark.parametrize("name", ["large", "large_async"])
async def test_results_of_15_mb_wait_in_the_children_until_the_database_has_room_for_them(
    connection: asyncpg.Connection, start: Callable[..., Worker], name: str
) -> None:
    worker = start("--processes", "4")
    assert await memory_for(worker, connection, 24, name, 15, 60) < 300


@pytest.mark.chaos
@pytest.mark.parametrize("name", ["large", "large_async"])
async def test_500_results_of_15_mb_leave_the_parent_below_300_mb(
    connection: asyncpg.Connection, start: Callable[..., Worker], name: str
) -> None:
    worker = start("--processes", "4")
    assert await memory_for(worker, connection, 500, name, 15, 600) < 300


@pytest.mark.chaos  # two seconds of processor time
async def test_a_large_result_that_lies_unread_was_in_time(
    connection: asyncpg.Connection, database: str, start: Callable[..., Worker]
) -> None:
    """Its timeout passes while the database takes nothing and the worker leaves results with the children."""
    worker = start("--processes", "4", TEST_LARGE_TIMEOUT_MS="1500")
    blocker = await asyncpg.connect(database)
    async with blocker.transaction():
        await blocker.execute("LOCK TABLE horsies_task_attempts IN EXCLUSIVE MODE")
        await send(connection, 6, "large", args="[15]")  # four begin at once
        await asyncio.sleep(4)
    await all_completed(connection)
    assert len(worker.children()) == 4
    await blocker.close()


REFUSE_LARGE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON horsies_tasks FOR EACH ROW
    WHEN (NEW.status = 'COMPLETED' AND NEW.task_name = 'large') EXECUTE FUNCTION refuse();
"""


@pytest.mark.chaos  # two seconds of processor time; small results: test_poison_rows.py
async def test_large_results_that_the_database_refuses_for_good_hold_up_no_other(
    connection: asyncpg.Connection, start: Callable[..., Worker]
) -> None:
    await connection.execute(REFUSE_LARGE)
    worker = start("--processes", "2")
    await send(connection, 4, "large", args="[15]")
    for _ in range(4):
        worker.wait_for("outcome rejected")
    await send(connection, 20, "nothing")
    await until(connection, "(SELECT count(*) FROM horsies_tasks WHERE status = 'COMPLETED') = 20")


async def test_outcomes_that_cannot_be_stored_take_up_room(
    connection: asyncpg.Connection, database: str, start: Callable[..., Worker]
) -> None:
    """No attempt can be written for a while: the worker runs the tasks that it has, and claims no more."""
    start("--processes", "2")
    blocker = await asyncpg.connect(database)
    async with blocker.transaction():
        await blocker.execute("LOCK TABLE horsies_task_attempts IN EXCLUSIVE MODE")
        await send(connection, 300, "nothing")
        for _ in range(5):  # each send wakes the claimer
            await send(connection, 1, "nothing")
            await asyncio.sleep(0.2)
        taken = 305 - (await statuses(connection))["PENDING"]
        assert 2 <= taken <= 6
    await all_completed(connection)
    await blocker.close()


COUNT_RUNNING = """
CREATE TABLE running_seen (running integer);
CREATE FUNCTION count_running() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO running_seen SELECT count(*) FROM horsies_tasks WHERE queue_name = 'mail' AND status = 'RUNNING';
    RETURN NULL;
END $$;
CREATE TRIGGER count_running AFTER UPDATE ON horsies_tasks FOR EACH STATEMENT EXECUTE FUNCTION count_running();
"""


async def test_a_cap_holds_with_prefetching_and_what_is_ahead_of_it_waits_as_claimed(
    connection: asyncpg.Connection, start: Callable[..., Worker]
) -> None:
    await connection.execute(COUNT_RUNNING)
    queues = {"TEST_QUEUES": "mail:1:3,other:2:50", "TEST_PREFETCH": "6"}
    workers = [start("--processes", "3", ready=False, **queues) for _ in range(2)]
    for worker in workers:
        worker.wait_for("ready")
    await send(connection, 60, "pause", queue="mail", args="[0.05]")
    await send(connection, 60, "nothing", queue="other")

    await until(connection, "EXISTS (SELECT FROM horsies_tasks WHERE status = 'CLAIMED')")
    await all_completed(connection)
    assert await connection.fetchval("SELECT max(running) FROM running_seen") == 3


async def claims_per_task(server: DatabaseServer, start: Callable[..., Worker], workers: int, tasks: int) -> float:
    """How often this many workers query for tasks while they drain a queue with a cap of 3.

    Not the server's count of transactions: each listening session has one for each notification of another session.
    """
    with server.database() as url:
        conn = await asyncpg.connect(url)
        name = await conn.fetchval("SELECT current_database()")
        await conn.execute(f"ALTER DATABASE {name} SET track_functions = 'pl'")
        started = [
            start("--processes", "2", ready=False, TEST_QUEUES="mail:1:3", HORSIES_DATABASE_URL=url)
            for _ in range(workers)
        ]
        for worker in started:
            worker.wait_for("ready")
        await send(conn, tasks, "pause", queue="mail", args="[0.01]")
        await all_completed(conn, 120)
        for worker in started:
            assert worker.stop() == 0
        # A session reports its statistics to the server at its end at the latest.
        others = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        await until(conn, f"NOT EXISTS ({others})")
        calls = await conn.fetchval("SELECT calls FROM pg_stat_user_functions WHERE funcname = 'horsies_claim_capped'")
        await conn.close()
    return float(calls) / tasks


@pytest.mark.chaos  # two seconds of processor time, and a minute
@pytest.mark.parametrize(("workers", "tasks"), [(4, 120), (20, 3_000)])
async def test_many_workers_at_a_cap_ask_hardly_more_often_than_one(
    server: DatabaseServer, start: Callable[..., Worker], workers: int, tasks: int
) -> None:
    alone = await claims_per_task(server, start, 1, tasks)
    crowd = await claims_per_task(server, start, workers, tasks)
    print(f"claims per task: one worker {alone:.2f}, {workers} workers {crowd:.2f}")
    assert crowd < 1.5 * alone


DEAF = """
SET allow_system_table_mods = on;
ALTER FUNCTION pg_catalog.pg_notify(text, text) RENAME TO pg_notify_of_postgresql;
CREATE FUNCTION pg_catalog.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT';
"""


async def test_a_queue_at_its_limit_goes_on_with_its_next_task_and_not_at_the_next_poll(
    table: Table, start: Callable[..., Worker]
) -> None:
    ids = [
        await table.send("add", number, 1, queue_name="narrow") for number in range(8)
    ]  # seven polls take longer than the patience
    await table.connection.execute(DEAF)
    worker = start("--processes", "2", TEST_QUEUES="narrow:1:1")
    worker.wait_for("finished", id=ids[0])
    async with asyncio.timeout(PATIENCE_S):
        for task_id in ids[1:]:
            await asyncio.to_thread(worker.wait_for, "finished", id=task_id)
