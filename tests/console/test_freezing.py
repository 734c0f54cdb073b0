"""`p` freezes the shown view, says so there, and resumes it there; no other view is frozen."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from feed_steps import send
from task_steps import console
from worker_steps import hold, tell

from horsies.views.series import WorkerPoint, worker_series

NAMES = {
    "1": "overview",
    "2": "tasks",
    "3": "workers",
    "4": "workflows",
    "5": "recovery",
    "6": "schedules",
    "7": "activity",
}


def header(screen: object) -> str:
    return str(screen.text).splitlines()[0]  # type: ignore[attr-defined]


async def test_each_screen_freezes_and_goes_on_by_the_same_key_and_is_found_frozen_again_and_no_other_one_is(
    database: str, connection: asyncpg.Connection
) -> None:
    await send(connection, "019a0001")
    async with console(database) as screen:
        await screen.sees("LIVE")
        for key in NAMES:
            await screen.press(key, "p")
            await screen.sees("FROZEN ")
            assert "LIVE" not in header(screen)
            await screen.press("p")
            await screen.sees("LIVE")
            assert "FROZEN" not in header(screen)
        await screen.press("2")
        await screen.sees("019a0001", "FOLLOW")
        await screen.press("p")
        await screen.sees("FROZEN")
        since = header(screen)[header(screen).index("FROZEN") :][:16]
        await send(connection, "019a0002")
        for key in "13456":
            await screen.press(key)
            await screen.sees("LIVE")
            assert "FROZEN" not in screen.text
        await screen.press("2")
        await screen.sees(since)
        assert "019a0002" not in screen.text
        await screen.press("ctrl+r")
        await screen.sees("this view is frozen: p makes it live again")
        assert "019a0002" not in screen.text
        await screen.press("enter")
        await screen.sees("timeline", "LIVE")
        await screen.press("p")
        await screen.sees("FROZEN")
        await screen.press("escape")
        await screen.sees(since)
        await screen.press("p")
        await screen.sees("019a0002", "LIVE")


async def test_the_desk_of_the_header_goes_on_while_the_recovery_screen_is_frozen(
    database: str, connection: asyncpg.Connection
) -> None:
    async with console(database, screen="recovery") as screen:
        await screen.sees("Nothing is stuck, and nothing needs action")
        await screen.press("p")
        await screen.sees("FROZEN")
        await send(connection, "019a0001")
        await connection.execute(
            "UPDATE horsies_tasks SET status = 'FAILED', error_code = 'TASK_INTERRUPTED', failed_at = now()"
        )
        await screen.sees("▲ 1 needs action")
        assert "Nothing is stuck, and nothing needs action" in screen.text
        await screen.press("p")
        await screen.sees("interrupted")


async def test_a_list_of_workers_that_is_frozen_at_once_reads_what_its_worker_holds(
    database: str, connection: asyncpg.Connection
) -> None:
    """What the cursor newly requests is read, also for another worker; the list stands still."""
    for host in ("web-1", "web-2"):
        await hold(connection, await tell(connection, host, 7), f"of-{host}")
    async with console(database, (160, 40), screen="overview") as screen:
        await screen.sees("LIVE")
        began, go_on = asyncio.Event(), asyncio.Event()

        async def late(*request: Any) -> tuple[WorkerPoint, ...]:
            began.set()
            await go_on.wait()
            return await worker_series(*request)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("horsies_tui.workers.feed.worker_series", late)
            await screen.press("3")
            await screen.sees("web-1:7", "Reading its tasks")
            await began.wait()
            await screen.press("p")
            await screen.sees("FROZEN")
            go_on.set()
        await screen.sees("of-web-1")
        await tell(connection, "web-3", 7)
        await screen.press("down")
        await screen.sees("of-web-2")
        assert "Reading" not in screen.text
        assert "web-3" not in screen.text
