"""A claim takes the first tasks that may run, and reads little more, whatever precedes them in the queue."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import product

import asyncpg
import pytest
from lifecycle_steps import (
    HOT_PATH,
    LEASE_MS,
    ME,
    OTHER,
    capped,
    claim_some as claim_any,
    enqueue,
    statuses,
    task,
    waits_for_a_lock,
)

from horsies.lifecycle.claiming import LARGEST_CLAIM, ClaimedTask, ClaimRequest, claim, release_expired

BACKLOG = 12_000
KNOWN = ["demo.add", "demo.sum"]

# The tasks that precede those that can run, as columns of horsies_tasks.
HINDRANCES = {
    "unknown names": {"task_name": "'unknown.' || n % 7"},
    "unknown names of many priorities": {"task_name": "'unknown'", "priority": "n % 90"},
    "known, of the other kind": {"task_name": "'demo.wait'"},
    "delayed sends": {"task_name": "'demo.add'", "enqueued_at": "now() + interval '1 h'"},
    "retries due later": {"task_name": "'demo.add'", "next_retry_at": "now() + interval '1 h'"},
    "past good_until": {"task_name": "'demo.add'", "good_until": "now() - interval '1 s'"},
    "expired leases": {
        "status": "'CLAIMED'",
        "claimed": "true",
        "claimed_by_worker_id": "'dead'",
        "claimed_at": "now() - interval '1 h'",
        "claim_expires_at": "now() - interval '1 s'",
    },
    "tasks of paused workflows": {"is_workflow_task": "true"},
}

PAUSE = """
INSERT INTO horsies_workflows (id, name, status) SELECT 'w-' || n, 'flow', 'RUNNING' FROM generate_series(0, 99) n;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)
SELECT 'n-' || id, 'w-' || right(id, 2)::integer, substr(id, 2)::integer, task_name, 'ENQUEUED', id
  FROM horsies_tasks WHERE is_workflow_task;
UPDATE horsies_workflows SET status = 'PAUSED';
"""


async def backlog(conn: asyncpg.Connection, hindrance: str, rows: int = BACKLOG, *, analyze: bool = True) -> None:
    """This many at the head of the queue, by age as well as by priority; no session listens to their notifications."""
    columns = {
        "id": "'b' || lpad(n::text, 7, '0')",
        "task_name": "'demo.add'",
        "queue_name": "'default'",
        "priority": "1",
        "enqueued_at": "now() - interval '1 h'",
        **HINDRANCES[hindrance],
    }
    async with conn.transaction():
        await conn.execute("SET LOCAL session_replication_role = replica")
        await conn.execute(
            f"INSERT INTO horsies_tasks ({', '.join(columns)}) SELECT {', '.join(columns.values())}"
            f" FROM generate_series(1, {rows}) n"
        )
    if "is_workflow_task" in columns:
        await conn.execute(PAUSE)
    await conn.execute(f"VACUUM {'ANALYZE' * analyze} horsies_tasks, horsies_workflow_tasks, horsies_workflows")


async def claim_known(conn: asyncpg.Connection, limit: int, worker: str = ME) -> list[ClaimedTask]:
    return await claim(conn, worker, ClaimRequest("default", limit, LEASE_MS, KNOWN))


async def claim_known_capped(conn: asyncpg.Connection, limit: int) -> list[ClaimedTask]:
    # More than have expired: these keep their places until they are released.
    return await capped(conn, [("default", 24_000)], budget=limit, names=KNOWN)


READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)::integer
       + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::integer
"""


async def entries_read(conn: asyncpg.Connection) -> int:
    """Entries read by all finished transactions, of tables and indexes."""
    await conn.execute("SELECT pg_stat_force_next_flush()")
    return int(await conn.fetchval(READ))


@pytest.fixture(params=[HOT_PATH, {}], ids=["worker", "not set up"])
async def worker(request: pytest.FixtureRequest, database: str) -> AsyncIterator[asyncpg.Connection]:
    """With a worker's settings, and without, as behind a pooler, where no setting outlives a transaction."""
    connected = await asyncpg.connect(database, server_settings=request.param)
    yield connected
    await connected.close()


BOTH = ("unknown names", "expired leases")
"""These are tried by default with either statistics: one of another name, one of another state."""
BACKLOGS = [
    pytest.param(
        name,
        quiet,
        id=f"{'statistics of a quiet hour' if quiet else 'statistics'}-{name}",
        marks=pytest.mark.chaos if quiet and name not in BOTH else (),
    )
    for quiet in (False, True)
    for name in HINDRANCES
]


