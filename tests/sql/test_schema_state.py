"""Every state a database may be in is told apart, and each refusal names the cause and the way out."""

from __future__ import annotations

import asyncpg
import pytest

from horsies.domain.errors import ErrorCode
from horsies.store.schema import (
    MIGRATIONS,
    SchemaError,
    SchemaKind,
    create,
    inspect_schema,
    require_current,
    upgrade,
)
from horsies.store.schema.migrations import LATEST

APPLIED = "SELECT version, name FROM horsies_schema_version ORDER BY version"


@pytest.fixture
async def empty(empty_database: str):
    connection = await asyncpg.connect(empty_database)
    yield connection
    await connection.close()


async def refused_by_all(connection: asyncpg.Connection, kind: SchemaKind, sentence: str) -> None:
    """Neither create nor upgrade touch it, and everybody says the same."""
    state = await inspect_schema(connection)
    assert (state.kind, state.detail) == (kind, sentence)
    for attempt in (create, upgrade, require_current):
        with pytest.raises(SchemaError) as caught:
            await attempt(connection)
        assert f"{caught.value.message}; {caught.value.help_text}" == sentence
        assert caught.value.code is ErrorCode.BROKER_INIT_FAILED


async def test_a_created_one_is_current(connection: asyncpg.Connection) -> None:
    state = await inspect_schema(connection)
    assert (state.kind, state.version, state.pending) == (SchemaKind.CURRENT, len(MIGRATIONS), ())
    assert state.detail == f"schema public has version {LATEST}, which is current"
    await require_current(connection)
    assert [tuple(row) for row in await connection.fetch(APPLIED)] == [(m.version, m.name) for m in MIGRATIONS]


async def test_creating_twice_changes_nothing(connection: asyncpg.Connection) -> None:
    before = await connection.fetch("SELECT * FROM horsies_schema_version")
    assert await create(connection) == []
    assert await upgrade(connection) == []
    assert await connection.fetch("SELECT * FROM horsies_schema_version") == before


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
        "DROP TABLE horsies_operator_actions, horsies_queue_state; DELETE FROM horsies_schema_version WHERE version > 2"
    )
    state = await inspect_schema(connection)
    assert (state.kind, state.pending) == (SchemaKind.OLDER, MIGRATIONS[2:])
    assert state.detail == f"schema public has version 2, this release needs {LATEST}; `horsies db upgrade` upgrades it"
    with pytest.raises(SchemaError, match="has version 2"):
        await create(connection)
    assert await upgrade(connection) == list(MIGRATIONS[2:])
    await require_current(connection)


