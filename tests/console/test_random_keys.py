"""Random keys on every screen: only ctrl+y on a sheet writes, and no key ends the console."""

from __future__ import annotations

import random
import time
from pathlib import Path

import asyncpg
import pytest
from flow_steps import month_end
from task_rows import fill
from task_steps import console
from textual.app import App

SCREENS = ("overview", "tasks", "workers", "workflows", "recovery", "activity")
SIZES = ((170, 40), (120, 52), (120, 40))
"""With a story beside the list, below it, and with the list alone."""
_LETTERS = "abcdefghijklmnoprstuvwxyzABCDEFGHIJKLMNOPRSTUVWXYZ123457"
"""Without q, which leaves."""
_OTHERS = (
    *("enter", "escape", "tab", "shift+tab", "space", "up", "down", "left", "right", "home", "end", "pageup"),
    *("pagedown", "backspace", "delete", "slash", "colon", "question_mark", "exclamation_mark", "asterisk", "at"),
    *(
        "shift+up",
        "shift+down",
        "left_square_bracket",
        "right_square_bracket",
        "plus",
        "minus",
        "comma",
        "greater_than_sign",
    ),
    *("ctrl+l", "ctrl+n", "ctrl+s", "ctrl+g", "ctrl+r", "ctrl+u", "ctrl+d", "ctrl+t", "ctrl+backslash", "ctrl+w"),
    *("ctrl+e", "ctrl+p"),
)
_KEYS = (*_LETTERS, *_OTHERS)


@pytest.fixture(autouse=True)
async def shop(connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where a task that is too long for a clipboard is written
    await fill(connection, 300)
    await month_end(connection)


async def contents(connection: asyncpg.Connection) -> list[object]:
    """The contents of every table that a verb writes to."""
    tables = ("tasks", "workflows", "workflow_tasks", "operator_actions", "worker_orders", "queue_pauses")
    found = [f"horsies_{table}" for table in tables]
    exist = await connection.fetch("SELECT relname FROM pg_class WHERE relname = ANY ($1) ORDER BY 1", found)
    return [
        await connection.fetchval(
            f"SELECT md5(COALESCE(string_agg(row::text, '' ORDER BY row::text), '')) FROM {name} row"
        )
        for (name,) in exist
    ]


async def play(url: str, screen_name: str, seed: int, *, keys: int, seconds: float) -> list[str]:
    """The keys that were pressed, up to a number or a time. If one left the console, it is opened again."""
    choose, pressed = random.Random(seed), list[str]()
    passed = 0.0
    while len(pressed) < keys and passed < seconds:
        async with console(url, choose.choice(SIZES), screen=screen_name) as screen:
            await screen.sees("LIVE")
            began = time.monotonic()
            app: App[int] = screen.app
            while app.is_running and len(pressed) < keys and passed + time.monotonic() - began < seconds:
                key = choose.choice(_KEYS)
                pressed.append(key)
                await screen.press(key)
            assert app._exception is None, pressed[-20:]
            passed += time.monotonic() - began
    return pressed


async def test_no_random_key_writes_or_breaks_anything(database: str, connection: asyncpg.Connection) -> None:
    before = await contents(connection)
    assert len(await play(database, "tasks", seed=1, keys=60, seconds=60)) == 60
    assert await contents(connection) == before


@pytest.mark.chaos
@pytest.mark.parametrize("screen", SCREENS)
async def test_a_minute_of_random_keys(database: str, connection: asyncpg.Connection, screen: str) -> None:
    before = await contents(connection)
    pressed = await play(database, screen, seed=SCREENS.index(screen), keys=100_000, seconds=60)
    assert len(pressed) > 100
    assert await contents(connection) == before
