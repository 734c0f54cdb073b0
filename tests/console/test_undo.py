"""The sheet of an undo: it holds what has not started, says of what it is the undo, and takes one key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from test_outcome import WIDE, connected, failed, ready, view_of
from textual.pilot import Pilot
from until import until as comes_true
from verb_steps import SmallConsole, until

from horsies.lifecycle.claiming import ClaimRequest, claim
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verbs import VERBS
from horsies_tui.intents import Intent
from horsies_tui.shell import preview_sheet
from horsies_tui.shell.outcome import RowsSheet
from horsies_tui.shell.preview_sheet import PreviewSheet


class Drain:
    """A worker that claims up to two hundred tasks in a second, one after the other."""

    def __init__(self) -> None:
        self.claimed = 0
        self.idle = 0
        """Claims in a row that found no task."""

    async def run(self, database: str) -> None:
        connection = await asyncpg.connect(database)
        try:
            while True:
                found = len(await claim(connection, "worker-a", ClaimRequest("pay", 1, 60_000, None)))
                self.claimed += found
                self.idle = 0 if found else self.idle + 1
                await connection.execute("SELECT pg_sleep(0.005)")
        finally:
            connection.terminate()


@asynccontextmanager
async def draining(database: str) -> AsyncIterator[Drain]:
    drain = Drain()
    running = asyncio.create_task(drain.run(database))
    try:
        yield drain
    finally:
        running.cancel()
        await asyncio.wait([running])


async def counts(conn: asyncpg.Connection) -> dict[str, int]:
    rows = await conn.fetch("SELECT status, count(*) FROM horsies_tasks GROUP BY 1")
    return dict(map(tuple, rows))


async def undoes(pilot: Pilot[Any], conn: asyncpg.Connection) -> None:
    """Open the sheet for the undo of a requeue that another operator has made."""
    requeue = await preview(conn, VERBS["task", "requeue"], Selection.of_filter("status:failed"))
    operation = (await apply(conn, requeue, Actor("bob", "web-1"), None)).operation_id
    selection = Selection.of_ids([str(operation)])
    pilot.app._verbs.start(Intent(VERBS["operation", "undo"], selection, undoes="task"), pilot.app._view)


async def test_an_undo_takes_back_what_had_not_started_when_its_key_was_pressed(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, 1500)
    app = SmallConsole(database, view_of(Selection.of_filter("status:failed")))
    async with app.run_test(size=WIDE) as pilot:
        await connected(pilot)
        await pilot.press("R")
        await ready(pilot, "type 1500", "1,500 shop.charge", "FAILED: 1,500 RATE_LIMITED")
        await pilot.press(*"oops", "ctrl+y", *"1500", "ctrl+y")
        await until(pilot, lambda: any("z undo" in said for said in app.said), "the undo is offered")
        assert app.offered == "1,500 requeued: z undo"
        async with draining(database) as drain:
            await until(pilot, lambda: drain.claimed > 20, "it drains")
            at_the_key = drain.claimed
            await pilot.press("z")
            text = await ready(
                pilot, "Undo requeue of 1,500 tasks · ", 's ago · ops@bastion · "oops"', "held", "ctrl+y Undo"
            )
            assert "to confirm" not in text, "no number is typed"
            await until(pilot, lambda: drain.idle > 20, "nothing is claimed any more")
            held = 1500 - drain.claimed
            assert f"{held:,} held" in text
            assert f"{held:,} will be undone" in text
            await pilot.press("ctrl+y")
            await until(pilot, lambda: isinstance(app.screen, RowsSheet), "what was not taken back is listed")
            assert await counts(connection) == {"CLAIMED": 1500 - held, "FAILED": held}
    assert 0 < held <= 1500 - at_the_key


async def test_a_hold_is_renewed_and_counted_while_the_sheet_is_open_and_ends_with_it(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_sheet, "RENEW_EVERY_S", 0.05)
    await failed(connection, 3)
    app = SmallConsole(database, view_of(None))
    async with app.run_test(size=WIDE) as pilot:
        await connected(pilot)
        await undoes(pilot, connection)
        await ready(pilot, "3 held", "0 started or changed since", "bob@web-1", "ctrl+y Undo 3 tasks")
        await connection.execute("UPDATE horsies_tasks SET status = 'CLAIMED', claimed_at = now() WHERE id = 'f-2'")
        await ready(pilot, "2 held", "1 started or changed since", "ctrl+y Undo 2 tasks")
        await pilot.press("ctrl+l")
        await until(pilot, lambda: isinstance(app.screen, RowsSheet))
        first = await connection.fetchval("SELECT max(next_retry_at)::text FROM horsies_tasks")
        await comes_true(connection, f"(SELECT max(next_retry_at) > '{first}' FROM horsies_tasks)")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PreviewSheet))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        held = "(SELECT FROM horsies_tasks WHERE status = 'PENDING' AND next_retry_at IS NOT NULL)"
        await comes_true(connection, f"NOT EXISTS {held}")
    assert await counts(connection) == {"PENDING": 2, "CLAIMED": 1}
    assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions WHERE verb = 'undo'") == 0
