"""The migrations: the schema, the numbered files after it, and the SQL that applies each exactly once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCK_KEY = int.from_bytes(hashlib.sha256(b"horsies-schema").digest()[:8], "big", signed=True)

# Every statement of every task queues up behind a migration that waits for its table.
LOCK_TIMEOUT_S = 5.0

SCHEMA_VERSION = 15
"""The version of the folder tables. Earlier versions were never released; it adopts their tables, too."""
# In this order: tables before those that refer to them.
_PARTS = (
    *("adoption", "tasks", "workflows", "workers", "schedules", "operators", "claiming", "caps", "pulse"),
    "search_path",
)

_FILE_NAME = re.compile(r"(\d{3})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def follows(self) -> int:
        """The lowest version to which it can be applied: the schema to any before it, the others one by one."""
        return 0 if self.version == SCHEMA_VERSION else self.version - 1


def sql_file(name: str) -> str:
    """The text of a file of this package without its first line, which names the module that runs it."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8").split("\n", 1)[1].lstrip("\n")


def _load() -> tuple[Migration, ...]:
    schema = "\n".join(f"-- {part}\n\n{sql_file(f'tables/{part}.sql')}" for part in _PARTS)
    names = sorted(entry.name for entry in files(__package__).iterdir())
    numbered = filter(None, map(_FILE_NAME.fullmatch, names))
    later = (Migration(int(match[1]), match[2], sql_file(match[0])) for match in numbered)
    return (Migration(SCHEMA_VERSION, "schema", schema), *later)


MIGRATIONS = _load()
LATEST = MIGRATIONS[-1].version


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def beginning(schema: str) -> str:
    """Wait for the lock, then set this schema; both last until the end of the transaction."""
    return sql_file("begin.sql").format(lock_key=LOCK_KEY, schema=quoted(schema))


def application(migration: Migration, lock_timeout: float = LOCK_TIMEOUT_S) -> str:
    """The migration and its entry in the list of applied ones, to be run after `beginning` in the same transaction."""
    return sql_file("apply.sql").format(
        version=migration.version,
        follows=migration.follows,
        name=migration.name,
        migration=migration.sql,
        lock_timeout_ms=round(lock_timeout * 1000),
    )


def script(pending: Iterable[Migration], schema: str) -> str:
    """The SQL of `upgrade`, for psql: each migration in its own transaction."""
    return "\n".join(
        f"-- {migration.version:03d} {migration.name}\nBEGIN;\n{beginning(schema)}{application(migration)}COMMIT;\n"
        for migration in pending
    )
