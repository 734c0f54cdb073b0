"""A database made by upstream is adopted: nothing is lost, and afterwards it is like a new one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from horsies.store.schema import MIGRATIONS, SchemaKind, inspect_schema, upgrade

UPSTREAM_SHAPE = Path(__file__).with_name("upstream_shape.sql").read_text("utf-8")

UPSTREAM_TABLES = (
    "horsies_tasks",
    "horsies_task_attempts",
    "horsies_heartbeats",
    "horsies_worker_states",
    "horsies_schedule_state",
    "horsies_workflows",
    "horsies_workflow_tasks",
)

# What two databases must have in common; the order of columns is free.
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
    "migrations": "SELECT version, name FROM horsies_console_schema",
}


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


@pytest.fixture
async def upstream(empty_database: str):
    """A connection, in a session far from UTC, to a database as upstream leaves it."""
    connection = await asyncpg.connect(empty_database, server_settings={"timezone": "Australia/Lord_Howe"})
    await connection.execute(UPSTREAM_SHAPE)
    yield connection
    await connection.close()


async def test_it_is_recognised(upstream: asyncpg.Connection) -> None:
    state = await inspect_schema(upstream)
    assert state.kind is SchemaKind.UPSTREAM
    assert state.pending == MIGRATIONS
    assert state.detail == (
        "the tables in schema public were made by upstream; `horsies db upgrade` adopts them and keeps every row"
    )


async def test_every_row_keeps_every_value(upstream: asyncpg.Connection) -> None:
    columns = {table: await columns_of(upstream, table) for table in UPSTREAM_TABLES}
    before = {table: await rows_of(upstream, table, columns[table]) for table in UPSTREAM_TABLES}
    await upgrade(upstream)
    after = {table: await rows_of(upstream, table, columns[table]) for table in UPSTREAM_TABLES}
    assert after == before
    assert all(before.values())


async def test_afterwards_it_is_like_a_new_one(upstream: asyncpg.Connection, connection: asyncpg.Connection) -> None:
    assert await upgrade(upstream) == list(MIGRATIONS)
    adopted, fresh = await structure(upstream), await structure(connection)
    for part in STRUCTURE:
        assert adopted[part] == fresh[part], part
        assert fresh[part], part


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


async def test_a_second_upgrade_changes_nothing(upstream: asyncpg.Connection) -> None:
    await upgrade(upstream)
    before = await upstream.fetch("SELECT * FROM horsies_console_schema"), await structure(upstream)
    assert await upgrade(upstream) == []
    assert (await upstream.fetch("SELECT * FROM horsies_console_schema"), await structure(upstream)) == before


async def test_every_migration_may_run_again_on_its_own_result(upstream: asyncpg.Connection) -> None:
    await upgrade(upstream)
    before = await structure(upstream)
    await upstream.execute("TRUNCATE horsies_console_schema")
    assert await upgrade(upstream) == list(MIGRATIONS)
    assert await structure(upstream) == before


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
    # The rows of the fixture once more, with other keys: it names upstream's columns only.
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
