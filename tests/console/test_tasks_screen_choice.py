"""The targets of a verb, and the keys that give waiting tasks another priority, queue or time."""

from __future__ import annotations

import asyncpg
import pytest
from task_rows import fill
from task_steps import Screen, console
from verb_steps import until

from horsies.operations.selection import Selection
from horsies_tui.shell.preview_sheet import PreviewSheet
from horsies_tui.widgets.prompt import Prompt


@pytest.fixture
async def rows(connection: asyncpg.Connection) -> None:
    await fill(connection, 300)


def end(number: int) -> str:
    return f"{number:012x}"


def chosen(screen: Screen) -> list[str] | str | None:
    """The ends of the selected ids, or the filter."""
    selection: Selection | None = screen.view.selection()
    if selection is None or selection.filter is not None:
        return None if selection is None else selection.filter
    return sorted(task_id[-12:] for task_id in selection.ids)


@pytest.mark.usefixtures("rows")
async def test_it_is_the_row_under_the_cursor_or_what_is_marked_of_this_filter_or_a_whole_group(database: str) -> None:
    async with console(database) as screen:
        await screen.sees("FOLLOW")
        await screen.press("j", "j")
        assert chosen(screen) == [end(3)]
        # Without a filter, a star would choose the whole table.
        await screen.press("g", "asterisk")
        await screen.sees("this would select every task in the table")
        assert chosen(screen) == [end(1)]
        await screen.press("space", "j", "j", "space", "j", "j", "m")
        await screen.sees("● 4 marked")
        assert chosen(screen) == [end(1), end(3), end(4), end(5)]
        await screen.press("escape")
        await screen.loses("marked")
        assert chosen(screen) == [end(5)]
        # Another filter lets marks go, so that nothing unseen is acted on.
        await screen.press("g", "space")
        await screen.sees("● 1 marked")
        await screen.filter("status:failed")
        await screen.sees("match")
        assert "marked" not in screen.text
        assert chosen(screen) == [end(2)]
        failed = len(screen.view._snapshot.rows)
        await screen.press("a")
        await screen.sees(f"● {failed} marked")
        assert len(chosen(screen) or ()) == failed
        await screen.press("escape")
        await screen.loses("marked")
        # A verb on a group is meant for the whole group.
        await screen.press("e", "e")
        await screen.sees("SHARE", "RATE_LIMITED")
        assert chosen(screen) == "status:failed error:RATE_LIMITED"
        await screen.press("space", "j", "space")
        assert str(chosen(screen)).startswith("status:failed error:RATE_LIMITED,")


@pytest.mark.usefixtures("rows")
async def test_a_star_chooses_all_that_match_as_the_order_shows_it_or_all_groups_and_without_rows_it_is_nothing(
    database: str,
) -> None:
    async with console(database, filter="status:failed -error:TIMEOUT") as screen:
        await screen.sees("match")
        await screen.press("e", "e")
        await screen.sees("SHARE", "RATE_LIMITED")
        await screen.press("asterisk", "y")
        await screen.sees("RATE_LIMITED sent to the terminal")
        assert screen.app.clipboard == "RATE_LIMITED"
        assert chosen(screen) == "status:failed -error:TIMEOUT error:RATE_LIMITED,TASK_INTERRUPTED"
        await screen.press("escape", "escape")
        await screen.sees("STATE")
        await screen.filter("queue:mail")
        await screen.sees("/ queue:mail", "match")
        await screen.press("asterisk")
        await screen.sees("chosen: all that match queue:mail")
        assert chosen(screen) == "queue:mail"
        await screen.press("s", "w")
        await screen.sees("next to be claimed")
        assert chosen(screen) == "status:pending,retry queue:mail"
        await screen.press("escape")
        assert chosen(screen) != "queue:mail"
        await screen.filter("queue:nowhere")
        await screen.sees("No task matches.")
        assert chosen(screen) is None
        await screen.press("C")
        await screen.sees("select a task (↑↓)")


@pytest.mark.usefixtures("rows")
async def test_requeue_of_all_that_match_changes_the_rows_and_the_list(
    database: str, connection: asyncpg.Connection
) -> None:
    async with console(database, filter="error:TIMEOUT") as screen:
        await screen.sees("match")
        before = await connection.fetchval(
            "SELECT count(*) FROM horsies_tasks WHERE error_code = 'TIMEOUT' AND status = 'FAILED'"
        )
        await screen.press("asterisk", "R")
        await screen.sees(f"Requeue {before} tasks", "filter", "error:TIMEOUT")
        await screen.press("ctrl+y")
        await screen.sees(f"{before} requeued")
        left = await connection.fetchval(
            "SELECT count(*) FROM horsies_tasks WHERE error_code = 'TIMEOUT' AND status = 'FAILED'"
        )
        assert (before > 0, left) == (True, 0)


async def kept(screen: Screen, connection: asyncpg.Connection) -> set[tuple[str, int, bool]]:
    rows = await connection.fetch("SELECT queue_name, priority, enqueued_at > now() FROM horsies_tasks")
    return {tuple(row) for row in rows}


async def confirmed(screen: Screen, words: str) -> None:
    await screen.sees(words)
    await until(screen.pilot, lambda: isinstance(screen.app.screen, PreviewSheet))
    await screen.press("ctrl+y")
    await until(screen.pilot, lambda: not isinstance(screen.app.screen, PreviewSheet))


async def test_marked_tasks_get_another_priority_queue_and_time_and_the_last_is_undone(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, sent_at)"
        " SELECT 'waits-' || n, 'shop.add', 'mail', now() FROM generate_series(1, 2) n"
    )
    async with console(database) as screen:
        await screen.sees("waits-1")
        await screen.press("a", "I")
        await screen.sees("PENDING, priority 100")  # what they have now, which the first key replaces
        await screen.press(*"500")
        await screen.sees("'500' is not a priority")
        await screen.press("enter")
        assert isinstance(screen.app.screen, Prompt), "what is wrong opens no sheet"
        await screen.press("backspace", "backspace")
        await screen.sees("PENDING, priority 5")
        await screen.press("enter")
        await screen.sees("horsies tasks reprioritise waits-")
        await confirmed(screen, "ctrl+y Reprioritise 2 tasks")
        assert await kept(screen, connection) == {("mail", 5, False)}

        await screen.press("a", "M")
        await screen.sees("PENDING in mail")
        await screen.press(*"bulk", "enter")
        await screen.sees("no living worker serves the queue bulk")
        await confirmed(screen, "ctrl+y Move 2 tasks")
        assert await kept(screen, connection) == {("bulk", 5, False)}

        await screen.press("a", "B", *"in 10m")
        await screen.sees("PENDING, due 20")
        await screen.press("enter")
        await confirmed(screen, "ctrl+y Reschedule 2 tasks")
        assert await kept(screen, connection) == {("bulk", 5, True)}

        await screen.press("z")
        await confirmed(screen, "ctrl+y Undo")
        assert await kept(screen, connection) == {("bulk", 5, False)}
