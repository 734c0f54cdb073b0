"""A database of upstream, and one of our version 7: no row is lost, and afterwards they equal a new one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from horsies.store.schema import LEDGER, MIGRATIONS, SchemaKind, create, inspect_schema, require_current, upgrade

UPSTREAM_SHAPE = Path(__file__).with_name("upstream_shape.sql").read_text("utf-8")
VERSION_7_SHAPE = Path(__file__).with_name("version_7_shape.sql").read_text("utf-8")

UPSTREAM_TABLES = (
    "horsies_tasks",
    "horsies_task_attempts",
    "horsies_heartbeats",
    "horsies_worker_states",
    "horsies_schedule_state",
    "horsies_workflows",
    "horsies_workflow_tasks",
)

# What two databases must have in common; the order of columns may differ.
STRUCTURE = {
    "columns": """
        SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, is_identity
          FROM information_schema.columns WHERE table_schema = 'public'
    """,
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
          FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    "triggers": "SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "functions": "SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "sequences": "SELECT sequencename, data_type::text FROM pg_sequences WHERE schemaname = 'public'",
    "storage": "SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'",
}


APPLIED = "SELECT version, name FROM horsies_console_schema ORDER BY version"


async def structure(connection: asyncpg.Connection) -> dict[str, set[str]]:
    return {part: {str(tuple(row)) for row in await connection.fetch(query)} for part, query in STRUCTURE.items()}


async def rows_of(connection: asyncpg.Connection, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    """Every row, with times without a zone read as UTC, as upstream means them."""
    rows = await connection.fetch(f"SELECT {', '.join(columns)} FROM {table}")
    return sorted((tuple(in_utc(value) for value in row) for row in rows), key=repr)


def in_utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


async def columns_of(connection: asyncpg.Connection, table: str) -> list[str]:
    rows = await connection.fetch("SELECT column_name FROM information_schema.columns WHERE table_name = $1", table)
    return [row["column_name"] for row in rows]


async def tables_of(connection: asyncpg.Connection) -> list[str]:
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    return [row["tablename"] for row in rows if row["tablename"] != LEDGER]


@asynccontextmanager
async def made_of(shape: str, url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection, in a session far from UTC, to a database of this shape."""
    connection = await asyncpg.connect(url, server_settings={"timezone": "Australia/Lord_Howe"})
    await connection.execute(shape)
    yield connection
    await connection.close()


@pytest.fixture
async def upstream(empty_database: str) -> AsyncIterator[asyncpg.Connection]:
    """A database as upstream leaves it."""
    async with made_of(UPSTREAM_SHAPE, empty_database) as connection:
        yield connection


@pytest.fixture
async def version_7(empty_database: str) -> AsyncIterator[asyncpg.Connection]:
    async with made_of(VERSION_7_SHAPE, empty_database) as connection:
        yield connection


@pytest.fixture(params=[UPSTREAM_SHAPE, VERSION_7_SHAPE], ids=["upstream", "version 7"])
async def old(request: pytest.FixtureRequest, empty_database: str) -> AsyncIterator[asyncpg.Connection]:
    """Each of the two kinds of database."""
    async with made_of(request.param, empty_database) as connection:
        yield connection


async def test_upstreams_is_recognised(upstream: asyncpg.Connection) -> None:
    state = await inspect_schema(upstream)
    assert state.kind is SchemaKind.UPSTREAM
    assert state.pending == MIGRATIONS
    assert state.detail == (
        "the tables in schema public were made by upstream; `horsies db upgrade` adopts them and keeps every row"
    )
    await upgrade(upstream)
    assert [tuple(row) for row in await upstream.fetch(APPLIED)] == [(16, "schema")]


