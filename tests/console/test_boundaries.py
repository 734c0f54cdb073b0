"""What raises while it draws, or handles a key, says so at its place and behind `!`, and ends nothing else."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from feed_steps import send
from task_screen_steps import ONE, failed
from task_steps import console

from horsies_tui.look.damage import Damage
from horsies_tui.overview.view import OverviewView
from horsies_tui.tasks.view import TasksView
from horsies_tui.view import ConsoleView
from horsies_tui.widgets import chart_grid, task_columns

SIZE = (120, 40)


def broken(*_: Any, **__: Any) -> Any:
    raise KeyError("a defect")


async def fails(_self: object) -> None:
    raise KeyError("a defect")


async def test_what_cannot_be_drawn_is_shown_as_damaged_and_the_rest_as_it_is(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, damages: list[Damage]
) -> None:
    await failed(connection, ONE)
    await send(connection, "healthy")
    monkeypatch.setattr(task_columns, "length", broken)  # only what ended has a length
    monkeypatch.setattr("horsies_tui.task.document.links", broken)
    monkeypatch.setattr("horsies_tui.task.view.head", broken)
    monkeypatch.setattr(chart_grid, "chart_lines", broken)
    async with console(database, SIZE) as screen:
        await screen.sees("LIVE", "healthy")
        damaged, healthy = (next(line for line in screen.rows if row_id in line) for row_id in (ONE[-8:], "healthy"))
        assert damaged.startswith(("▌ !", "  !"))
        assert "damag" in damaged or " ! " in damaged
        assert "!" not in healthy
        app: Any = screen.app
        told = app._errors.lines[0].text
        assert f" of task {ONE}, see `horsies tasks show {ONE} --json`: KeyError: 'a defect' (horsies_tui/" in told
        assert len(app._errors.lines) < 4, "once for each place in the code"
        await screen.press("end", "enter")
        await screen.sees("damaged: links of task", "damaged: head of task", "arguments")
        await screen.press("1")
        await screen.sees("damaged: chart finished/s", "damaged: chart wait", "QUEUE")
        assert screen.app.is_running
    assert {type(one.error) for one in damages} == {KeyError}
    damages.clear()


async def test_a_snapshot_that_cannot_be_drawn_leaves_the_one_before_marked_as_old(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, damages: list[Damage]
) -> None:
    await send(connection, "before")
    async with console(database, SIZE, screen="overview") as screen:
        await screen.sees("LIVE", "default")
        with monkeypatch.context() as patch:
            patch.setattr(OverviewView, "_show_verdict", broken)
            await send(connection, "after")
            await screen.sees("overview FAILED", "figures of", "damaged: the screen overview", "KeyError", "default")
        await send(connection, "later")
        await screen.sees("LIVE", "3")
        assert "FAILED" not in screen.text
    damages.clear()


async def test_a_key_a_timer_and_work_beside_the_screen_may_fail(
    database: str, monkeypatch: pytest.MonkeyPatch, damages: list[Damage]
) -> None:
    monkeypatch.setattr(TasksView, "action_follow", broken)
    monkeypatch.setattr(TasksView, "_tick", broken)
    monkeypatch.setattr(ConsoleView, "tick", broken)
    async with console(database, SIZE) as screen:
        await screen.sees("LIVE")
        screen.view.run_worker(fails(screen), exclusive=True)
        await screen.press("f", "exclamation_mark")
        await screen.sees("not handled: timer", "not handled: work beside the screen", "the ages on the screen tasks")
        assert any(one.text.startswith("not handled: Key of") for one in damages)
        await screen.press("escape", "1")
        await screen.sees("No worker yet; no tasks waiting.")
    damages.clear()
