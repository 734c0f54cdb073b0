"""The state of a schema, determined from its tables and its list of applied migrations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import asyncpg

from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.store.schema.contents import LEDGER, LEDGER_COLUMNS, NAMES, TABLES, UPSTREAM_TABLES
from horsies.store.schema.migrations import LATEST, MIGRATIONS, SCHEMA_VERSION, Migration, quoted, sql_file
from horsies.store.statements import qualified, without_comments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class SchemaError(HorsiesError):
    """The tables are not in the state that is needed and cannot be brought to it now."""

    default_code = ErrorCode.BROKER_INIT_FAILED


class SchemaKind(Enum):
    EMPTY = "none of our tables"
    UPSTREAM = "made by upstream and not yet adopted"
    OLDER = "ours, with migrations to apply"
    CURRENT = "ours, as this release needs it"
    NEWER = "ours, from a later release"
    FOREIGN = "another program's, under our names"
    DAMAGED = "ours, with something missing"
    READ_ONLY = "ours, as this release needs it, but not writable in this session"


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object in the schema that has one of our names."""

    is_table: bool
    columns: frozenset[str]
    triggers: frozenset[str]
    indexes: frozenset[str]
    privileges: frozenset[str]


@dataclass(frozen=True, slots=True)
class SchemaSession:
    """The schema and the role of the session that inspects it."""

    schema: str
    role: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class SchemaState:
    """`version` is the highest applied migration, 0 for none; `problem` and `way_out` are messages for the operator."""

    kind: SchemaKind
    schema: str
    version: int
    problem: str
    way_out: str

    @property
    def pending(self) -> tuple[Migration, ...]:
        return tuple(migration for migration in MIGRATIONS if migration.version > self.version)

    @property
    def detail(self) -> str:
        """One sentence: the problem and the remedy."""
        return f"{self.problem}; {self.way_out}" if self.way_out else self.problem

    @property
    def error(self) -> SchemaError:
        return SchemaError(self.problem, help_text=self.way_out)


def judge(session: SchemaSession, found: Mapping[str, FoundObject], applied: Mapping[int, str]) -> SchemaState:
    """Return the state of the schema that contains `found` and lists the migrations `applied` (version to name)."""
    schema, version = session.schema, max(applied, default=0)

    def state(kind: SchemaKind, problem: str, way_out: str = "") -> SchemaState:
        return SchemaState(kind, schema, version, problem, way_out)

    if foreign := next(_foreign_objects(found, applied), None):
        return state(
            SchemaKind.FOREIGN,
            f"schema {schema} belongs to another program, or to a release of upstream unlike 0.1.0a35: {foreign}",
            "use another database, or another schema by search_path",
        )
    if version > LATEST:
        return state(
            SchemaKind.NEWER,
            f"schema {schema} has version {version}, this release knows {LATEST}",
            "install the release of horsies-console that made it, or a later one",
        )
    if version == LATEST:
        if lost := next(_missing_objects(found), None):
            return state(SchemaKind.DAMAGED, f"schema {schema} has version {version}, but {lost}", _repair(found))
        if broken := next(_broken_objects(schema, found), None):
            return state(SchemaKind.DAMAGED, f"schema {schema} has version {version}, but {broken[0]}", broken[1])
        if lacking := _missing_privilege(session, found):
            return state(SchemaKind.READ_ONLY, f"schema {schema} has version {version}, but {lacking[0]}", lacking[1])
        return state(SchemaKind.CURRENT, f"schema {schema} has version {version}, which is current")
    if version:
        return state(
            SchemaKind.OLDER,
            f"schema {schema} has version {version}, this release needs {LATEST}",
            "`horsies db upgrade` upgrades it",
        )
    if any(name in found for name in UPSTREAM_TABLES):
        return state(
            SchemaKind.UPSTREAM,
            f"the tables in schema {schema} were made by upstream",
            "`horsies db upgrade` adopts them and keeps every row",
        )
    return state(SchemaKind.EMPTY, f"schema {schema} has no horsies tables", "`horsies db init` creates them")


def _foreign_objects(found: Mapping[str, FoundObject], applied: Mapping[int, str]) -> Iterator[str]:
    """Return objects with our names that none of our migrations has created and that no later one can adopt."""
    to_adopt = max(applied, default=0) < SCHEMA_VERSION
    for name, thing in found.items():
        if not thing.is_table:
            yield f"{name} is not a table"
        if to_adopt or name == LEDGER:
            for column in sorted(_core(name) - thing.columns):
                yield f"{name} has no column {column}"
    for migration in MIGRATIONS:
        name = applied.get(migration.version, migration.name)
        if name != migration.name:
            yield f"{LEDGER} calls version {migration.version} {name!r}, not {migration.name!r}"