VERSION_10 = """
DROP INDEX ix_horsies_tasks_finished_by_name;
DROP TABLE horsies_progress, horsies_looks, horsies_schedules, horsies_schedule_runs, horsies_schedulers;
ALTER TABLE horsies_task_attempts DROP COLUMN output;
DROP FUNCTION horsies_claimable(text, text[], integer);
DROP FUNCTION horsies_ready_by_name(text, text[], integer);
CREATE FUNCTION horsies_ready_by_name(queue text, names text[], room integer) RETURNS text[]
    LANGUAGE sql AS $$ SELECT names $$;
CREATE FUNCTION horsies_claimable(queue text, names text[], most integer, following text[],
                                  OUT found_at tid[], OUT large boolean[], OUT after text[])
    LANGUAGE sql AS $$ SELECT NULL::tid[], NULL::boolean[], following $$;
UPDATE horsies_console_schema SET version = 10;
"""

# Whatever version 16 has and version 15 had not is taken away here, and so on.
VERSION_15 = """
ALTER TABLE horsies_task_attempts DROP COLUMN waited_ms;
UPDATE horsies_console_schema SET version = 15;
"""
VERSION_14 = f"""
{VERSION_15}
DROP TABLE horsies_outages, horsies_sweeps, horsies_queue_samples;
DROP FUNCTION horsies_longest_pause(double precision);
CREATE FUNCTION horsies_join_needs(join_type varchar, min_success integer, dependencies integer[]) RETURNS integer
    LANGUAGE sql RETURN min_success;
ALTER TABLE horsies_pulse DROP COLUMN may_pause;
ALTER TABLE horsies_schedulers DROP COLUMN lost_after_s;
ALTER TABLE horsies_worker_states DROP COLUMN app_version, DROP COLUMN container_memory_mb,
    DROP COLUMN container_limit_mb, DROP COLUMN largest_child_mb, DROP COLUMN largest_child_pid,
    DROP COLUMN child_limit_mb;
UPDATE horsies_console_schema SET version = 14;
"""
VERSION_13 = f"""
{VERSION_14}
DROP TABLE horsies_caps;
DROP FUNCTION horsies_lock_new_cap(text), horsies_join_needs(varchar, integer, integer[]);
DROP FUNCTION horsies_sign_operator_action() CASCADE;
ALTER TABLE horsies_operator_actions ALTER COLUMN db_role SET DEFAULT current_user;
ALTER TABLE horsies_task_attempts DROP CONSTRAINT uq_horsies_task_attempts_task_attempt;
CREATE UNIQUE INDEX uq_horsies_task_attempts_task_attempt ON horsies_task_attempts (task_id, attempt);
CREATE OR REPLACE FUNCTION horsies_notify_worker_state() RETURNS trigger AS $$
BEGIN
    PERFORM pg_notify('horsies_worker_state', NEW.worker_id);
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
CREATE OR REPLACE FUNCTION horsies_spare_period(beat_ms double precision) RETURNS interval AS $$
    SELECT (1.25 * beat_ms + LEAST(GREATEST(beat_ms / 2, 1000), 5000)) * interval '1 ms';
$$ LANGUAGE sql IMMUTABLE;
UPDATE horsies_console_schema SET version = 13;
"""
VERSION_12 = f"""
{VERSION_13}
DROP TABLE horsies_duplicate_sends;
DROP INDEX uq_horsies_tasks_key_and_name;
CREATE UNIQUE INDEX uq_horsies_tasks_unique_key ON horsies_tasks (unique_key)
 WHERE unique_key IS NOT NULL AND status IN ('PENDING', 'CLAIMED', 'RUNNING');
UPDATE horsies_console_schema SET version = 12;
"""
VERSION_11 = f"""
{VERSION_12}
DROP INDEX ix_horsies_tasks_finished_by_name;
DROP TABLE horsies_progress;
UPDATE horsies_console_schema SET version = 11;
"""


