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

SCHEMA_VERSION = 16
"""The version that the folder tables creates. It also adopts tables of earlier, unreleased versions."""
# Referenced tables come before those that refer to them.
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
        """The lowest version that it can be applied to: any for the schema, the previous one for later migrations."""
        return 0 if self.version == SCHEMA_VERSION else self.version - 1


def sql_file(name: str) -> str:
    """Return the text of a file of this package without its first line, which names the module that runs it."""
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
    """Return the SQL that waits for the lock and sets this schema, both until the end of the transaction."""
    return sql_file("begin.sql").format(lock_key=LOCK_KEY, schema=quoted(schema))


def application(migration: Migration, lock_timeout: float = LOCK_TIMEOUT_S) -> str:
    """Return the SQL that applies the migration and records it, to be run after `beginning` in the same transaction."""
    return sql_file("apply.sql").format(
        version=migration.version,
        follows=migration.follows,
        name=migration.name,
        migration=migration.sql,
        lock_timeout_ms=round(lock_timeout * 1000),
    )


def script(pending: Iterable[Migration], schema: str) -> str:
    """Return the SQL of `upgrade` for psql: each migration in its own transaction."""
    return "\n".join(
        f"-- {migration.version:03d} {migration.name}\nBEGIN;\n{beginning(schema)}{application(migration)}COMMIT;\n"
        for migration in pending
    )
