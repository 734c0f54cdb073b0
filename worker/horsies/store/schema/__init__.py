"""The tables: their definition (tables), the state of a database, and its upgrade to the state that is needed."""

from horsies.store.schema.contents import LEDGER as LEDGER, TABLES as TABLES
from horsies.store.schema.migrations import (
    LOCK_KEY as LOCK_KEY,
    MIGRATIONS as MIGRATIONS,
    Migration as Migration,
    script as script,
)
from horsies.store.schema.state import (
    SchemaError as SchemaError,
    SchemaKind as SchemaKind,
    SchemaState as SchemaState,
    inspect_schema as inspect_schema,
    require_current as require_current,
)
from horsies.store.schema.upgrade import (
    creatable as creatable,
    create as create,
    upgradable as upgradable,
    upgrade as upgrade,
)
