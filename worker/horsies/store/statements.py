"""The SQL files, one statement each, read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """The text of `sql/<name>.sql`; its first line says who calls it and what guards it."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
