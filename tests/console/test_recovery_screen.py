"""The recovery screen on a real database: its findings, and keys that change a row and write an audit row."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
from textual.pilot import Pilot
from verb_steps import SmallConsole, shown, until

from horsies.query import parse
from horsies_tui.recovery.view import RecoveryView
from horsies_tui.shell.arguments_sheet import ArgumentsSheet
from horsies_tui.shell.outcome import RowsSheet
from horsies_tui.shell.preview_sheet import PreviewSheet

WIDE = (160, 40)


async def interrupted(conn: asyncpg.Connection, *ids: str, name: str = "shop.build_report") -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at, retry_count, kwargs,"
        " worker_hostname) SELECT id, $2, 'reports', 'FAILED', 'TASK_INTERRUPTED', now() - interval '42 min', 0,"
        ' \'{"path":"a.csv","password":"hunter2"}\', \'web-2\' FROM unnest($1::text[]) AS new (id)',
        list(ids),
        name,
    )


async def ready(pilot: Pilot[Any], *words: str) -> str:
    """The screen, once it shows all of these words."""
    await until(pilot, lambda: all(map(shown(pilot.app.screen).__contains__, words)), f"shows {words}")
    return shown(pilot.app.screen)


async def row_of(conn: asyncpg.Connection, task_id: str = "i-1") -> tuple[Any, ...]:
    return tuple(await conn.fetchrow("SELECT status, error_code FROM horsies_tasks WHERE id = $1", task_id))


async def trail(conn: asyncpg.Connection) -> list[tuple[Any, ...]]:
    rows = await conn.fetch(
        "SELECT verb, target_id, outcome, os_user || '@' || os_host, reason FROM horsies_operator_actions ORDER BY id"
    )
    return [tuple(row) for row in rows]


async def test_an_empty_desk_says_that_all_is_well(database: str) -> None:
    async with SmallConsole(database, RecoveryView).run_test(size=WIDE) as pilot:
        text = await ready(pilot, "Nothing is stuck, and nothing needs action")
        assert "0 need action" in text


async def test_a_finding_shows_evidence_what_will_happen_what_may_be_done_and_why_at_every_size(
    database: str, connection: asyncpg.Connection
) -> None:
    await interrupted(connection, "i-1", "i-2")
    app = SmallConsole(database, RecoveryView)
    async with app.run_test(size=WIDE) as pilot:
        text = await ready(pilot, "interrupted", "why: interrupted shop.build_report")
        for words in (
            "1 needs action",
            "no worker is alive",
            "42m",
            "×2",
            "stopped past its grace on web-2",
            "waits for you",
            "R requeue  F fail  E rerun",
            "Requeueing runs user code again from the start",
            "i-1, i-2",
        ):
            assert words in text
        # A verb that is no way out says which are.
        await pilot.press("C", "z", "o")
        assert app.said == [
            "cancel does not apply to interrupted shop.build_report; R requeue, F fail, E rerun",
            "nothing to undo; horsies audit undo reverts earlier operations",
            "no operation in this session yet",
        ]
        for size in ((120, 40), (80, 24)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: shown(app.screen).count("\n") == size[1] - 1)
            text = await ready(pilot, "interrupted", "R", "waits for you", "stopped past its grace on web-2")
            assert "1 needs action" in text
            assert max(map(len, text.splitlines())) <= size[0]


async def test_requeue_on_a_stale_row_changes_nothing_and_says_what_it_is_now(
    database: str, connection: asyncpg.Connection
) -> None:
    await interrupted(connection, "i-1", "i-2")
    app = SmallConsole(database, RecoveryView)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, "interrupted")
        await pilot.press("R")
        await ready(pilot, "Requeue 2 tasks", "ctrl+y")
        await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED' WHERE id = 'i-2'")
        await pilot.press("ctrl+y")
        await until(pilot, lambda: isinstance(app.screen, RowsSheet))
        text = await ready(pilot, "Requeue: 1 requeued, 1 skipped", "it is CANCELLED now")
        assert text.index("skipped", text.index("RESULT")) < text.index("PENDING, try 1")
        assert await row_of(connection, "i-1") == ("PENDING", None)
        assert await row_of(connection, "i-2") == ("CANCELLED", "TASK_INTERRUPTED")
        await pilot.press("enter")
        await until(pilot, lambda: app.opened == ["i-2"])


async def test_enter_opens_the_task_or_the_list_of_its_rows_and_marked_lines_are_acted_on_together(
    database: str, connection: asyncpg.Connection
) -> None:
    await interrupted(connection, "i-1", "i-2")
    await interrupted(connection, "j-1", name="shop.other one")
    app = SmallConsole(database, RecoveryView)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, "shop.other one", "shop.build_report")
        await pilot.press("g", "enter", "down", "enter")
        await until(pilot, lambda: len(app.opened) == 2)
        assert sorted(app.opened) == ["j-1", "status:interrupted name:shop.build_report queue:reports"]
        assert parse(app.opened[0]).text or parse(app.opened[1]).text
        await pilot.press("a", "R")
        await ready(pilot, "Requeue 3 tasks", "ctrl+y")
        await pilot.press("ctrl+y")
        await until(pilot, lambda: any("3 requeued" in said for said in app.said))
        assert {row[1] for row in await trail(connection)} == {"i-1", "i-2", "j-1"}
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, RowsSheet))
        await pilot.press("z")
        await ready(pilot, "Undo 3 tasks")


async def test_rerun_opens_the_arguments_hides_what_is_masked_and_sends_what_was_edited_and_not_closed(
    database: str, connection: asyncpg.Connection
) -> None:
    await interrupted(connection, "i-1")
    app = SmallConsole(database, RecoveryView)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, "interrupted")
        await pilot.press("E")
        await until(pilot, lambda: isinstance(app.screen, ArgumentsSheet))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 1
        await pilot.press("E")
        text = await ready(pilot, '"path": "a.csv"')
        assert "hunter2" not in text
        area = app.screen.query_one("#arguments")
        area.load_text(area.text.replace('"a.csv"', '"b.csv'))
        await pilot.press("ctrl+s")
        await ready(pilot, "line 4, column")
        area.load_text(area.text.replace('"b.csv', '"b.csv"'))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, PreviewSheet))
        await ready(pilot, "Rerun 1 task", "ctrl+y")
        await pilot.press("ctrl+y")
        await until(pilot, lambda: any("1 sent again" in said for said in app.said))
        stored = await connection.fetchval("SELECT kwargs FROM horsies_tasks WHERE id <> 'i-1'")
        assert json.loads(stored) == {"path": "b.csv", "password": "hunter2"}
        assert await row_of(connection) == ("FAILED", "TASK_INTERRUPTED")
