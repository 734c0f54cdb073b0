"""The footer names the keys that apply to the current selection, and no others."""

from __future__ import annotations

import asyncpg
from feed_steps import send
from task_steps import console
from verb_steps import until
from worker_steps import hold, tell

SHOWN = {
    "019a0005": ("FAILED", "TASK_INTERRUPTED", {"R requeue", "F fail"}, {"C cancel"}),
    "019a0004": ("PENDING", None, {"C cancel", "F fail"}, {"R requeue"}),
    "019a0003": ("COMPLETED", None, {"R requeue"}, {"F fail", "C cancel"}),
    "019a0002": ("RUNNING", None, {"R requeue", "F fail", "C cancel"}, set()),
    "019a0001": ("FAILED", "RATE_LIMITED", {"R requeue"}, {"F fail", "C cancel"}),
}
"""From the first row down; the footer of no row would do for the next one."""


async def test_a_row_is_offered_what_its_state_allows(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, *reversed(SHOWN))
    for task_id, (status, code, _, _) in SHOWN.items():
        await connection.execute(
            "UPDATE horsies_tasks SET status = $1, error_code = $2 WHERE id = $3", status, code, task_id
        )
    async with console(database) as screen:
        for task_id, (_, _, offered, hidden) in SHOWN.items():
            await until(screen.pilot, lambda task_id=task_id: task_id in screen.cursor, "its row")
            await screen.sees(*offered)
            for words in hidden:
                await until(screen.pilot, lambda words=words: words not in screen.text.splitlines()[-1], "hidden")
            await screen.press("j")


async def test_another_row_is_another_footer_and_no_row_none(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "019a0001", "019a0002")
    await connection.execute("UPDATE horsies_tasks SET status = 'COMPLETED' WHERE id = '019a0001'")
    async with console(database) as screen:
        await screen.sees("▌  · pending     019a0002", "C cancel")
        await screen.press("j")
        await screen.sees("▌  ✓ completed   019a0001", "R requeue")
        await screen.loses("C cancel")
        await screen.press("space", "k", "space")
        await screen.sees("2 marked", "C cancel", "R requeue")
        await screen.press("escape")
        await screen.filter("name:nothing")
        await screen.sees("No task matches", "/ filter")
        for words in ("↵ open", "space mark", "R requeue", "C cancel"):
            assert words not in screen.text.splitlines()[-1]


async def test_only_a_living_worker_is_offered_a_drain_and_only_a_dead_one_a_recovery_also_on_the_desk(
    database: str, connection: asyncpg.Connection
) -> None:
    await tell(connection, "web-1", 1)
    await hold(connection, await tell(connection, "web-2", 2, ago_s=600), "t-1", status="CLAIMED", ago_s=600)
    async with console(database, screen="workers") as screen:
        await screen.sees("web-1:1", "web-2:2", "W recover")
        await screen.loses("D drain")
        await screen.press("j")
        await screen.sees("D drain")
        await screen.loses("W recover")
        await screen.press("5")
        await screen.sees("worker lost", "W recover")
        footer = screen.text.splitlines()[-1]
        assert "X reconcile" not in footer
        assert "R requeue" not in footer


async def test_an_outcome_offers_its_undo_for_a_minute_before_the_keys(
    database: str, connection: asyncpg.Connection
) -> None:
    await send(connection, "019a0001")
    async with console(database) as screen:
        await screen.sees("C cancel")
        await screen.press("C")
        await screen.sees("ctrl+y Cancel 1 task")
        await screen.press("ctrl+y")
        await screen.sees("1 cancelled (o rows, z undo)")
        footer = screen.app.footer
        assert [timer._interval for timer in footer._running_out] == [8, 60]
        footer.message_over()
        await screen.sees("1 cancelled: z undo   ", "? help")
        await screen.press("z")
        await screen.sees("Undo cancel of 1 task · ", "ctrl+y Undo 1 task")
        assert "1 cancelled" not in screen.text.splitlines()[-1], "a sheet has keys of its own"
        await screen.press("escape")
        await screen.sees("1 cancelled: z undo   ")
        # An error that comes from elsewhere does not take the offer away.
        screen.app.say_error("the database is slow")
        await screen.sees("the database is slow")
        footer.message_over()
        await screen.sees("1 cancelled: z undo   ")
        footer.offer_over()
        await screen.loses("1 cancelled: z undo")