@pytest.mark.parametrize(
    "older",
    [VERSION_10, VERSION_11, VERSION_12, VERSION_13, VERSION_14, VERSION_15],
    ids=["version 10", "version 11", "version 12", "version 13", "version 14", "version 15"],
)
async def test_an_earlier_version_gets_what_it_lacks_and_keeps_its_rows(empty_database: str, older: str) -> None:
    async with made_of("SELECT", empty_database) as connection:
        await create(connection)
        await connection.execute(older)
        await connection.execute("INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('t', 'shop.pay', 'p')")
        await connection.execute(
            "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
            " VALUES ('t', 1, 'FAILED', now(), now())"
        )
        assert [migration.version for migration in (await inspect_schema(connection)).pending] == [16]
        await upgrade(connection)
        await require_current(connection)
        unknown = "SELECT output IS NULL AND waited_ms IS NULL FROM horsies_task_attempts WHERE task_id = 't'"
        assert await connection.fetchval(unknown)
        found = await connection.fetchval("SELECT cardinality(found_at) FROM horsies_claimable('p', '{shop.pay}', 1)")
        assert found == 1
        assert await connection.fetchval("SELECT to_regclass('ix_horsies_tasks_finished_by_name') IS NOT NULL")


async def test_gaps_of_version_14_become_outages_and_the_time_before_the_first_worker_does_not(
    empty_database: str, connection: asyncpg.Connection
) -> None:
    async with made_of("SELECT", empty_database) as upgraded:
        await create(upgraded)
        await upgraded.execute(VERSION_14)
        await upgraded.execute(
            "INSERT INTO horsies_pulse (beaten_at, gaps) VALUES ('2026-01-01 12:00Z', '{"
            "[2026-01-01 06:00Z, 2026-01-01 09:00Z), [2026-01-01 11:00Z, 2026-01-01 11:02Z)}')"
        )
        await upgrade(upgraded)
        await require_current(upgraded)
        kept = "SELECT (ended_at - began_at)::text, ended_at = '2026-01-01 11:02Z' FROM horsies_outages"
        assert [tuple(row) for row in await upgraded.fetch(kept)] == [("00:02:00", True)]
        assert await structure(upgraded) == await structure(connection)


async def test_version_13_becomes_like_a_new_one_and_keeps_who_did_what_when(
    empty_database: str, connection: asyncpg.Connection
) -> None:
    attempt = (
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        " VALUES ('t', 1, 'FAILED', now(), now())"
        " ON CONFLICT ON CONSTRAINT uq_horsies_task_attempts_task_attempt DO NOTHING RETURNING id"
    )
    async with made_of("SELECT", empty_database) as upgraded:
        await create(upgraded)
        await upgraded.execute(VERSION_13)
        await upgraded.execute("INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('t', 'shop.pay', 'p')")
        await upgraded.execute(
            "INSERT INTO horsies_operator_actions"
            " (acted_at, db_role, operation_id, verb, target_kind, target_id, outcome)"
            " VALUES ('2020-01-01', 'ada', gen_random_uuid(), 'requeue', 'task', 't', 'applied')"
        )
        await upgrade(upgraded)
        await require_current(upgraded)
        action = await upgraded.fetchrow("SELECT acted_at::date::text, db_role FROM horsies_operator_actions")
        assert tuple(action) == ("2020-01-01", "ada")
        assert [await upgraded.fetchval(attempt) for _ in range(2)] == [1, None]
        assert await structure(upgraded) == await structure(connection)


async def test_keys_that_are_live_in_version_12_stay_unique_and_are_free_for_other_names(
    empty_database: str, connection: asyncpg.Connection
) -> None:
    keyed = (
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, unique_key)"
        " VALUES ($1, $2, 'p', $3, 'order 7') ON CONFLICT DO NOTHING RETURNING id"
    )
    async with made_of("SELECT", empty_database) as upgraded:
        await create(upgraded)
        await upgraded.execute(VERSION_12)
        await upgraded.execute(keyed, "ended", "shop.pay", "COMPLETED")
        await upgraded.execute(keyed, "live", "shop.pay", "RUNNING")
        assert await upgraded.fetchval(keyed, "other name before", "shop.ship", "PENDING") is None
        await upgrade(upgraded)
        await require_current(upgraded)
        assert await upgraded.fetchval(keyed, "same name", "shop.pay", "PENDING") is None
        assert await upgraded.fetchval(keyed, "other name", "shop.ship", "PENDING") == "other name"
        assert await structure(upgraded) == await structure(connection)