def _missing_objects(found: Mapping[str, FoundObject]) -> Iterator[str]:
    """Return objects that the migrations have created and that no longer exist."""
    for name, table in TABLES.items():
        if name not in found:
            yield f"the table {name} is missing"
        else:
            for column in sorted(table.columns - found[name].columns):
                yield f"{name} has no column {column}"


def _broken_objects(schema: str, found: Mapping[str, FoundObject]) -> Iterator[tuple[str, str]]:
    """Return required triggers and indexes that are missing or invalid in complete tables: problem and remedy."""
    again = f"TRUNCATE {LEDGER} and run `horsies db upgrade`, which recreates it and keeps every row"
    for name, table in TABLES.items():
        for trigger in sorted(table.triggers - found[name].triggers):
            yield f"the trigger {trigger} of {name} is missing or disabled", again
        for index in sorted(table.indexes - found[name].indexes):
            # IF NOT EXISTS would skip an invalid index, which a failed CREATE INDEX CONCURRENTLY leaves.
            drop = f"DROP INDEX IF EXISTS {quoted(schema)}.{index}"
            yield f"the index {index} of {name} is missing or invalid", f"{drop}, {again}"


def _missing_privilege(session: SchemaSession, found: Mapping[str, FoundObject]) -> tuple[str, str] | None:
    """Return why this session lacks a privilege that a worker needs, and the remedy."""
    if session.read_only:
        return (
            "this server, or this session, is read-only",
            "connect to the primary (target_session_attrs=read-write), or allow writes in this session",
        )
    for name, table in TABLES.items():
        for privilege in table.needs:
            if privilege not in found[name].privileges:
                schema, role = quoted(session.schema), quoted(session.role)
                return (
                    f"role {session.role} has no {privilege} on {name}",
                    f"as its owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};"
                    f" GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
                )
    return None


def _repair(found: Mapping[str, FoundObject]) -> str:
    """Return the remedy: the migrations recreate whole tables and our own columns, but no documented column."""
    if all(_core(name) <= thing.columns for name, thing in found.items()):
        return f"restore a backup, or TRUNCATE {LEDGER} and run `horsies db upgrade`, which recreates it, empty"
    return "restore a backup: no migration can recreate it"


def _core(name: str) -> frozenset[str]:
    return LEDGER_COLUMNS if name == LEDGER else TABLES[name].core


_CONTENTS = qualified(without_comments(sql_file("look.sql")))
_APPLIED = sql_file("applied.sql")


async def inspect_schema(conn: asyncpg.Connection) -> SchemaState:
    """Return the state of the schema that an unqualified table name refers to on this connection."""
    async with conn.transaction():  # one backend for all statements, behind PgBouncer too
        session, found = await _read_contents(conn)
        listed = found.get(LEDGER)
        is_list = listed is not None and listed.is_table and listed.columns >= LEDGER_COLUMNS
        applied = await _applied(conn, session) if is_list else {}
        if applied:
            # If they were read before the list, the tables of a migration that commits in between would appear to be
            # missing.
            session, found = await _read_contents(conn)
    return judge(session, found, applied)


async def _read_contents(conn: asyncpg.Connection) -> tuple[SchemaSession, dict[str, FoundObject]]:
    rows = await conn.fetch(_CONTENTS, NAMES)
    if not rows:
        path, role = await conn.fetchrow("SELECT pg_catalog.current_setting('search_path'), current_user")
        raise SchemaError(
            f"no schema of the search path ({path}) exists, or role {role} may not use it",
            help_text=f"create the schema, correct search_path, or GRANT USAGE ON SCHEMA <name> TO {quoted(role)}",
        )
    first = rows[0]
    session = SchemaSession(first["schema"], first["role"], first["read_only"])
    parts = ("columns", "triggers", "indexes", "privileges")
    found = {
        row["name"]: FoundObject(row["is_table"], *(frozenset(row[part]) for part in parts))
        for row in rows
        if row["name"]
    }
    return session, found


async def require_current(conn: asyncpg.Connection) -> None:
    """Raise SchemaError with the remedy unless the schema is as this release needs it."""
    state = await inspect_schema(conn)
    if state.kind is not SchemaKind.CURRENT:
        raise state.error


async def _applied(conn: asyncpg.Connection, session: SchemaSession) -> dict[int, str]:
    try:
        rows = await conn.fetch(_APPLIED.format(schema=quoted(session.schema)))
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaError(
            f"role {session.role} may not read {session.schema}.{LEDGER}",
            help_text=f"as its owner: GRANT SELECT ON ALL TABLES IN SCHEMA {quoted(session.schema)}"
            f" TO {quoted(session.role)}",
        ) from error
    return {row["version"]: row["name"] for row in rows}
