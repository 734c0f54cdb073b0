"""Keys while the database answers nothing: each changes the screen at once, whatever reads are under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from flow_steps import node, workflow
from frame_steps import console, lines, live, options, until
from textual.pilot import Pilot

from horsies.operations.verb import TaskVerb
from horsies.operations.verbs import VERBS
from horsies_tui.feed.pace import Patience
from horsies_tui.shell import in_turn
from horsies_tui.shell.picker import Picker
from horsies_tui.shell.preview_sheet import PreviewSheet
from horsies_tui.shell.views import TABS

SENT = "INSERT INTO horsies_tasks (id, task_name, queue_name) SELECT 'id-' || n, 'shop.send', 'mail' FROM"
FOREVER_S = 600.0


async def press(pilot: Pilot[int], key: str, holds: Callable[[], bool]) -> None:
    """The key has its effect while the same read hangs that hung before, and the keys go to what is shown."""
    app: Any = pilot.app
    reader, answered = app.link._reader, app.link.status.last_data_at
    assert app.link._reading.locked()
    await pilot.press(key)
    await until(pilot, holds, key)
    assert (app.link._reader, app.link.status.last_data_at) == (reader, answered), key
    assert app.link._reading.locked(), key
    if len(app.screen_stack) == 1 and app.focused is not None:
        assert app.stage.top in (app.focused, *app.focused.ancestors) or app.command_line.display, key


def sheets(pilot: Pilot[int]) -> int:
    return len(pilot.app.screen_stack) - 1


@pytest.mark.parametrize(
    "opened",
    [
        pytest.param(True, id="screens read before", marks=pytest.mark.chaos),
        pytest.param(False, id="screens opened for the first time"),
    ],
)
async def test_each_key_changes_the_screen_while_every_read_hangs(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    # A read is not given up, and a key does not go on without the one before: what waits for either waits for ever.
    monkeypatch.setattr(in_turn, "_KEY_TIMEOUT_S", FOREVER_S)
    await connection.execute(f"{SENT} generate_series(1, 20) AS n")
    await workflow(connection, "w-1", "month_end")
    await node(connection, "w-1", 0, "import", "RUNNING")
    async with BlackholeProxy(database) as proxy, console(options(proxy.url), (140, 40)) as pilot:
        app: Any = pilot.app
        app.link.patience = Patience(statement_s=FOREVER_S, read_s=FOREVER_S)
        await live(pilot)
        await until(pilot, lambda: app.stage.top._table.rows != ())
        if opened:
            for tab in (*TABS, TABS[1]):
                await pilot.press(tab.key)
                await until(pilot, lambda tab=tab: app.stage.top.id == tab.name)
                await until(pilot, lambda: app.stage.top.feed is None or app.stage.top.feed.is_read)
        proxy.silence()
        await pilot.press("ctrl+r")
        await until(pilot, app.link._reading.locked)

        table = app.stage.top._table
        await press(pilot, "j", lambda: table.cursor_index == 1)
        await press(pilot, "G", lambda: table.cursor_index == 19)
        await press(pilot, "space", lambda: len(table.marks) == 1)
        await press(pilot, "C", lambda: isinstance(app.screen, PreviewSheet))
        await press(pilot, "escape", lambda: sheets(pilot) == 0)
        await press(pilot, "escape", lambda: not table.marks)
        await press(pilot, "enter", lambda: app.stage.top.id == "detail")
        await press(pilot, "escape", lambda: app.stage.top.id == "tasks")
        of_tasks = [verb for verb in VERBS.values() if isinstance(verb, TaskVerb) and not verb.on_recovery]
        verbs = [verb.key for verb in of_tasks if verb.fits("PENDING", None)]
        menus = ("question_mark", "s", "e", "t", "c", "ctrl+g", "ctrl+t", "ctrl+p", "exclamation_mark")
        for key in (*menus, *filter(None, verbs)):
            await press(pilot, key, lambda: sheets(pilot) == 1)
            await press(pilot, "escape", lambda: sheets(pilot) == 0)
        for tab in TABS:
            await press(pilot, tab.key, lambda tab=tab: app.stage.top.id == tab.name)
        await press(pilot, "2", lambda: app.stage.top.id == "tasks")
        await press(pilot, "slash", lambda: app.stage.top._filter_bar.editing)
        for typed in ("n", "na", "nam"):
            await press(pilot, typed[-1], lambda typed=typed: f" / {typed} " in "\n".join(lines(pilot)))
        await press(pilot, "escape", lambda: not app.stage.top._filter_bar.editing)
        await press(pilot, "colon", lambda: app.command_line.display)
        await press(pilot, "escape", lambda: not app.command_line.display)
        await press(pilot, "p", lambda: app.stage.top.frozen_at is not None)
        await press(pilot, "p", lambda: app.stage.top.frozen_at is None)
        await press(pilot, "4", lambda: app.stage.top.id == "workflows")
        if opened:
            await press(pilot, "enter", lambda: app.stage.top.id == "workflow")
            await press(pilot, "escape", lambda: app.stage.top.id == "workflows")
        await press(pilot, "at", lambda: isinstance(app.screen, Picker))
        # Leaving the database does not wait for it either, nor does quitting.
        silent = app.link
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.link is not silent and app.stage.top is not None)