async def test_version_7_is_recognised_and_stays_in_the_list_of_what_was_applied(
    version_7: asyncpg.Connection,
) -> None:
    state = await inspect_schema(version_7)
    assert (state.kind, state.version, state.pending) == (SchemaKind.OLDER, 7, MIGRATIONS)
    before = await version_7.fetch(APPLIED)
    await upgrade(version_7)
    assert await version_7.fetch(APPLIED) == [*before, (16, "schema")]


async def test_of_version_7_tasks_of_paused_workflows_are_marked_and_no_others(
    version_7: asyncpg.Connection,
) -> None:
    await upgrade(version_7)
    rows = await version_7.fetch("SELECT id FROM horsies_tasks WHERE workflow_paused_at IS NOT NULL")
    assert {row["id"] for row in rows} == {"paused-waits", "paused-waits-until"}
    claimed = await version_7.fetch(
        "SELECT id FROM horsies_tasks, horsies_claimable('default', NULL, 10) WHERE ctid = ANY (found_at)"
    )
    assert {row["id"] for row in claimed} == {"plain-1", "running-waits"}
    await version_7.execute("UPDATE horsies_workflows SET status = 'RUNNING' WHERE id = 'wf-paused'")
    rows = await version_7.fetch("SELECT id FROM horsies_tasks WHERE workflow_paused_at IS NOT NULL")
    assert rows == []


async def test_a_workflow_that_is_paused_while_version_7_is_upgraded_is_marked(
    empty_database: str, version_7: asyncpg.Connection
) -> None:
    """By a session that began before the triggers existed, and so marks nothing itself."""
    pausing = await asyncpg.connect(empty_database)
    transaction = pausing.transaction()
    await transaction.start()
    await pausing.execute("UPDATE horsies_workflows SET status = 'PAUSED' WHERE id = 'wf-running'")
    upgrading = asyncio.create_task(upgrade(version_7))
    waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)"
    async with asyncio.timeout(20):
        while not await pausing.fetchval(waits, version_7.get_server_pid()):
            assert not upgrading.done()
    await transaction.commit()
    await upgrading
    rows = await version_7.fetch("SELECT id FROM horsies_tasks WHERE workflow_paused_at IS NOT NULL")
    assert {row["id"] for row in rows} == {"paused-waits", "paused-waits-until", "running-waits"}
    await pausing.close()


async def test_every_row_keeps_every_value(old: asyncpg.Connection) -> None:
    columns = {table: await columns_of(old, table) for table in await tables_of(old)}
    before = {table: await rows_of(old, table, columns[table]) for table in columns}
    await upgrade(old)
    after = {table: await rows_of(old, table, columns[table]) for table in columns}
    assert after == before
    assert all(before.values())


async def test_afterwards_it_is_like_a_new_one(old: asyncpg.Connection, connection: asyncpg.Connection) -> None:
    assert await upgrade(old) == list(MIGRATIONS)
    assert (await inspect_schema(old)).kind is SchemaKind.CURRENT
    adopted, fresh = await structure(old), await structure(connection)
    for part in STRUCTURE:
        assert adopted[part] == fresh[part], part
        assert fresh[part], part


async def test_a_migration_may_run_again_on_its_own_result_and_changes_no_row(old: asyncpg.Connection) -> None:
    await upgrade(old)
    await old.execute("TRUNCATE horsies_console_schema")
    written = [f"SELECT xmin, ctid, * FROM {table}" for table in await tables_of(old)]
    before = await structure(old), [await old.fetch(rows) for rows in written]
    assert await upgrade(old) == list(MIGRATIONS)
    await old.execute("TRUNCATE horsies_console_schema")
    assert (await structure(old), [await old.fetch(rows) for rows in written]) == before


