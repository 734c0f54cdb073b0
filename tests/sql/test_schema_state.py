"""Every state of a database is recognised, and each refusal names the cause and the remedy."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest
from database_server import new_role

from horsies.domain.errors import ErrorCode
from horsies.store.schema import (
    MIGRATIONS,
    Migration,
    SchemaError,
    SchemaKind,
    create,
    inspect_schema,
    require_current,
    state as state_module,
    upgrade,
)
from horsies.store.schema.migrations import LATEST, application, beginning

UPSTREAM_SHAPE = Path(__file__).with_name("upstream_shape.sql").read_text("utf-8")
APPLIED = "SELECT version, name FROM horsies_console_schema ORDER BY version"


@pytest.fixture
async def empty(empty_database: str):
    connection = await asyncpg.connect(empty_database)
    yield connection
    await connection.close()


async def refused_by_all(connection: asyncpg.Connection, kind: SchemaKind, sentence: str) -> None:
    """Neither create nor upgrade touches it, and all commands report the same."""
    state = await inspect_schema(connection)
    assert (state.kind, state.detail) == (kind, sentence)
    for attempt in (create, upgrade, require_current):
        with pytest.raises(SchemaError) as caught:
            await attempt(connection)
        assert f"{caught.value.message}; {caught.value.help_text}" == sentence
        assert caught.value.code is ErrorCode.BROKER_INIT_FAILED


async def test_a_created_one_is_current(connection: asyncpg.Connection) -> None:
    state = await inspect_schema(connection)
    assert (state.kind, state.version, state.pending) == (SchemaKind.CURRENT, LATEST, ())
    assert state.detail == f"schema public has version {LATEST}, which is current"
    await require_current(connection)
    assert [tuple(row) for row in await connection.fetch(APPLIED)] == [(m.version, m.name) for m in MIGRATIONS]


async def test_creating_twice_changes_nothing(connection: asyncpg.Connection) -> None:
    before = await connection.fetch("SELECT * FROM horsies_console_schema")
    assert await create(connection) == []
    assert await upgrade(connection) == []
    assert await connection.fetch("SELECT * FROM horsies_console_schema") == before


async def test_an_empty_one_is_created_and_not_upgraded(empty: asyncpg.Connection) -> None:
    state = await inspect_schema(empty)
    assert (state.kind, state.version, state.pending) == (SchemaKind.EMPTY, 0, MIGRATIONS)
    assert state.detail == "schema public has no horsies tables; `horsies db init` creates them"
    with pytest.raises(SchemaError, match="no horsies tables"):
        await upgrade(empty)
    with pytest.raises(SchemaError, match="no horsies tables"):
        await require_current(empty)
    assert await create(empty) == list(MIGRATIONS)


async def test_an_older_one_is_upgraded_and_not_created(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "DROP TABLE horsies_operator_actions, horsies_queue_state; UPDATE horsies_console_schema SET version = 2"
    )
    state = await inspect_schema(connection)
    assert (state.kind, state.pending) == (SchemaKind.OLDER, MIGRATIONS)
    assert state.detail == f"schema public has version 2, this release needs {LATEST}; `horsies db upgrade` upgrades it"
    with pytest.raises(SchemaError, match="has version 2"):
        await create(connection)
    assert await upgrade(connection) == list(MIGRATIONS)
    await require_current(connection)


async def test_an_older_one_that_lacks_a_column_which_no_migration_makes_is_not_upgraded(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(
        "ALTER TABLE horsies_tasks DROP COLUMN kwargs; UPDATE horsies_console_schema SET version = 7"
    )
    await refused_by_all(connection, SchemaKind.FOREIGN, foreign("public", "horsies_tasks has no column kwargs"))


async def test_a_later_migration_is_applied_alone_and_only_after_the_one_before_it(
    connection: asyncpg.Connection, empty: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Migration(LATEST + 1, "stalls", "CREATE TABLE IF NOT EXISTS horsies_stalls (id integer);")
    with pytest.raises(asyncpg.AssertError, match=f"migration {LATEST + 1} is already applied, or the one before"):
        await empty.execute(beginning("public") + application(later))
    monkeypatch.setattr(state_module, "MIGRATIONS", (*MIGRATIONS, later))
    monkeypatch.setattr(state_module, "LATEST", later.version)
    state = await inspect_schema(connection)
    assert (state.kind, state.pending) == (SchemaKind.OLDER, (later,))
    assert await upgrade(connection) == [later]
    assert (await inspect_schema(connection)).kind is SchemaKind.CURRENT
    assert await create(empty) == [*MIGRATIONS, later]


async def test_a_newer_one_is_left_alone(connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO horsies_console_schema VALUES ($1, 'partitions')", LATEST + 1)
    await refused_by_all(
        connection,
        SchemaKind.NEWER,
        f"schema public has version {LATEST + 1}, this release knows {LATEST};"
        " install the release of horsies-console that made it, or a later one",
    )


def foreign(schema: str, why: str) -> str:
    return (
        f"schema {schema} belongs to another program, or to a release of upstream unlike 0.1.0a35: {why};"
        " use another database, or another schema by search_path"
    )


async def test_foreign_tables_are_left_alone(empty: asyncpg.Connection) -> None:
    cases = {
        "CREATE TABLE horsies_tasks (id uuid, horse text)": "horsies_tasks has no column args",
        "CREATE TABLE horsies_queue_state (queue_name text)": "horsies_queue_state has no column paused_at",
        "CREATE VIEW horsies_workflows AS SELECT 1 AS id": "horsies_workflows is not a table",
        "CREATE TABLE horsies_console_schema (id text)": "horsies_console_schema has no column applied_at",
    }
    for number, (statement, why) in enumerate(cases.items()):
        schema = f"stable_{number}"
        await empty.execute(f"CREATE SCHEMA {schema}; SET search_path TO {schema}; {statement}")
        await refused_by_all(empty, SchemaKind.FOREIGN, foreign(schema, why))


async def test_a_list_of_unknown_migrations_is_a_foreign_schema(connection: asyncpg.Connection) -> None:
    await connection.execute("UPDATE horsies_console_schema SET name = 'initial'")
    why = "horsies_console_schema calls version 16 'initial', not 'schema'"
    await refused_by_all(connection, SchemaKind.FOREIGN, foreign("public", why))


async def test_what_can_be_made_anew_is_by_the_way_out_that_is_named(connection: asyncpg.Connection) -> None:
    losses = {
        "DROP TABLE horsies_heartbeats": "the table horsies_heartbeats is missing",
        "DROP TABLE horsies_queue_state": "the table horsies_queue_state is missing",
        "ALTER TABLE horsies_tasks DROP COLUMN finalizing_at": "horsies_tasks has no column finalizing_at",
    }
    for statement, lost in losses.items():
        await connection.execute(statement)
        await refused_by_all(
            connection,
            SchemaKind.DAMAGED,
            f"schema public has version {LATEST}, but {lost}; restore a backup, or TRUNCATE horsies_console_schema"
            " and run `horsies db upgrade`, which recreates it, empty",
        )
        await connection.execute("TRUNCATE horsies_console_schema")
        assert await upgrade(connection) == list(MIGRATIONS)
        await require_current(connection)


async def test_a_lost_trigger_or_index_is_made_anew_by_the_way_out_that_is_named(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('t', 'demo.add', 'default')"
    )
    trigger, index = "horsies_task_notify_trigger", "ix_horsies_tasks_ready"
    invalid = f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{index}'::regclass"
    no_trigger = f"trigger {trigger} of horsies_tasks is missing or disabled"
    no_index = f"index {index} of horsies_tasks is missing or invalid"
    lost = {
        f"DROP TRIGGER {trigger} ON horsies_tasks": no_trigger,
        f"ALTER TABLE horsies_tasks DISABLE TRIGGER {trigger}": no_trigger,
        f"DROP INDEX {index}": no_index,
        invalid: no_index,
    }
    for statement, what in lost.items():
        await connection.execute(statement)
        drop = f'DROP INDEX IF EXISTS "public".{index}'
        again = "TRUNCATE horsies_console_schema"
        sentence = (
            f"schema public has version {LATEST}, but the {what}; {drop + ', ' if 'index' in what else ''}{again}"
            " and run `horsies db upgrade`, which recreates it and keeps every row"
        )
        await refused_by_all(connection, SchemaKind.DAMAGED, sentence)
        if "index" in what:
            await connection.execute(drop)
        await connection.execute(again)
        assert await upgrade(connection) == list(MIGRATIONS)
        await require_current(connection)
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 1


async def test_a_lost_column_of_values_needs_a_backup(connection: asyncpg.Connection) -> None:
    await connection.execute("ALTER TABLE horsies_tasks DROP COLUMN kwargs")
    await refused_by_all(
        connection,
        SchemaKind.DAMAGED,
        f"schema public has version {LATEST}, but horsies_tasks has no column kwargs;"
        " restore a backup: no migration can recreate it",
    )


async def test_tables_are_found_where_the_search_path_leads(empty: asyncpg.Connection) -> None:
    await empty.execute('CREATE SCHEMA "Stable 1"; SET search_path TO "Stable 1", public')
    assert (await inspect_schema(empty)).schema == "Stable 1"
    await create(empty)
    await require_current(empty)
    assert await empty.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'Stable 1'") == 24
    await empty.execute("SET search_path TO public")
    assert (await inspect_schema(empty)).kind is SchemaKind.EMPTY


async def test_tables_in_a_later_schema_of_the_path_are_not_hidden_by_empty_ones(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute("TRUNCATE horsies_console_schema; CREATE SCHEMA first; SET search_path TO first, public")
    assert (await inspect_schema(connection)).schema == "public"
    await upgrade(connection)
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'first'") == 0
    assert await connection.fetchval("SHOW search_path") == "first, public"


async def test_a_search_path_to_nowhere_is_named(empty: asyncpg.Connection) -> None:
    await empty.execute("SET search_path TO nowhere")
    with pytest.raises(SchemaError, match=r"no schema of the search path \(nowhere\) exists"):
        await create(empty)


async def test_a_read_only_session_looks_and_does_not_create(empty: asyncpg.Connection) -> None:
    await empty.execute("SET default_transaction_read_only TO on")
    assert (await inspect_schema(empty)).kind is SchemaKind.EMPTY
    with pytest.raises(SchemaError, match="read-only") as caught:
        await create(empty)
    assert "target_session_attrs=read-write" in (caught.value.help_text or "")


@pytest.fixture
async def groom(empty: asyncpg.Connection):
    async with new_role(empty) as name:
        yield name


READ_ONLY = "this server, or this session, is read-only"


async def test_a_current_one_in_a_read_only_session_is_not_one_that_workers_can_start_on(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute("SET default_transaction_read_only TO on")
    state = await inspect_schema(connection)
    assert (state.kind, state.pending) == (SchemaKind.READ_ONLY, ())
    assert state.detail == (
        f"schema public has version {LATEST}, but {READ_ONLY};"
        " connect to the primary (target_session_attrs=read-write), or allow writes in this session"
    )
    with pytest.raises(SchemaError, match=READ_ONLY):
        await require_current(connection)
    assert await create(connection) == await upgrade(connection) == []


async def test_a_role_that_lacks_a_privilege_of_workers_is_told_it_and_the_grant(
    empty: asyncpg.Connection, groom: str
) -> None:
    await create(empty)
    lacking = {
        "SELECT": "INSERT on horsies_tasks",
        "INSERT": "UPDATE on horsies_tasks",
        "UPDATE": "USAGE of the sequence on horsies_task_attempts",
    }
    for granted, what in lacking.items():
        await empty.execute(f"GRANT {granted} ON ALL TABLES IN SCHEMA public TO {groom}; SET ROLE {groom}")
        state = await inspect_schema(empty)
        await empty.execute("RESET ROLE")
        assert state.kind is SchemaKind.READ_ONLY
        assert state.problem == f"schema public has version {LATEST}, but role {groom} has no {what}"
        assert state.way_out.startswith("as its owner: GRANT ")
    await empty.execute(state.way_out.removeprefix("as its owner: "))
    await empty.execute(f"SET ROLE {groom}")
    await require_current(empty)


async def test_a_role_that_may_not_create_is_told_the_grant(empty: asyncpg.Connection, groom: str) -> None:
    await empty.execute(f"SET ROLE {groom}")
    with pytest.raises(SchemaError, match=f"role {groom} may not change schema public: permission denied") as caught:
        await create(empty)
    assert caught.value.help_text == f'as the owner of the schema: GRANT USAGE, CREATE ON SCHEMA "public" TO "{groom}"'
    await empty.execute(f'RESET ROLE; GRANT USAGE, CREATE ON SCHEMA "public" TO "{groom}"; SET ROLE {groom}')
    assert await create(empty) == list(MIGRATIONS)


async def test_a_role_that_does_not_own_the_tables_is_told_who_does(empty: asyncpg.Connection, groom: str) -> None:
    await create(empty)
    await empty.execute(f"TRUNCATE horsies_console_schema; GRANT ALL ON SCHEMA public TO {groom}")
    await empty.execute(f"GRANT SELECT ON horsies_console_schema TO {groom}; SET ROLE {groom}")
    with pytest.raises(SchemaError, match="must be owner of") as caught:
        await upgrade(empty)
    owner = await empty.fetchval("SELECT session_user")
    assert caught.value.help_text == f"run `horsies db upgrade` as {owner}, who owns the tables"


async def test_neither_owner_nor_allowed_to_create_is_told_the_owner_and_no_grant(
    empty: asyncpg.Connection, groom: str
) -> None:
    await empty.execute(UPSTREAM_SHAPE)
    await empty.execute(f"SET ROLE {groom}")
    with pytest.raises(SchemaError, match="permission denied for schema public") as caught:
        await upgrade(empty)
    owner = await empty.fetchval("SELECT session_user")
    assert caught.value.help_text == f"run `horsies db upgrade` as {owner}, who owns the tables"


async def test_a_role_that_may_not_read_the_versions_is_told_the_grant(empty: asyncpg.Connection, groom: str) -> None:
    await create(empty)
    await empty.execute(f"SET ROLE {groom}")
    with pytest.raises(SchemaError, match=rf"role {groom} may not read public\.horsies_console_schema") as caught:
        await inspect_schema(empty)
    assert caught.value.help_text == f'as its owner: GRANT SELECT ON ALL TABLES IN SCHEMA "public" TO "{groom}"'


async def test_what_stands_in_the_way_is_named(empty: asyncpg.Connection) -> None:
    await create(empty)
    await empty.execute(
        "TRUNCATE horsies_console_schema; ALTER TABLE horsies_heartbeats ALTER COLUMN id TYPE integer;"
        "CREATE VIEW beats AS SELECT id FROM horsies_heartbeats"
    )
    with pytest.raises(SchemaError, match="cannot alter type of a column used by a view") as caught:
        await upgrade(empty)
    assert any("view beats depends on column" in note for note in caught.value.notes)
    await empty.execute("DROP VIEW beats")
    assert await upgrade(empty) == list(MIGRATIONS)
