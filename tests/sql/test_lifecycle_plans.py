"""Each statement of the lifecycle reads only its rows, with 100,000 finished tasks and with any statistics."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from database_server import DatabaseServer, uuid7
from lifecycle_steps import HOT_PATH, LEASE_MS, ME, MODES, claim_some, ended, enqueue, start_tokens
from plan_steps import nodes
from statements import statement

from horsies.lifecycle.claim_token import beat, renew
from horsies.lifecycle.claiming import claim_capped, large_arguments, next_due, release, release_expired
from horsies.lifecycle.finishing import OutcomeKind, finish, finish_and_claim_statement, mark_finalizing

FINISHED = 100_000
FEWER = 40_000
"""Finished tasks where a test fills a database of its own."""
BATCH = 20

FILL_FINISHED = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, enqueued_at, started_at,
                           completed_at)
SELECT {id}, 'demo.old', 'default', 'COMPLETED', 'worker-a', at, at, at, at + interval '1 s'
  FROM generate_series(1, {rows}) n CROSS JOIN LATERAL (SELECT now() - n * interval '1 s' AS at) time;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)
SELECT id, 1, 'COMPLETED', started_at, completed_at FROM horsies_tasks WHERE task_name = 'demo.old';
"""

FILL_LIVE = f"""
INSERT INTO horsies_tasks (id, task_name, queue_name, priority, enqueued_at, max_retries)
SELECT {uuid7()}, 'demo.add', 'default', 1 + n % 3, now() + n % 2 * interval '1 h', 3
  FROM generate_series(1, 4000) n;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, claimed, started_at,
                           claim_expires_at)
SELECT {uuid7()}, 'demo.add', 'default', status, 'worker-' || n % 9, now(), status = 'CLAIMED', now(),
       now() + interval '1 h'
  FROM generate_series(1, 400) n CROSS JOIN LATERAL (SELECT (ARRAY['CLAIMED', 'RUNNING'])[1 + n % 2] AS status) row;
"""


def finished(rows: int) -> str:
    return FILL_FINISHED.format(id=uuid7(), rows=rows)


def array(value: str) -> str:
    return f"array_fill({value}, ARRAY[{BATCH}])"


IDS = "ARRAY['" + "', '".join(f"id-{n}" for n in range(BATCH)) + "']"
TEXTS, OUTCOMES = array("'x'::text"), array("'COMPLETED'::text")
TOKENS = f"'worker-a', {IDS}, {array('now()')}"

WISH = "'default', 8, 1000, NULL, '{11,12}', 'host'"
ENDS = f"{IDS}, {array('now()')}, {OUTCOMES}, {', '.join([TEXTS] * 5)}"
FOUND = """'{"(0,1)","(0,2)"}'"""

