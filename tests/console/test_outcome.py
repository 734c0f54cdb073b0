"""The outcome of each row, and verbs on the rows of a filter, on a real database."""

from __future__ import annotations

from typing import Any

import asyncpg
from textual.pilot import Pilot
from textual.widgets import TextArea
from verb_steps import NOON, REQUEUE, UNICODE, SheetApp, SmallConsole, a_preview, a_task, an_outcome, shown, until

from horsies.operations.selection import Selection
from horsies.operations.target import RowOutcome
from horsies_tui.actions import Scope, bindings
from horsies_tui.intents import FinishedOperation
from horsies_tui.shell.arguments_sheet import ArgumentsSheet
from horsies_tui.shell.outcome import Next, RowsSheet, rows_of_done, rows_of_preview
from horsies_tui.shell.preview_sheet import PreviewSheet
from horsies_tui.view import ConsoleView
from horsies_tui.widgets.row_table import RowTable

WIDE = (140, 40)


def view_of(selected: Selection | None) -> type[ConsoleView[Any]]:
    """A view with this selection, which counts the operations that ended."""

    class Chosen(ConsoleView[None]):
        BINDINGS = bindings(Scope.VERBS)
        ended = 0
        chosen = selected

        def selection(self) -> Selection | None:
            return self.chosen

        def acted(self) -> None:
            self.ended += 1

    return Chosen


async def failed(conn: asyncpg.Connection, count: int, **columns: str) -> None:
    given = {"status": "'FAILED'", "error_code": "'RATE_LIMITED'", "failed_at": "now()", **columns}
    await conn.execute(
        f"INSERT INTO horsies_tasks (id, task_name, queue_name, {', '.join(given)})"
        f" SELECT 'f-' || n, 'shop.charge', 'pay', {', '.join(given.values())} FROM generate_series(1, $1) n",
        count,
    )


async def connected(pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: pilot.app.why_no_writes() is None, "connected")


async def ready(pilot: Pilot[Any], *words: str) -> str:
    await until(pilot, lambda: all(map(shown(pilot.app.screen).__contains__, words)), f"shows {words}")
    return shown(pilot.app.screen)


def a_mixed_outcome() -> FinishedOperation:
    preview = a_preview(3, refused=1)
    outcome = an_outcome(
        preview,
        rows=(RowOutcome(a_task(0), True, "PENDING, try 2"), RowOutcome(a_task(1), False, "it is RUNNING on web-1")),
        in_doubt=(a_task(2),),
        not_attempted=(a_task(3),),
        stopped="the connection was lost",
    )
    return FinishedOperation(REQUEUE, preview, outcome)


def test_what_did_not_go_through_stands_before_what_did() -> None:
    rows = rows_of_done(a_mixed_outcome())
    assert [row.result for row in rows] == ["in doubt", "skipped", "skipped", "not tried", "requeued"]
    assert len({row.id for row in rows}) == len(rows)
    assert [row.result for row in rows_of_preview(REQUEUE, a_preview(1, refused=1))] == ["refused", "will be requeued"]


async def test_each_row_is_shown_with_its_reason_and_opens_and_none_is_marked_or_cut() -> None:
    done = a_mixed_outcome()
    app = SheetApp(RowsSheet("Requeue", rows_of_done(done), NOON, UNICODE, undo=True))
    async with app.run_test(size=WIDE) as pilot:
        text = await ready(pilot, "z undo", "open", "FAILED RATE_LIMITED")
        for words in ("in doubt", "connection lost", "it is RUNNING on web-1", "not tried", "PENDING, try 2"):
            assert words in text
        await pilot.press("space", "a")
        assert not app.screen.query_one(RowTable).marks
        await pilot.press("home", "down", "enter")
        await until(pilot, lambda: bool(app.results))
    assert app.results == [Next(task_id=a_task(1).id)]


async def test_undo_is_offered_only_where_there_is_something_to_undo() -> None:
    for possible, results in ((True, [Next(undo=True)]), (False, [None])):
        app = SheetApp(RowsSheet("Requeue", rows_of_done(a_mixed_outcome()), NOON, UNICODE, undo=possible))
        async with app.run_test(size=WIDE) as pilot:
            await ready(pilot, "esc close")
            assert ("z undo" in shown(app.screen)) == possible
            await pilot.press("z", "escape")
            await until(pilot, lambda: bool(app.results))  # noqa: B023 - awaited within the turn
        assert app.results == results


