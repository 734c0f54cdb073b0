"""What state a schema is in, judged from the tables found in it and its list of applied migrations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.store.schema.contents import LEDGER, LEDGER_COLUMNS, TABLES, Table
from horsies.store.schema.migrations import LATEST, MIGRATIONS, Migration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class SchemaError(HorsiesError):
    """The tables are not as they are needed and cannot be made so now."""

    default_code = ErrorCode.BROKER_INIT_FAILED


class SchemaKind(Enum):
    EMPTY = "none of our tables"
    UPSTREAM = "made by upstream and not yet adopted"
    OLDER = "ours, with migrations to apply"
    CURRENT = "ours, as this release needs it"
    NEWER = "ours, from a later release"
    FOREIGN = "somebody else's, under our names"
    DAMAGED = "ours, with something missing"


@dataclass(frozen=True, slots=True)
class Found:
    """Something in the schema that bears one of our names."""

    is_table: bool
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class SchemaState:
    """`version` is the highest applied migration, 0 for none; `problem` and `way_out` are for a person."""

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
        """One sentence: what is wrong and the way out."""
        return f"{self.problem}; {self.way_out}" if self.way_out else self.problem

    @property
    def error(self) -> SchemaError:
        return SchemaError(self.problem, help_text=self.way_out)


def judge(schema: str, found: Mapping[str, Found], applied: Mapping[int, str]) -> SchemaState:
    """The state of `schema` in which `found` stand and the migrations `applied` (version to name) are listed."""
    version = max(applied, default=0)

    def state(kind: SchemaKind, problem: str, way_out: str = "") -> SchemaState:
        return SchemaState(kind, schema, version, problem, way_out)

    if strange := next(_strange(found, applied), None):
        return state(
            SchemaKind.FOREIGN,
            f"schema {schema} belongs to another program, or to upstream before 0.1.0a35: {strange}",
            "use another database, or another schema by search_path",
        )
    if version > LATEST:
        return state(
            SchemaKind.NEWER,
            f"schema {schema} has version {version}, this release knows {LATEST}",
            "install the release of horsies-console that made it, or a later one",
        )
    if lost := next(_lost(found, applied), None):
        return state(SchemaKind.DAMAGED, f"schema {schema} has version {version}, but {lost}", _repair(found))
    if version == LATEST:
        return state(SchemaKind.CURRENT, f"schema {schema} has version {version}, which is current")
    if version:
        return state(
            SchemaKind.OLDER,
            f"schema {schema} has version {version}, this release needs {LATEST}",
            "`horsies db upgrade` upgrades it",
        )
    if any(name in found and table.of_upstream for name, table in TABLES.items()):
        return state(
            SchemaKind.UPSTREAM,
            f"the tables in schema {schema} were made by upstream",
            "`horsies db upgrade` adopts them and keeps every row",
        )
    return state(SchemaKind.EMPTY, f"schema {schema} has no horsies tables", "`horsies db init` creates them")


def _strange(found: Mapping[str, Found], applied: Mapping[int, str]) -> Iterator[str]:
    """What under our names no migration of ours has made and none to come could adopt."""
    version = max(applied, default=0)
    unmade = {name: table.core for name, table in TABLES.items() if table.since > version}
    for name, thing in found.items():
        if not thing.is_table:
            yield f"{name} is not a table"
        needed = LEDGER_COLUMNS if name == LEDGER else unmade.get(name, frozenset())
        for column in sorted(needed - thing.columns):
            yield f"{name} has no column {column}"
    for migration in MIGRATIONS:
        name = applied.get(migration.version, migration.name)
        if name != migration.name:
            yield f"{LEDGER} calls version {migration.version} {name!r}, not {migration.name!r}"


def _lost(found: Mapping[str, Found], applied: Mapping[int, str]) -> Iterator[str]:
    """What the applied migrations have made and is no longer there."""
    version = max(applied, default=0)
    for number in range(1, version):
        if number not in applied:
            yield f"{LEDGER} does not list version {number}"
    for name, table in TABLES.items():
        if table.since > version:
            continue
        if name not in found:
            yield f"the table {name} is missing"
        else:
            for column in sorted(table.columns(version) - found[name].columns):
                yield f"{name} has no column {column}"


def _repair(found: Mapping[str, Found]) -> str:
    """The migrations make whole tables and our own columns anew; a documented column is beyond them."""
    if all(_table(name).core <= thing.columns for name, thing in found.items()):
        return f"restore a backup, or TRUNCATE {LEDGER} and run `horsies db upgrade`, which makes it anew and empty"
    return "restore a backup: no migration can make it anew"


def _table(name: str) -> Table:
    return TABLES.get(name) or Table(0, LEDGER_COLUMNS)