@pytest.mark.parametrize(("hindrance", "quiet"), BACKLOGS)
async def test_what_cannot_run_is_not_read(
    connection: asyncpg.Connection, database: str, hindrance: str, quiet: bool
) -> None:
    """`quiet`: the planner's statistics say that no task waits.

    All kinds of claims use the same backlog: creating it takes longer than the claims.
    """
    if quiet:
        await connection.execute("ALTER TABLE horsies_tasks SET (autovacuum_enabled = false)")
        await connection.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at)"
            " SELECT 'old' || n, 'old', 'default', 'COMPLETED', now() FROM generate_series(1, 5000) n"
        )
        await connection.execute("VACUUM ANALYZE horsies_tasks")
    await backlog(connection, hindrance, analyze=not quiet)
    read = {}
    for settings, make in product((HOT_PATH, {}), (claim_known, claim_known_capped)):
        worker = await asyncpg.connect(database, server_settings=settings)
        way = make.__name__, "worker" if settings else "not set up"
        read[way] = await entries_read_by_a_claim(connection, worker, make)
        await worker.close()
        await connection.execute("DELETE FROM horsies_tasks WHERE id LIKE 'mine-%'")
        await connection.execute("VACUUM horsies_tasks")
    # A capped claim also reads the tasks that its cap counts: here the expired leases.
    counted = 20_000 if hindrance == "expired leases" else 0
    most = {way: 400 + (counted if way[0] == "claim_known_capped" else 0) for way in read}
    assert {way: entries for way, entries in read.items() if entries >= most[way]} == {}


async def entries_read_by_a_claim(
    connection: asyncpg.Connection,
    worker: asyncpg.Connection,
    make: Callable[[asyncpg.Connection, int], Awaitable[list[ClaimedTask]]],
) -> float:
    mine = [f"mine-{n:02}" for n in range(60)]
    await enqueue(connection, *mine, task_name="'demo.' || CASE WHEN number % 2 = 0 THEN 'add' ELSE 'sum' END")
    for first in range(0, 12, 2):  # the first five plans are made for their parameters
        assert [one.token.task_id for one in await make(worker, 2)] == mine[first : first + 2]
    before = await entries_read(worker)
    for first in range(12, 52, 2):
        assert [one.token.task_id for one in await make(worker, 2)] == mine[first : first + 2]
    return (await entries_read(worker) - before) / 20


async def test_leases_that_have_run_out_go_back_in_portions_and_are_claimed_in_the_order_of_the_queue(
    connection: asyncpg.Connection, worker: asyncpg.Connection
) -> None:
    await backlog(connection, "expired leases", 1_200)
    await enqueue(connection, "urgent", priority="0")
    before = await entries_read(worker)
    assert [await release_expired(worker, ["default", "other"]) for _ in range(4)] == [500, 500, 200, 0]
    assert await entries_read(worker) - before < 20_000
    claimed = await claim_known(worker, 3)
    assert [one.token.task_id for one in claimed] == ["urgent", "b0000001", "b0000002"]