async def test_a_filter_that_cannot_be_read_is_a_sentence_in_the_sheet(database: str) -> None:
    app = SmallConsole(database, view_of(Selection.of_filter("status:faild")))
    async with app.run_test(size=WIDE) as pilot:
        await connected(pilot)
        await pilot.press("R")
        await ready(pilot, "faild")
        await pilot.press("ctrl+y", "escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)


async def test_a_role_that_may_not_write_is_told_before_it_confirms(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, 1)
    await connection.execute("ALTER TABLE horsies_operator_actions RENAME TO elsewhere")
    app = SmallConsole(database, view_of(Selection.of_ids(["f-1"])))
    async with app.run_test(size=WIDE) as pilot:
        await connected(pilot)
        await pilot.press("R")
        await ready(pilot, "no tables for operator actions", "run `horsies db", "upgrade`")
        await pilot.press("ctrl+y")
    assert await connection.fetchval("SELECT status FROM horsies_tasks") == "FAILED"


async def test_without_a_connection_or_a_row_a_verb_says_so_and_opens_nothing(database: str) -> None:
    app = SmallConsole("postgresql://nobody@/none?host=/nowhere", view_of(Selection.of_ids(["f-1"])))
    async with app.run_test() as pilot:
        await pilot.press("R")
        assert app.said == ["! cannot requeue, not connected"]
        assert len(app.screen_stack) == 1
    app = SmallConsole(database, view_of(None))
    async with app.run_test() as pilot:
        await connected(pilot)
        await pilot.press("T")
        assert app.said == ["retry-now: select a task (↑↓)"]
        assert len(app.screen_stack) == 1


async def test_arguments_are_edited_where_one_task_has_ended_and_they_are_not_too_large(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, 1, kwargs="'{\"x\":\"' || repeat('y', 150000) || '\"}'")
    app = SmallConsole(database, view_of(Selection.of_ids(["f-1"])))
    async with app.run_test(size=WIDE) as pilot:
        await connected(pilot)
        await pilot.press("E")
        await until(pilot, lambda: isinstance(app.screen, ArgumentsSheet))
        await ready(pilot, "too large to edit here (150 kB)")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, PreviewSheet))
        await ready(pilot, "ctrl+y")
        await pilot.press("ctrl+y")
        await until(pilot, lambda: any("1 sent again" in said for said in app.said))
        sizes = await connection.fetch("SELECT DISTINCT length(kwargs) FROM horsies_tasks")
        assert [row[0] for row in sizes] == [150_008]
        # Of edited ones the preview shows each before and after, and masks what is masked.
        await connection.execute("DELETE FROM horsies_tasks")
        await failed(connection, 1, kwargs="""'{"amount": "19,90", "password": "one", "to": "eu"}'""")
        await pilot.press("E")
        await ready(pilot, "19,90")
        area = app.screen.query_one(TextArea)
        area.load_text(area.text.replace("19,90", ".,90").replace("***", "two"))
        await pilot.press("ctrl+s")
        text = await ready(pilot, '"19,90" → ".,90"', "*** → ***", "horsies tasks rerun")
        assert "two" not in text
        assert '"password": "***"' in text, "in the command, too"
        assert text.count("→") == 2
        await pilot.press("tab", "y")
        assert '"password":"two"' in app.clipboard, "the copied command is whole"
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await connection.execute("DELETE FROM horsies_tasks")
        await failed(connection, 1, status="'PENDING'", failed_at="NULL", error_code="NULL")
        await pilot.press("E")
        await ready(pilot, "the task is PENDING: only a finished task can be sent again")
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        # Several are sent again without an editor.
        await connection.execute("DELETE FROM horsies_tasks")
        await failed(connection, 2)
        app._view.chosen = Selection.of_ids(["f-1", "f-2"])
        await pilot.press("E")
        await ready(pilot, "Rerun 2 tasks", "ctrl+y")
        await pilot.press("ctrl+y")
        await until(pilot, lambda: any("2 sent again" in said for said in app.said))
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'PENDING'") == 2


async def test_escape_stops_after_the_rows_at_hand_and_the_account_is_true(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, 1200)
    app = SmallConsole(database, view_of(Selection.of_filter("status:failed")))
    ordered = [row[0] for row in await connection.fetch("SELECT id FROM horsies_tasks ORDER BY id")]
    async with app.run_test(size=WIDE) as pilot:
        await connected(pilot)
        await pilot.press("C", "escape", "R")
        await ready(pilot, "type 1200")
        holding = connection.transaction()
        await holding.start()
        await connection.execute("SELECT FROM horsies_tasks WHERE id = $1 FOR UPDATE", ordered[700])
        await pilot.press("ctrl+y", *"1200", "ctrl+y")
        await ready(pilot, "500 of 1,200 done")
        await pilot.press("escape")
        await ready(pilot, "stopping after this batch")
        await holding.rollback()
        await ready(pilot, "1,000 requeued, 200 not tried: interrupted")
    counts = await connection.fetch("SELECT status, count(*) FROM horsies_tasks GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in counts] == [("FAILED", 200), ("PENDING", 1000)]
    assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions") == 1000
