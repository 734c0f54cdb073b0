"""The array types of our statements, known in advance: asyncpg's queries for them delay each new connection."""

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
"""Maps the id of each array type to the id of its element type."""

# With the name of a statement asyncpg keeps the one that it was about to run: nothing has replaced it.
_UNNAMED_STATEMENT: Final = SimpleNamespace(name="none")


class ArrayConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that knows these array types, and asks for others."""

    async def _introspect_types(self, typeoids: Collection[int], within: float | None) -> Any:
        return known(typeoids) or await super()._introspect_types(typeoids, within)


def known(typeoids: Collection[int]) -> tuple[list[dict[str, Any]], SimpleNamespace] | None:
    """Return what asyncpg's own method would return; None if one of these types must be queried."""
    if not ELEMENTS.keys() >= set(typeoids):
        return None
    return [_array_of(oid) for oid in typeoids], _UNNAMED_STATEMENT


def _array_of(oid: int) -> dict[str, Any]:
    """Return a row like those that asyncpg's own query for array types returns; asyncpg has codecs for the elements."""
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
