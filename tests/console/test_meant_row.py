"""The cursor stays on its row while others are added and removed, and a verb never acts on another row."""

from __future__ import annotations

import asyncpg
import pytest
from flow_steps import node, workflow
from task_rows import fill
from task_steps import Screen, console
from verb_steps import until

from horsies_tui.shell.preview_sheet import PreviewSheet
from horsies_tui.workflows.view import WorkflowsView


async def send(connection: asyncpg.Connection, *ids: str) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, created_at, sent_at, enqueued_at)"
        " SELECT id, 'just_sent', 'mail', clock_timestamp(), now(), now() FROM unnest($1::text[]) AS id",
        list(ids),
    )


@pytest.fixture
async def rows(connection: asyncpg.Connection) -> None:
    await fill(connection, 300)


def cursor(screen: Screen) -> str | None:
    return screen.view._table.cursor_id


def first(screen: Screen) -> str:
    return screen.view._table.rows[0].id


@pytest.mark.usefixtures("rows")
async def test_while_the_list_follows_the_cursor_stays_on_its_row_and_on_no_other_once_that_has_left(
    database: str, connection: asyncpg.Connection
) -> None:
    async with console(database) as screen:
        await screen.sees("FOLLOW")
        mine = cursor(screen)
        assert mine is not None
        for number in range(4):
            await send(connection, f"sent-{number}")
            await until(screen.pilot, lambda number=number: first(screen) == f"sent-{number}")
            assert cursor(screen) == mine
        assert "FOLLOW" in screen.text
        await screen.press("C")
        await screen.sees("Cancel 1 task", mine)
        await screen.press("escape")
        # No verb meets another row in the place of one that has left.
        await send(connection, *(f"sent-{number:02}" for number in range(60)))
        await until(screen.pilot, lambda: cursor(screen) is None)
        await screen.press("C")
        await screen.sees("select a task (↑↓)")
        assert not isinstance(screen.app.screen, PreviewSheet)
        await screen.press("j")
        assert cursor(screen) == first(screen)


@pytest.mark.usefixtures("rows")
async def test_the_sheet_shows_what_its_key_met_and_after_it_the_cursor_is_on_no_other_row(
    database: str, connection: asyncpg.Connection
) -> None:
    async with console(database, filter="status:failed") as screen:
        await screen.sees("match")
        # A second star unmarks nothing.
        await screen.press("space", "asterisk")
        await screen.sees("chosen: all that match status:failed", "instead of the 1 marked")
        await screen.press("asterisk")
        await screen.sees("already chosen: all that match status:failed")
        await screen.press("escape")
        await screen.loses("all that match")
        await screen.press("j", "j")
        mine = cursor(screen)
        await screen.press("R")
        await screen.sees("ctrl+y Requeue 1 task")
        await connection.execute(
            "UPDATE horsies_tasks SET status = 'FAILED', failed_at = now() WHERE status <> 'FAILED' AND id <> $1", mine
        )
        assert mine is not None
        await screen.press("ctrl+y")
        await screen.sees("1 requeued")
        acted_on = await connection.fetch("SELECT target_id FROM horsies_operator_actions")
        assert [row["target_id"] for row in acted_on] == [mine]
        await until(screen.pilot, lambda: cursor(screen) != mine)
        assert cursor(screen) is None
        await screen.press("R")
        await screen.sees("select a task (↑↓)")
    assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions") == 1


async def test_where_a_single_row_is_left_the_second_press_of_a_key_is_for_it(
    database: str, connection: asyncpg.Connection
) -> None:
    for number in range(2):
        await workflow(connection, f"w-{number}", f"flow_{number}")
        await node(connection, f"w-{number}", 0, "only", "PENDING")
    async with console(database, screen="workflows") as screen:
        await screen.sees("flow_0", "flow_1")
        rows = screen.app.query_one(WorkflowsView)._table
        mine = rows.cursor_id
        await connection.execute("DELETE FROM horsies_workflow_tasks WHERE workflow_id = $1", mine)
        await connection.execute("DELETE FROM horsies_workflows WHERE id = $1", mine)
        await screen.press("ctrl+r")
        await until(screen.pilot, lambda: len(rows.rows) == 1)
        await screen.press("C")
        await screen.sees("the workflow under the cursor has disappeared; the remaining one is now selected")
        assert not isinstance(screen.app.screen, PreviewSheet)
        await screen.press("C")
        await screen.sees("Cancel 1 workflow")
