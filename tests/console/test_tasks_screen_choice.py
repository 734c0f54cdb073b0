"""The targets of a verb: the row under the cursor, the marks, a range, all that match, or a whole group."""

from __future__ import annotations

import asyncpg
import pytest
from task_rows import fill
from task_steps import Screen, console

from horsies.operations.selection import Selection

pytestmark = pytest.mark.usefixtures("rows")


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


async def test_a_star_chooses_all_that_match_as_the_order_shows_it_and_without_rows_it_is_nothing(
    database: str,
) -> None:
    async with console(database, filter="queue:mail") as screen:
        await screen.sees("match")
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
        await screen.sees("no task is chosen")


async def test_a_star_among_groups_marks_them_all_and_y_takes_a_name(database: str) -> None:
    async with console(database, filter="status:failed -error:TIMEOUT") as screen:
        await screen.sees("match")
        await screen.press("e", "e")
        await screen.sees("SHARE", "RATE_LIMITED")
        await screen.press("asterisk", "y")
        await screen.sees("RATE_LIMITED sent to the terminal")
        assert screen.app.clipboard == "RATE_LIMITED"
        assert chosen(screen) == "status:failed -error:TIMEOUT error:RATE_LIMITED,TASK_INTERRUPTED"


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
