"""The tables: their definition (tables), the state of a database, and its upgrade to the state that is needed."""

from horsies.store.schema.contents import LEDGER, TABLES
from horsies.store.schema.migrations import LOCK_KEY, MIGRATIONS, Migration, script
from horsies.store.schema.state import SchemaError, SchemaKind, SchemaState, inspect_schema, require_current
from horsies.store.schema.upgrade import creatable, create, upgradable, upgrade

__all__ = [
    "LEDGER",
    "LOCK_KEY",
    "MIGRATIONS",
    "TABLES",
    "Migration",
    "SchemaError",
    "SchemaKind",
    "SchemaState",
    "creatable",
    "create",
    "inspect_schema",
    "require_current",
    "script",
    "upgradable",
    "upgrade",
]