# what it reads and changes: (its arguments, the indexes of its plan)
STATEMENTS = {
    "claim": (f"'worker-a', {WISH}, NULL", {"ix_horsies_tasks_ready"}),
    # The first rows of the queue are read only to see whether a search is needed.
    "claim following_rows": (f"'worker-a', {WISH}, {FOUND}", {"ix_horsies_tasks_ready"}),
    "finish_and_claim": (
        f"'worker-a', {WISH}, NULL, {ENDS}",
        {"ix_horsies_tasks_ready", "horsies_tasks_pkey", "uq_horsies_task_attempts_task_attempt"},
    ),
    "finish_and_claim following_rows": (
        f"'worker-a', {WISH}, {FOUND}, {ENDS}",
        {"horsies_tasks_pkey", "uq_horsies_task_attempts_task_attempt"},
    ),
    "release_expired": ("ARRAY['default', 'other']", {"ix_horsies_tasks_in_flight", "horsies_tasks_pkey"}),
    "large_arguments": ("'id-1', 'worker-a', now()", {"horsies_tasks_pkey"}),
    "release": (TOKENS, {"horsies_tasks_pkey"}),
    "take_back": (TOKENS, {"ix_horsies_tasks_in_flight", "horsies_tasks_pkey"}),
    "unaccounted": (TOKENS, {"ix_horsies_tasks_in_flight"}),
    "store_progress": (
        f"{TOKENS}, {array('false')}, {array('1.0')}, {array('2.0')}, {TEXTS}, {array('3.0')}, {array('4.0')}",
        {"horsies_tasks_pkey", "uq_horsies_task_attempts_task_attempt"},
    ),
    "start": (f"{TOKENS}, {array('1')}, {TEXTS}, {TEXTS}", {"horsies_tasks_pkey"}),
    "start_capped": (
        f"{TOKENS}, {array('1')}, {TEXTS}, {TEXTS}, {TEXTS}, '{{default}}', '{{5}}'",
        {"horsies_tasks_pkey"},
    ),
    "expire_claimed": (f"{TOKENS}, {TEXTS}", {"horsies_tasks_pkey"}),
    "finish": (
        f"{TOKENS}, {OUTCOMES}, {', '.join([TEXTS] * 5)}",
        {"horsies_tasks_pkey", "uq_horsies_task_attempts_task_attempt"},
    ),
    "retry": (
        f"{TOKENS}, {array('1.0::float8')}, {', '.join([TEXTS] * 5)}",
        {"horsies_tasks_pkey", "uq_horsies_task_attempts_task_attempt"},
    ),
    "unstart": (TOKENS, {"horsies_tasks_pkey"}),
    "stored_earlier": (
        f"{TOKENS}, {OUTCOMES}, {array('true')}, {TEXTS}, {TEXTS}",
        {"horsies_tasks_pkey", "uq_horsies_task_attempts_task_attempt"},
    ),
    "mark_finalizing": (TOKENS, {"horsies_tasks_pkey"}),
    "locked_rows": (TOKENS, {"horsies_tasks_pkey"}),
    "in_flight_of_worker": ("'worker-a'", {"ix_horsies_tasks_in_flight"}),
    "renew": ("'worker-a', 1000, 1000, 'host', 1", {"ix_horsies_tasks_claimed_by", "horsies_tasks_pkey"}),
    "beat": (f"{TOKENS}, {array('1')}, 'host'", {"horsies_tasks_pkey"}),
    "next_due": ("ARRAY['default', 'other']", {"ix_horsies_tasks_ready", "ix_horsies_tasks_retrying"}),
}


async def fill(connection: asyncpg.Connection, *parts: str) -> None:
    """No session listens to 40,000 notifications."""
    await connection.execute("SET session_replication_role = replica")
    for part in parts:
        await connection.execute(part)
    await connection.execute("SET session_replication_role = origin")


@pytest.fixture(scope="module")
def full_database(server: DatabaseServer) -> Iterator[str]:
    """A database with 100,000 finished, 4,000 waiting and 400 claimed or running tasks."""
    with server.filled_database(f"SET session_replication_role = replica; {finished(FINISHED)} {FILL_LIVE}") as url:
        yield url


