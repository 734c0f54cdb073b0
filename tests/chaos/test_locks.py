"""Other sessions lock our rows and tables: only what the lock blocks is late, and that is reported.

The thresholds are 2 s and 1 s, so that a lock of 3 s is longer than either.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from chaos_scene import Scene, scene, until

QUICK = {"TEST_STALE_MS": "2000", "TEST_BEAT_MS": "1000"}
LOCKED_S = 3.0
TABLES = ("horsies_tasks", "horsies_task_attempts", "horsies_heartbeats", "horsies_worker_states")
WRITTEN = TABLES[:3]
"""The tables without which a run can neither beat nor end."""
MODES = (
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
)
STOPS_WRITES = MODES[MODES.index("SHARE") :]
CAPS = [
    pytest.param({}, None, id="without caps"),
    pytest.param({"TEST_PREFETCH": "8"}, None, id="prefetch", marks=pytest.mark.chaos),
    pytest.param({"TEST_CAP": "3"}, 3, id="cap", marks=pytest.mark.chaos),
    pytest.param({"TEST_CAP": "3", "TEST_PREFETCH": "8"}, 3, id="cap and prefetch", marks=pytest.mark.chaos),
]


@asynccontextmanager
async def locker(url: str, statement: str, *parameters: object) -> AsyncIterator[asyncpg.Connection]:
    """Another session, in a transaction that has executed the statement and ends with the block."""
    session = await asyncpg.connect(url, server_settings={"application_name": "a stranger"})
    try:
        async with session.transaction():
            await session.execute(statement, *parameters)
            yield session
    finally:
        await session.close()


def row_lock(cluster: Scene, label: str) -> tuple[str, str]:
    return "SELECT FROM horsies_tasks WHERE id = $1 FOR UPDATE", cluster.ids[label]


async def are(cluster: Scene, labels: list[str], status: str, patience_s: float = 20.0) -> None:
    """Wait until all of these tasks have the status."""
    ids = [cluster.ids[label] for label in labels]
    others = "SELECT count(*) FROM horsies_tasks WHERE id = ANY ($1) AND status <> $2"
    async with asyncio.timeout(patience_s):
        while await cluster.connection.fetchval(others, ids, status):  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(0.02)


def told(cluster: Scene, worker: subprocess.Popen[str], event: str) -> list[dict[str, object]]:
    return [record for record in cluster.log(worker) if record["event"] == event]


@pytest.mark.parametrize(("environ", "cap"), CAPS)
async def test_one_locked_row_holds_up_no_other(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, environ: dict[str, str], cap: int | None
) -> None:
    async with scene(database, tmp_path, f"one locked row, {request.node.callspec.id}", **QUICK, **environ) as cluster:
        worker = await cluster.worker("--processes", "4")
        first = await cluster.send("work", 3, 0.5)
        await cluster.begun(first)
        async with locker(database, *row_lock(cluster, first[0])) as session:
            others = first[1:] + await cluster.send("work", 20, 0.1)
            locked = asyncio.create_task(asyncio.sleep(LOCKED_S))
            await are(cluster, others, "COMPLETED")
            assert not locked.done()
            await locked
            holder = f"pid {session.get_server_pid()} (a stranger)"
        await cluster.settled(10)
        (record,) = told(cluster, worker, "outcome waits for a lock")
        assert (record["id"], record["locked_by"]) == (cluster.ids[first[0]], holder)
        audit = await cluster.audit(cap=cap)
        assert audit.violations == []


@pytest.mark.chaos
async def test_a_locked_claim_holds_up_no_other(database: str, tmp_path: Path) -> None:
    async with scene(database, tmp_path, "one locked claim", **QUICK, TEST_PREFETCH="8") as cluster:
        worker = await cluster.worker("--processes", "1")
        (first,) = await cluster.send("work", 1, 1.0)
        await cluster.begun([first])
        labels = await cluster.send("work", 6, 0.1)
        await are(cluster, labels, "CLAIMED")
        async with locker(database, *row_lock(cluster, labels[0])):
            await are(cluster, [first, *labels[1:]], "COMPLETED")
            (record,) = told(cluster, worker, "start waits for a lock")
            assert record["id"] == cluster.ids[labels[0]]
        await cluster.settled(10)
        audit = await cluster.audit()
        assert audit.violations == []


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        ("horsies_tasks", "SHARE"),
        *(
            pytest.param(table, mode, marks=pytest.mark.chaos)
            for table in TABLES
            for mode in MODES
            if (table, mode) != ("horsies_tasks", "SHARE")
        ),
    ],
)
async def test_a_locked_table_makes_outcomes_late_and_nothing_else(
    database: str, tmp_path: Path, table: str, mode: str
) -> None:
    """SHARE is what CREATE INDEX takes, ACCESS EXCLUSIVE what VACUUM FULL and most of ALTER TABLE take."""
    async with scene(database, tmp_path, f"{mode} lock on {table}", **QUICK) as cluster:
        worker = await cluster.worker("--processes", "4")
        await cluster.worker("--processes", "1")
        labels = await cluster.send("work", 4, 1.0)
        await cluster.begun(labels)
        async with locker(database, f"LOCK TABLE {table} IN {mode} MODE"):
            await asyncio.sleep(LOCKED_S)
        more = await cluster.send("work", 8, 0.1)
        await are(cluster, labels + more, "COMPLETED", 10)
        await cluster.settled(10)
        began = told(cluster, worker, "cannot write")
        if table in WRITTEN and mode in STOPS_WRITES:
            assert len(began) == 1
        else:  # a sweep reads the thresholds of the other workers
            assert {record["loop"] for record in began} <= {"recovery"}
        await until(lambda: len(told(cluster, worker, "writing again")) == len(began))
        audit = await cluster.audit()
        assert audit.violations == []


async def test_a_stop_stores_what_it_can_and_names_the_rest(database: str, tmp_path: Path) -> None:
    async with scene(database, tmp_path, "SIGTERM while some rows are locked", **QUICK) as cluster:
        worker = await cluster.worker("--processes", "4", "--shutdown-grace", "2")
        labels = await cluster.send("work", 4, 0.5)
        await cluster.begun(labels)
        async with locker(database, *row_lock(cluster, labels[0])):
            worker.send_signal(signal.SIGTERM)
            await are(cluster, labels[1:], "COMPLETED")
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait, 20) == 1
        assert [record["id"] for record in told(cluster, worker, "outcome lost")] == [cluster.ids[labels[0]]]


@pytest.mark.chaos
async def test_a_stop_waits_for_a_lock_as_long_as_it_may(database: str, tmp_path: Path) -> None:
    async with scene(database, tmp_path, "SIGTERM while a row is locked", **QUICK) as cluster:
        worker = await cluster.worker("--processes", "2", "--shutdown-grace", "1")
        labels = await cluster.send("work", 2, 0.5)
        await cluster.begun(labels)
        async with locker(database, *row_lock(cluster, labels[0])):
            worker.send_signal(signal.SIGTERM)
            await asyncio.sleep(3)
            assert worker.poll() is None
        assert await asyncio.to_thread(worker.wait, 10) == 0
        audit = await cluster.audit()
        assert audit.violations == []


@pytest.mark.chaos
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("CREATE INDEX made_by_hand ON horsies_tasks (sent_at)", id="CREATE INDEX"),
        pytest.param("ALTER TABLE horsies_tasks ADD COLUMN made_by_hand text", id="ALTER TABLE"),
        pytest.param(f"LOCK TABLE {', '.join(TABLES)} IN ACCESS SHARE MODE", id="pg_dump"),
        pytest.param("TRUNCATE horsies_heartbeats", id="TRUNCATE of the heartbeats"),
    ],
)
async def test_ddl_in_a_transaction_that_stays_open(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, statement: str
) -> None:
    async with scene(database, tmp_path, f"{request.node.callspec.id} stays open", **QUICK) as cluster:
        await cluster.worker("--processes", "4")
        await cluster.worker("--processes", "4")
        labels = await cluster.send("work", 40, 0.3)
        await cluster.begun(labels[:8])
        async with locker(database, statement):
            await asyncio.sleep(LOCKED_S)
        await are(cluster, labels, "COMPLETED")
        await cluster.settled(10)
        audit = await cluster.audit()
        assert audit.violations == []


@pytest.mark.chaos
async def test_vacuum_full_again_and_again(database: str, tmp_path: Path) -> None:
    async with scene(database, tmp_path, "VACUUM FULL", **QUICK, TEST_CAP="6", TEST_PREFETCH="4") as cluster:
        await cluster.worker("--processes", "4")
        await cluster.worker("--processes", "4")
        labels = await cluster.send("work", 100, 0.1)
        vacuum = await asyncpg.connect(database)
        for _ in range(5):
            for table in TABLES:
                await vacuum.execute(f"VACUUM FULL {table}")
        await vacuum.close()
        await are(cluster, labels, "COMPLETED", 60)
        audit = await cluster.audit(cap=6)
        assert audit.violations == []


@pytest.mark.chaos
async def test_many_sessions_that_lock_what_runs(database: str, tmp_path: Path) -> None:
    """Each locks a few running rows for a moment, as programs do that read tasks with FOR UPDATE."""
    async with scene(database, tmp_path, "many short locks", **QUICK, TEST_CAP="6", TEST_PREFETCH="4") as cluster:
        await cluster.worker("--processes", "4")
        await cluster.worker("--processes", "4")
        labels = await cluster.send("work", 150, 0.1)
        some = "SELECT FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING') ORDER BY random() LIMIT 3 FOR UPDATE"

        async def lock_now_and_then() -> None:
            while True:
                async with locker(database, some + " SKIP LOCKED"):
                    await asyncio.sleep(1.5)

        lockers = [asyncio.create_task(lock_now_and_then()) for _ in range(2)]
        try:
            await are(cluster, labels, "COMPLETED", 120)
        finally:
            for each in lockers:
                each.cancel()
            await asyncio.gather(*lockers, return_exceptions=True)
        audit = await cluster.audit(cap=6)
        assert audit.violations == []