async def test_a_newer_one_is_left_alone(connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO horsies_schema_version VALUES ($1, 'partitions')", LATEST + 1)
    await refused_by_all(
        connection,
        SchemaKind.NEWER,
        f"schema public has version {LATEST + 1}, this release knows {LATEST};"
        " install the release of horsies-console that made it, or a later one",
    )


def foreign(schema: str, why: str) -> str:
    return (
        f"schema {schema} belongs to another program, or to upstream before 0.1.0a35: {why};"
        " use another database, or another schema by search_path"
    )


async def test_tables_of_somebody_else_are_left_alone(empty: asyncpg.Connection) -> None:
    cases = {
        "CREATE TABLE horsies_tasks (id uuid, horse text)": "horsies_tasks has no column args",
        "CREATE TABLE horsies_queue_state (queue_name text)": "horsies_queue_state has no column paused_at",
        "CREATE VIEW horsies_workflows AS SELECT 1 AS id": "horsies_workflows is not a table",
        "CREATE TABLE horsies_schema_version (id text)": "horsies_schema_version has no column applied_at",
    }
    for number, (statement, why) in enumerate(cases.items()):
        schema = f"stable_{number}"
        await empty.execute(f"CREATE SCHEMA {schema}; SET search_path TO {schema}; {statement}")
        await refused_by_all(empty, SchemaKind.FOREIGN, foreign(schema, why))


async def test_a_list_of_other_migrations_is_somebody_elses(connection: asyncpg.Connection) -> None:
    await connection.execute("UPDATE horsies_schema_version SET name = 'initial' WHERE version = 1")
    why = "horsies_schema_version calls version 1 'initial', not 'contract'"
    await refused_by_all(connection, SchemaKind.FOREIGN, foreign("public", why))


async def test_what_can_be_made_anew_is_by_the_way_out_that_is_named(connection: asyncpg.Connection) -> None:
    losses = {
        "DROP TABLE horsies_heartbeats": "the table horsies_heartbeats is missing",
        "DROP TABLE horsies_queue_state": "the table horsies_queue_state is missing",
        "ALTER TABLE horsies_tasks DROP COLUMN finalizing_at": "horsies_tasks has no column finalizing_at",
        "DELETE FROM horsies_schema_version WHERE version = 2": "horsies_schema_version does not list version 2",
    }
    for statement, lost in losses.items():
        await connection.execute(statement)
        await refused_by_all(
            connection,
            SchemaKind.DAMAGED,
            f"schema public has version {LATEST}, but {lost}; restore a backup, or TRUNCATE horsies_schema_version"
            " and run `horsies db upgrade`, which makes it anew and empty",
        )
        await connection.execute("TRUNCATE horsies_schema_version")
        assert await upgrade(connection) == list(MIGRATIONS)
        await require_current(connection)


async def test_a_lost_column_of_values_needs_a_backup(connection: asyncpg.Connection) -> None:
    await connection.execute("ALTER TABLE horsies_tasks DROP COLUMN kwargs")
    await refused_by_all(
        connection,
        SchemaKind.DAMAGED,
        f"schema public has version {LATEST}, but horsies_tasks has no column kwargs;"
        " restore a backup: no migration can make it anew",
    )


async def test_tables_are_found_where_the_search_path_leads(empty: asyncpg.Connection) -> None:
    await empty.execute('CREATE SCHEMA "Stable 1"; SET search_path TO "Stable 1", public')
    assert (await inspect_schema(empty)).schema == "Stable 1"
    await create(empty)
    await require_current(empty)
    assert await empty.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'Stable 1'") == 10
    await empty.execute("SET search_path TO public")
    assert (await inspect_schema(empty)).kind is SchemaKind.EMPTY


async def test_tables_in_a_later_schema_of_the_path_are_not_hidden_by_empty_ones(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute("TRUNCATE horsies_schema_version; CREATE SCHEMA first; SET search_path TO first, public")
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
    """A role that may log in and nothing else; roles are the server's, so it goes again."""
    await empty.execute("CREATE ROLE groom")
    yield "groom"
    await empty.execute("RESET ROLE; DROP OWNED BY groom; DROP ROLE groom")


async def test_a_role_that_may_not_create_is_told_the_grant(empty: asyncpg.Connection, groom: str) -> None:
    await empty.execute(f"SET ROLE {groom}")
    with pytest.raises(SchemaError, match="role groom may not change schema public: permission denied") as caught:
        await create(empty)
    assert caught.value.help_text == 'as the owner of the schema: GRANT USAGE, CREATE ON SCHEMA "public" TO "groom"'
    await empty.execute('RESET ROLE; GRANT USAGE, CREATE ON SCHEMA "public" TO "groom"; SET ROLE groom')
    assert await create(empty) == list(MIGRATIONS)


async def test_a_role_that_does_not_own_the_tables_is_told_who_does(empty: asyncpg.Connection, groom: str) -> None:
    await create(empty)
    await empty.execute(f"TRUNCATE horsies_schema_version; GRANT ALL ON SCHEMA public TO {groom}")
    await empty.execute(f"GRANT SELECT ON horsies_schema_version TO {groom}; SET ROLE {groom}")
    with pytest.raises(SchemaError, match="must be owner of") as caught:
        await upgrade(empty)
    assert caught.value.help_text == "run `horsies db upgrade` as horsies, who owns the tables"


async def test_a_role_that_may_not_read_the_versions_is_told_the_grant(empty: asyncpg.Connection, groom: str) -> None:
    await create(empty)
    await empty.execute(f"SET ROLE {groom}")
    with pytest.raises(SchemaError, match=r"may not read public\.horsies_schema_version"):
        await inspect_schema(empty)


async def test_what_stands_in_the_way_is_named(empty: asyncpg.Connection) -> None:
    await create(empty)
    await empty.execute(
        "TRUNCATE horsies_schema_version; ALTER TABLE horsies_heartbeats ALTER COLUMN id TYPE integer;"
        "CREATE VIEW beats AS SELECT id FROM horsies_heartbeats"
    )
    with pytest.raises(SchemaError, match="cannot alter type of a column used by a view") as caught:
        await upgrade(empty)
    assert any("view beats depends on column" in note for note in caught.value.notes)
    await empty.execute("DROP VIEW beats")
    assert await upgrade(empty) == list(MIGRATIONS)