async def test_with_the_unique_constraint_of_a_migrated_upstream_it_has_the_same_indexes(
    upstream: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    name = "uq_horsies_task_attempts_task_attempt"
    await upstream.execute(f"ALTER TABLE horsies_task_attempts ADD CONSTRAINT {name} UNIQUE USING INDEX {name}")
    await upgrade(upstream)
    assert (await structure(upstream))["indexes"] == (await structure(connection))["indexes"]


async def test_a_list_of_versions_that_upstream_keeps_stays_upstreams(upstream: asyncpg.Connection) -> None:
    await upstream.execute(
        "CREATE TABLE horsies_schema_version (version integer PRIMARY KEY, applied_at timestamptz DEFAULT now());"
        "INSERT INTO horsies_schema_version VALUES (31)"
    )
    before = await upstream.fetch("SELECT * FROM horsies_schema_version")
    assert (await inspect_schema(upstream)).kind is SchemaKind.UPSTREAM
    assert await upgrade(upstream) == list(MIGRATIONS)
    assert (await inspect_schema(upstream)).kind is SchemaKind.CURRENT
    assert await upstream.fetch("SELECT * FROM horsies_schema_version") == before


async def test_tasks_of_workflows_are_marked_and_plain_ones_are_not(upstream: asyncpg.Connection) -> None:
    await upgrade(upstream)
    rows = await upstream.fetch("SELECT id FROM horsies_tasks WHERE is_workflow_task")
    assert {row["id"] for row in rows} == {"node-task-1", "node-task-2", "node-task-3"}


async def test_a_time_without_a_zone_was_utc_and_ids_go_on_beyond_four_bytes(upstream: asyncpg.Connection) -> None:
    await upgrade(upstream)
    beats = await upstream.fetch("SELECT sent_at FROM horsies_heartbeats ORDER BY id")
    assert [row["sent_at"] for row in beats] == [datetime(2026, month, 31, 8, tzinfo=UTC) for month in (1, 7)]
    await upstream.execute("SELECT setval('horsies_heartbeats_id_seq', 2147483647)")
    beat = "INSERT INTO horsies_heartbeats (task_id, sender_id, role) VALUES ('t', 'w', 'runner') RETURNING id"
    assert await upstream.fetchval(beat) == 2147483648


async def test_what_upstream_inserts_is_still_accepted(upstream: asyncpg.Connection) -> None:
    await upgrade(upstream)
    # The rows of the fixture again, with other keys: it names upstream's columns only.
    inserts = UPSTREAM_SHAPE[UPSTREAM_SHAPE.index("INSERT INTO horsies_tasks") :]
    for key in ("plain-", "node-task-", "'wf-", "'n-", "nightly", "hourly"):
        inserts = inserts.replace(key, f"{key}again-")
    counts = [await upstream.fetchval(f"SELECT count(*) FROM {table}") for table in UPSTREAM_TABLES]
    await upstream.execute(inserts)
    doubled = [await upstream.fetchval(f"SELECT count(*) FROM {table}") for table in UPSTREAM_TABLES]
    assert doubled == [2 * count for count in counts]


async def test_an_index_of_the_operator_stays(upstream: asyncpg.Connection) -> None:
    await upstream.execute("CREATE INDEX mine ON horsies_tasks (task_name, sent_at)")
    await upgrade(upstream)
    assert await upstream.fetchval("SELECT count(*) FROM pg_indexes WHERE indexname = 'mine'") == 1


async def test_tables_that_an_older_upstream_did_not_have_are_made(upstream: asyncpg.Connection) -> None:
    await upstream.execute("DROP TABLE horsies_task_attempts")
    await upgrade(upstream)
    assert (await inspect_schema(upstream)).kind is SchemaKind.CURRENT