async def test_a_lease_that_runs_and_a_row_that_is_locked_are_not_given_back(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await backlog(connection, "expired leases", 2)
    await connection.execute("UPDATE horsies_tasks SET claim_expires_at = now() + interval '1 h' WHERE id = 'b0000001'")
    async with other.transaction():
        await other.execute("SELECT FROM horsies_tasks WHERE id = 'b0000002' FOR UPDATE")
        assert await release_expired(connection, ["default"]) == 0
    assert await release_expired(connection, ["elsewhere"]) == 0
    assert await release_expired(connection, ["default"]) == 1
    assert await statuses(connection) == {"b0000001": "CLAIMED", "b0000002": "PENDING"}


@pytest.mark.parametrize("hindrance", ["unknown names", "past good_until"])
async def test_workers_that_claim_at_once_pass_by_what_the_others_have_locked(
    connection: asyncpg.Connection, database: str, hindrance: str
) -> None:
    await backlog(connection, hindrance, 2_000)
    good_until = "now() + interval '1 h'" if hindrance == "past good_until" else "NULL"
    mine = [f"mine-{n:03}" for n in range(100)]
    await enqueue(connection, *mine, good_until=good_until)
    first, second = await asyncpg.connect(database), await asyncpg.connect(database)
    async with first.transaction():
        assert [one.token.task_id for one in await claim_known(first, 70, OTHER)] == mine[:70]
        async with asyncio.timeout(30):
            assert [one.token.task_id for one in await claim_known(second, 40)] == mine[70:]
    await first.close()
    await second.close()


@pytest.mark.parametrize(("dead", "alive"), [(5_000, 10), (100, 5_000), (3_000, 3_000)])
async def test_among_deadlines_the_first_that_is_not_past_is_found_from_either_end(
    connection: asyncpg.Connection, worker: asyncpg.Connection, dead: int, alive: int
) -> None:
    await backlog(connection, "past good_until", dead)
    await enqueue(connection, *(f"alive-{n:04}" for n in range(alive)), good_until="now() + number * interval '1 h'")
    await connection.execute("VACUUM ANALYZE horsies_tasks")
    before = await entries_read(worker)
    taken = [one.token.task_id for one in await claim_known(worker, 3)]
    assert taken == ["alive-0000", "alive-0001", "alive-0002"]
    assert await entries_read(worker) - before < 400 + 40 * min(dead, alive)


MAY_RUN = """
SELECT id FROM horsies_tasks task
 WHERE status = 'PENDING' AND queue_name = 'default' AND task_name = ANY ($1) AND enqueued_at <= now()
   AND (next_retry_at IS NULL OR next_retry_at <= now()) AND (good_until IS NULL OR good_until > now())
   AND NOT EXISTS (SELECT FROM horsies_workflow_tasks node
                     JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                    WHERE node.task_id = task.id AND workflow.status = 'PAUSED')
 ORDER BY priority, enqueued_at, id
"""


async def random_queue(conn: asyncpg.Connection, rng: random.Random, rows: int) -> None:
    """Tasks of every kind, in shares that differ from queue to queue."""
    names = [*KNOWN, "unknown", "other.unknown"]
    weights = [rng.random() ** 3 for _ in names]
    late, dated, flows, retried = (rng.random() ** 2 for _ in range(4))
    for number in range(rows):
        enqueued = rng.randint(1, 50) if rng.random() < late else -rng.randint(1, 50)
        deadline = rng.choice([-5, 60]) if rng.random() < dated else None
        retry = enqueued if rng.random() < retried else None
        flow = rng.randrange(3) if rng.random() < flows else None
        task_id = f"t{rng.randrange(10**9):09}"
        await conn.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, priority, enqueued_at, good_until, next_retry_at,"
            " is_workflow_task) VALUES ($1, $2, 'default', $3, now() + $4 * interval '1 min',"
            " now() + $5 * interval '1 min', now() + $6 * interval '1 min', $7)",
            task_id,
            rng.choices(names, weights)[0],
            rng.choice([1, 1, 50, 100]),
            enqueued,
            deadline,
            retry,
            flow is not None,
        )
        if flow is not None:
            await conn.execute(
                "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)"
                " VALUES ($1, $2, $3, 'demo.add', 'ENQUEUED', $4)",
                f"n{number}",
                f"w{flow}",
                number,
                task_id,
            )


@pytest.mark.parametrize("seed", range(12))
async def test_any_queue_is_claimed_in_its_order(connection: asyncpg.Connection, seed: int) -> None:
    """Compared with the rule as one plain query. One of two paused workflows has no marks on its tasks."""
    rng = random.Random(seed)
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status) VALUES ('w0', 'flow', 'RUNNING'), ('w1', 'flow', 'RUNNING'),"
        " ('w2', 'flow', 'PAUSED')"
    )
    await random_queue(connection, rng, 250)
    await connection.execute("UPDATE horsies_workflows SET status = 'PAUSED' WHERE id = 'w0'")
    expected = [row["id"] for row in await connection.fetch(MAY_RUN, KNOWN)]
    claimed: list[str] = []
    while len(claimed) < len(expected):
        limit = rng.choice([1, 1, 2, 7, LARGEST_CLAIM])
        one_claim = [one.token.task_id for one in await claim_known(connection, limit)]
        assert one_claim == expected[len(claimed) : len(claimed) + limit]
        claimed += one_claim
    assert await claim_known(connection, 3) == []


