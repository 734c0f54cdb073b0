"""A small shop with a row in every table, and hostile text in every text column that the catalog names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg

TOKEN = "Zq"
SHORT = f"{TOKEN}\x1b]0;t\x07[/x]\u202e\x9b7m"
"""What fits into an id; its sequences are none that the console sends."""
LONG = (
    f"[bold]{TOKEN}[/tmp/x][@click=app.quit][link=https://evil.example]{TOKEN}\x1b[5;9r\x1b]52;c;{TOKEN}\x1b\\"
    f"\x1bP1$q{TOKEN}\x1b\\\x1bc\x9d0;{TOKEN}\x9c\x90{TOKEN}\x9c\u2066{TOKEN}\u202d\u200b\u200d\ufeff\x0e{TOKEN}\x05\b\x7f"
    f"\r\n\v\f\x85\u2028\u2029{TOKEN}[on red]\t\ufffe\U000e0041\ue000\u0301{TOKEN} $(id) `id` {'W' * 3_000}"
)
SCENE = Path(__file__).with_suffix(".sql")
COLUMNS = """
SELECT class.relname AS name, attribute.attname AS column, type.typname AS type, attribute.attnotnull AS needed,
       CASE WHEN attribute.atttypmod > 4 THEN attribute.atttypmod - 4 END AS most
  FROM pg_class class
  JOIN pg_attribute attribute ON attribute.attrelid = class.oid AND attnum > 0 AND NOT attisdropped
  JOIN pg_type type ON type.oid = attribute.atttypid
 WHERE class.relkind = 'r' AND class.relname LIKE 'horsies\\_%' AND class.relnamespace = current_schema()::regnamespace
   AND type.typname IN ('text', 'varchar', '_text', '_varchar', 'json', 'jsonb')
   AND class.relname <> 'horsies_console_schema'
 ORDER BY class.relname, attnum
"""
_DECIDE = {"status", "outcome", "role", "kind", "type", "timezone", "verb", "sweep", "join_type", "on_error"}
"""Columns and keys that decide which rows are shown: they are hostile in each fourth row only."""


async def fill_every_table(connection: asyncpg.Connection) -> None:
    """Hostile texts are in all columns; where the database refuses one (a CHECK), its value stays."""
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(SCENE.read_text("utf-8"))
    columns = await connection.fetch(COLUMNS)
    tables = {row["name"] for row in columns}
    assert len(columns) > 90
    for table in sorted(tables):
        assert await connection.fetchval(f"SELECT count(*) FROM {table}"), f"{table} needs a row in {SCENE.name}"
        for number, place in enumerate(await connection.fetch(f"SELECT ctid FROM {table} ORDER BY ctid")):
            at = place["ctid"]
            for column in [each for each in columns if each["name"] == table]:
                at = await _poison(connection, column, at, number)
    await connection.execute("SET session_replication_role = DEFAULT")
    await connection.execute("ANALYZE")


async def _poison(connection: asyncpg.Connection, column: asyncpg.Record, at: object, number: int) -> object:
    """The place of the row afterwards."""
    table, name, kind = column["name"], column["column"], column["type"]
    decides = name in _DECIDE and number % 4 != 3
    value = await connection.fetchval(f'SELECT "{name}" FROM {table} WHERE ctid = $1', at)
    if decides or (value is None and number % 4 != 3):
        return at
    change = hostile(column["most"], number)
    if kind in ("json", "jsonb"):
        value = json.dumps(within(json.loads(value or "{}"), change, number))
    elif kind.startswith("_"):
        value = [change(each) for each in value or ["x"]]
    elif value is not None and value[:1] in ("{", "[") and number % 4 != 1:
        value = json.dumps(within(json.loads(value), change, number))
    else:
        value = change(value or "x")
    try:
        return await connection.fetchval(
            f'UPDATE {table} SET "{name}" = $2::text::{kind} WHERE ctid = $1 RETURNING ctid'
            if kind in ("json", "jsonb")
            else f'UPDATE {table} SET "{name}" = $2 WHERE ctid = $1 RETURNING ctid',
            at,
            value,
        )
    except (asyncpg.CheckViolationError, asyncpg.UniqueViolationError):
        return at


def hostile(most: int | None, number: int) -> Callable[[str], str]:
    """Equal texts stay equal where one id names another row, so only texts without a limit become long."""

    def change(text: str) -> str:
        if most is None:
            return text + SHORT + (LONG if number % 2 and not text[1:].isdigit() else "")
        return (text + SHORT)[:most]

    return change


def within(value: Any, change: Callable[[str], str], number: int, key: str = "") -> Any:
    """The JSON with hostile texts, which the database cannot store as keys of ours that it needs."""
    if isinstance(value, str):
        return value if key in _DECIDE and number % 4 != 3 else change(value)
    if isinstance(value, list):
        return [within(each, change, number, key) for each in value]
    if isinstance(value, dict):
        found = {name: within(each, change, number, name) for name, each in value.items()}
        return {**found, change("more"): change("and more")}
    return value