@pytest.fixture(params=MODES)
async def busy(request: pytest.FixtureRequest, full_database: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the full database; its changes are rolled back."""
    connection = await asyncpg.connect(full_database, server_settings=MODES[request.param])
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


def text_of(name: str) -> str:
    """The statement; a claim with the rows that it is given, or with the first ones of the queue."""
    name, *rows = name.split()
    if name == "finish_and_claim":
        return finish_and_claim_statement(follows=bool(rows), searches=False)
    return statement(name, rows=statement(*rows or ["first_rows"]))


@pytest.mark.parametrize("name", STATEMENTS)
async def test_the_statement_uses_its_indexes_however_it_is_planned(busy: asyncpg.Connection, name: str) -> None:
    arguments, indexes = STATEMENTS[name]
    await busy.execute(f"PREPARE hot AS {text_of(name)}")
    for _ in range(6):
        await busy.execute(f"EXECUTE hot({arguments})")
    assert await indexes_read(busy, arguments) == indexes


async def indexes_read(conn: asyncpg.Connection, arguments: str) -> set[str]:
    """The indexes in the plan of the prepared statement, and each table with a sequential scan."""
    plan = json.loads(await conn.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE hot({arguments})"))
    steps = list(nodes(plan[0]["Plan"]))
    read = {step["Index Name"] for step in steps if "Index Name" in step}
    read |= {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"}
    return read - {"horsies_queue_state", "horsies_queue_state_pkey"}


@pytest.mark.parametrize("mode", ["worker", "generic"])
async def test_statistics_of_a_quiet_hour_do_not_lead_through_all_that_is_in_flight(
    database: str, connection: asyncpg.Connection, mode: str
) -> None:
    await fill(connection, finished(FEWER))
    await connection.execute("VACUUM ANALYZE")
    worker = await asyncpg.connect(database, server_settings=MODES[mode])
    for name, (arguments, indexes) in STATEMENTS.items():
        await worker.execute(f"PREPARE hot AS {text_of(name)}")
        assert await indexes_read(worker, arguments) == indexes, name
        await worker.execute("DEALLOCATE hot")
    await worker.close()


async def cycle(conn: asyncpg.Connection) -> None:
    """Every statement once, on a batch."""
    tokens = [task.token for task in await claim_some(conn, limit=BATCH)]
    limits = {"worker_id": ME, "lease_ms": LEASE_MS, "task_names": ["demo.add", "demo.sum"]}
    under_cap = await claim_capped(
        conn, queues=[("default", 10_000), ("other", 5)], budget=BATCH, cluster_cap=10_000, hard=True, **limits
    )
    tokens += [task.token for task in under_cap.tasks]
    await release_expired(conn, ["default", "other"])
    await renew(conn, ME, LEASE_MS, LEASE_MS, hostname="host", pid=1)
    released = await release(conn, ME, tokens[:4])
    started = sorted((await start_tokens(conn, tokens)).started, key=lambda token: token.task_id)
    assert len(started) == len(tokens) - len(released)
    for token in started[:2]:
        await large_arguments(conn, token)
    await beat(conn, ME, "host", [(token, 1) for token in started])
    await mark_finalizing(conn, ME, started)
    kinds = list(OutcomeKind)
    await finish(conn, ME, [ended(token, kinds[n % len(kinds)]) for n, token in enumerate(started)])
    await next_due(conn, ["default", "other"])


READ = """
SELECT (SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('horsies_tasks', 'horsies_task_attempts'))
           ::integer,
       (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)::integer
       + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::integer
"""


async def read_by(conn: asyncpg.Connection, rounds: int) -> tuple[int, float]:
    """Sequential scans, and entries of tables and indexes read per round, over this many rounds of all statements."""
    await conn.execute("SELECT pg_stat_force_next_flush()")
    before = await conn.fetchrow(READ)
    for _ in range(rounds):
        await cycle(conn)
    await conn.execute("SELECT pg_stat_force_next_flush()")
    after = await conn.fetchrow(READ)
    return after[0] - before[0], (after[1] - before[1]) / rounds


# Rows left by the rounds are read again while other tests fill their databases on the same server.
@pytest.mark.alone(on_one_server=True)
@pytest.mark.parametrize("mode", MODES)
async def test_a_round_of_everything_reads_little_more_than_its_batch(full_database: str, mode: str) -> None:
    connection = await asyncpg.connect(full_database, server_settings=MODES[mode])
    scans, entries = await read_by(connection, 7)
    assert scans == 0
    assert entries < 5_000  # 400 in flight are counted twice under caps; a whole index has 40 000
    await connection.close()


@pytest.mark.parametrize("analyzed", ["VACUUM ANALYZE", "SELECT 1"], ids=["vacuumed", "new"])
async def test_plans_of_an_empty_table_still_serve_when_it_has_filled(
    database: str, connection: asyncpg.Connection, analyzed: str
) -> None:
    await connection.execute("ALTER TABLE horsies_tasks SET (autovacuum_enabled = false)")
    await connection.execute("ALTER TABLE horsies_task_attempts SET (autovacuum_enabled = false)")
    await connection.execute(analyzed)
    worker = await asyncpg.connect(database, server_settings=HOT_PATH)
    await enqueue(worker, *(f"{n:02}" for n in range(2 * BATCH)), max_retries="3")
    await cycle(worker)
    await fill(connection, finished(FEWER), FILL_LIVE)
    scans, entries = await read_by(worker, 3)
    assert scans == 0
    assert entries < 5_000
    await worker.close()
