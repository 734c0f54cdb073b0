"""Statistics by task name in the task list: each figure is plain SQL's, each row leads to its tasks."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from task_rows import fill
from task_steps import console


@pytest.fixture
async def shop(database: str, connection: asyncpg.Connection) -> str:
    await fill(connection, 3_000)  # sent within 25 minutes
    # None of them ends in the future, as the newest of the shop do.
    await connection.execute("DELETE FROM horsies_tasks WHERE COALESCE(completed_at, failed_at) > now()")
    await connection.execute("UPDATE horsies_tasks SET retry_count = 3 WHERE task_name = 'charge_card'")
    return database


async def test_windows_groupings_and_empty_ones_say_what_to_do(shop: str) -> None:
    async with console(shop, (80, 24)) as screen:
        await screen.sees("FOLLOW")
        await screen.press("n", "right_square_bracket")
        await screen.press("e", "s")
        await screen.sees("last 1h", "n next grouping", "charge_card")
        assert "fail  " not in screen.text.splitlines()[-1]
        await screen.press("left_square_bracket", "left_square_bracket")
        await screen.sees("last 5m", "charge_card")
        await screen.press("n")
        await screen.sees("by task name", "TASKS")
        await screen.press("n", "n", "n", "n")
        await screen.sees("last 1h", "charge_card")
        await screen.press("escape")
        await screen.sees("FOLLOW")
        await screen.filter("queue:none")
        await screen.sees("No task matches")
        await screen.press("e", "s")
        await screen.sees("No task that matches ended in the last 1h. ] widens the window")


async def test_marked_names_are_chosen_with_their_window_and_y_takes_a_name(shop: str) -> None:
    async with console(shop, filter="status:failed -name:none") as screen:
        await screen.sees("match")
        await screen.press("e", "s")
        await screen.sees("100.0%", "charge_card")
        await screen.press("s", "n", "home", "space", "j", "space")
        await screen.sees("● 2 marked")
        selection: Any = screen.view.selection()
        assert str(selection.filter).startswith("status:failed -name:none name:charge_card,nightly_import ended:>=20")
        await screen.press("escape", "asterisk")
        await screen.sees("● 5 marked")
        await screen.press("y")
        await screen.sees("nightly_import sent to the terminal")
