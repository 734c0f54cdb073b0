"""Examine a database, and look at the lines of one check."""

from __future__ import annotations

import asyncpg

from horsies.config.app import AppConfig
from horsies.config.url import DatabaseUrl
from horsies.doctor import CheckLine
from horsies.doctor.examine import Examination, examine
from horsies.store.connect import Database


async def examined(url: str, config: AppConfig | None = None) -> Examination:
    return await examine(Database(DatabaseUrl.parse(url), "in a test", None), config)


async def lines(url: str, check: str, config: AppConfig | None = None) -> list[CheckLine]:
    """At least one, as of each check."""
    found = [line for line in (await examined(url, config)).lines if line.check == check]
    assert found
    return found


async def line(url: str, check: str, config: AppConfig | None = None) -> CheckLine:
    (only,) = await lines(url, check, config)
    return only


async def mend(connection: asyncpg.Connection, found: CheckLine) -> None:
    """Do what the line says, without the comment behind it."""
    assert found.remedy is not None
    for command in found.remedy.partition("  -- ")[0].split("; "):
        await connection.execute(command)