async def paused_task(conn: asyncpg.Connection) -> None:
    await conn.execute("INSERT INTO horsies_workflows (id, name, status) VALUES ('w', 'flow', 'RUNNING')")
    await enqueue(conn, "t", is_workflow_task="true")
    await conn.execute(
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)"
        " VALUES ('n', 'w', 0, 'demo.add', 'ENQUEUED', 't')"
    )
    await conn.execute("UPDATE horsies_workflows SET status = 'PAUSED'")
    assert (await task(conn, "t"))["workflow_paused_at"] is not None
    assert await claim_any(conn) == []


@pytest.mark.parametrize(
    "end",
    [
        "UPDATE horsies_workflows SET status = 'RUNNING'",
        "UPDATE horsies_workflows SET status = 'CANCELLED'",
        "DELETE FROM horsies_workflows",
    ],
)
async def test_a_pause_marks_the_tasks_that_wait_and_its_end_takes_the_mark_away(
    connection: asyncpg.Connection, end: str
) -> None:
    await paused_task(connection)
    await connection.execute(end)
    assert (await task(connection, "t"))["workflow_paused_at"] is None
    assert [one.token.task_id for one in await claim_any(connection)] == ["t"]


async def test_a_task_that_left_the_queue_during_the_pause_bears_no_mark_after_it(
    connection: asyncpg.Connection,
) -> None:
    await paused_task(connection)
    await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED'")
    await connection.execute("UPDATE horsies_workflows SET status = 'RUNNING'")
    assert (await task(connection, "t"))["workflow_paused_at"] is None


async def test_a_task_that_comes_back_during_the_pause_gets_the_mark(connection: asyncpg.Connection) -> None:
    await paused_task(connection)
    await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED', workflow_paused_at = NULL")
    await connection.execute("UPDATE horsies_tasks SET status = 'PENDING'")
    assert (await task(connection, "t"))["workflow_paused_at"] is not None
    await connection.execute("UPDATE horsies_workflows SET status = 'RUNNING'")
    await connection.execute("UPDATE horsies_tasks SET status = 'RUNNING'")
    await connection.execute("UPDATE horsies_tasks SET status = 'PENDING'")
    assert (await task(connection, "t"))["workflow_paused_at"] is None


RESUME = "UPDATE horsies_workflows SET status = 'RUNNING'"
COME_BACK = "UPDATE horsies_tasks SET status = 'PENDING'"


@pytest.mark.parametrize(("first", "second"), [(RESUME, COME_BACK), (COME_BACK, RESUME)], ids=["resume", "return"])
async def test_a_task_that_comes_back_while_its_workflow_is_resumed_is_not_kept(
    connection: asyncpg.Connection, other: asyncpg.Connection, first: str, second: str
) -> None:
    """A resume waits for a task that returns, and removes its mark; a task that returns waits for no resume."""
    await paused_task(connection)
    await connection.execute("UPDATE horsies_tasks SET status = 'RUNNING', workflow_paused_at = NULL")
    async with other.transaction():
        await other.execute(first)
        following = await waits_for_a_lock(other, connection, connection.execute(second))
        assert following.done() is (second == COME_BACK)
    await following
    assert [one.token.task_id for one in await claim_any(connection)] == ["t"]


async def test_a_pause_waits_for_no_task_and_a_task_without_mark_is_not_claimed(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await paused_task(connection)
    await connection.execute("UPDATE horsies_workflows SET status = 'RUNNING'")
    async with other.transaction():
        await other.execute("SELECT FROM horsies_tasks FOR UPDATE")
        async with asyncio.timeout(30):
            await connection.execute("UPDATE horsies_workflows SET status = 'PAUSED'")
    assert (await task(connection, "t"))["workflow_paused_at"] is None
    assert await claim_any(connection) == []


async def test_a_claim_is_never_compiled(connection: asyncpg.Connection) -> None:
    """Plans disabled for a function may still appear, with a cost that triggers compilation.

    Behind a pooler that passes no settings, on a server with JIT, each claim took 2 s for that.
    """
    settings = await connection.fetch(
        "SELECT proname, proconfig FROM pg_proc"
        " WHERE proname LIKE 'horsies%' AND 'enable_seqscan=off' = ANY (proconfig)"
    )
    assert {row["proname"] for row in settings if "jit=off" in row["proconfig"]} == {
        "horsies_mark_paused_tasks",
        "horsies_ready_by_name",
        "horsies_ready_until",
    }
    assert len(settings) == 3
