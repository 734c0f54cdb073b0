"""The keys that give waiting tasks another priority, queue or time: a line asks for the value, then the sheet opens."""

from __future__ import annotations

import asyncpg
from task_steps import Screen, console
from verb_steps import until

from horsies_tui.shell.preview_sheet import PreviewSheet
from horsies_tui.widgets.prompt import Prompt


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
