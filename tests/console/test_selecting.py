"""Text can be selected with the mouse, and is copied when the button is released."""

from __future__ import annotations

import asyncpg
from feed_steps import send
from task_steps import console


async def test_a_part_of_a_row_is_selected_and_copied(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "019a0001")
    async with console(database) as screen:
        text = await screen.sees("019a0001")
        y, line = next((y, line) for y, line in enumerate(text.splitlines()) if "019a0001" in line)
        x = line.index("demo.add")
        await screen.pilot.mouse_down(None, offset=(x, y))
        await screen.pilot.hover(None, offset=(x + 8, y))
        await screen.pilot.mouse_up(None, offset=(x + 8, y))
        await screen.sees("8 B sent to the terminal (OSC 52)")
        assert screen.app.clipboard == "demo.add"
