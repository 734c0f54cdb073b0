"""The array types of our statements, known without asking: what asyncpg asks of the server costs each connection.

asyncpg asks for every array type but text[] on each new connection, with a recursive query: a round trip, and 4 to 15
ms of the server's processor time for each set of types. PostgreSQL's sources fix the ids of these types.

The name `_introspect_types` and what it returns are private to asyncpg; `tests/sql/test_session_array_types.py` says at
an upgrade what is no longer so. If asyncpg renames it, it asks again, and nothing else changes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Collection

ELEMENTS: Final = {
    1000: 16,  # bool
    1005: 21,  # int2
    1007: 23,  # int4
    1010: 27,  # tid
    1015: 1043,  # varchar
    1016: 20,  # int8
    1021: 700,  # float4
    1022: 701,  # float8
    1115: 1114,  # timestamp
    1185: 1184,  # timestamptz
    1187: 1186,  # interval
    199: 114,  # json
    2951: 2950,  # uuid
    3807: 3802,  # jsonb
}
"""The id of each array type, and that of its elements."""

# With the name of a statement asyncpg keeps the one that it was about to run: nothing has replaced it.
_NOTHING_ASKED: Final = SimpleNamespace(name="none")


class Session(asyncpg.Connection):  # type: ignore[misc]
    """A connection that knows these array types, and asks for others."""

    async def _introspect_types(self, typeoids: Collection[int], within: float | None) -> Any:
        return known(typeoids) or await super()._introspect_types(typeoids, within)


def known(typeoids: Collection[int]) -> tuple[list[dict[str, Any]], SimpleNamespace] | None:
    """What asyncpg's own method would return; None if one of these types must be asked for."""
    if not ELEMENTS.keys() >= set(typeoids):
        return None
    return [_array_of(oid) for oid in typeoids], _NOTHING_ASKED


def _array_of(oid: int) -> dict[str, Any]:
    """What asyncpg reads of the server's answer. It has codecs of its own for the elements."""
    return {
        "oid": oid,
        "ns": "pg_catalog",
        "name": f"_{oid}",
        "kind": b"b",
        "basetype": None,
        "elemtype": ELEMENTS[oid],
        "elemdelim": b",",
        "range_subtype": None,
        "attrtypoids": None,
        "attrnames": None,
    }
