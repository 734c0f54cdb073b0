"""Whatever the rows contain, each screen and sheet opens, marks what is damaged, and shows healthy rows as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import pytest
from damage_scene import copied, damaged, store, templates
from task_steps import Screen, console
from verb_steps import until

from horsies.operations.selection import Selection
from horsies.operations.verb import TaskVerb, Verb
from horsies.operations.verbs import VERBS
from horsies_tui.intents import Intent
from horsies_tui.recording.codec import Decoder, Encoder
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.shell.preview_sheet import PreviewSheet, SheetPhase
from horsies_tui.widgets.rows_view import FilteredView

BESIDE = (170, 60)
"""Lists with the story of their row."""
SCREENS: Final = {
    "overview": "",
    "tasks": "status:failed,running since:1000d",
    "workers": "host:we*",
    "workflows": "status:running",
    "recovery": "",
    "schedules": "name:every-*",
    "activity": "verb:requeue",
}
"""Each with a filter."""
HEALTHY: Final = 90_000
"""The first number of a family without damage."""
_MOST: Final = 1_000
"""Rows of one preview."""
_IDS: Final = {
    "task": "SELECT id FROM horsies_tasks",
    "workflow": "SELECT id FROM horsies_workflows",
    "worker": "SELECT DISTINCT worker_id FROM horsies_worker_states",
    "queue": "SELECT queue_name FROM horsies_queue_state",
    "schedule": "SELECT schedule_name FROM horsies_schedule_state",
    "session": "SELECT pid::text FROM pg_stat_activity",
    "operation": "SELECT max(operation_id::text) FROM horsies_operator_actions",
}


async def prepare(conn: asyncpg.Connection, *, in_every_way: bool = False) -> None:
    families = templates(datetime.now(UTC))
    assert await damaged(conn, families, in_every_way=in_every_way)
    healthy = {str(number): copied(family, str(number)) for number, family in enumerate(families.values(), HEALTHY)}
    assert not any((await store(conn, healthy)).values())


def app_of(screen: Screen) -> ConsoleApp:
    assert isinstance(screen.app, ConsoleApp)
    return screen.app


async def rests(screen: Screen, what: str, holds: Callable[[], bool] = lambda: True) -> None:
    """Wait until all of the shown view is read, and see that no read and no draw failed."""
    app = app_of(screen)

    def is_read() -> bool:
        view: Any = app.stage.top
        if view is None or not holds():
            return False
        feed: Any = view.feed or app.recovery
        return bool(app.link.status.failing) or (not feed.snapshot.loading and feed.is_read)

    await until(screen.pilot, is_read, what)
    assert app.is_running, what
    assert not app.link.status.failing, f"{what}: {app.link.status.failing}"
    can_be_recorded(app)


def can_be_recorded(app: ConsoleApp) -> None:
    view: Any = app.stage.top
    feed, encoder, decoder = view.feed or app.recovery, Encoder(lambda value: value), Decoder()
    for part in feed.parts():
        values = tuple(getattr(feed.snapshot, field) for field in part.fields)
        told = encoder.encode(values)
        classes, objects = encoder.take()
        decoder.learn(classes, [json.loads(each) for each in objects])
        decoder.decode(json.loads(json.dumps(told)))


async def close_sheets(screen: Screen) -> None:
    while len(screen.app.screen_stack) > 1:
        await screen.press("escape")


async def go(screen: Screen, name: str) -> None:
    await screen.press(str(list(SCREENS).index(name) + 1))
    await rests(screen, name, lambda: app_of(screen).stage.top is app_of(screen).stage.made(name))


async def walk(screen: Screen, name: str) -> None:
    """Through the rows, another order, a filter, and what enter opens; the graph's timeline."""
    await go(screen, name)
    await screen.press("end", "home", "s", "down", "enter")
    await close_sheets(screen)
    view = app_of(screen).stage.top
    if isinstance(view, FilteredView):
        view.filter_by(SCREENS[name])
        await rests(screen, f"{name} {SCREENS[name]}")
    await screen.press("home", "right_square_bracket", "enter")
    await rests(screen, f"what enter opens on {name}")
    await screen.press("g", "end", "left", "enter", "u")
    await rests(screen, f"the second level of {name}")


async def preview(screen: Screen, conn: asyncpg.Connection, verbs: Iterable[Verb]) -> None:
    """Each verb, on all rows of its kind at once; of nodes and operations on one."""
    app = app_of(screen)
    for verb in verbs:
        options: dict[str, Any] = {}
        if isinstance(verb, TaskVerb) and verb.gives is not None:
            options = dict(verb.checked(verb.gives.read(verb.gives.example.removeprefix("as in ").split(",")[0])))
        if verb.kind == "node":
            selection = Selection.of_node(await conn.fetchval("SELECT min(id) FROM horsies_workflows"), 0)
            options = {"value": "null"} if "value" in {option.name for option in verb.options} else {}
        else:
            selection = Selection.of_ids(
                [row[0] for row in await conn.fetch(f"{_IDS[verb.kind]} LIMIT {_MOST}") if row[0]]
            )
        view = app.stage.top
        assert view is not None
        undoes = "task" if verb.kind == "operation" else None
        app._verbs._preview(Intent(verb, selection, options=options, undoes=undoes), view)
        await until(screen.pilot, lambda: isinstance(app.screen, PreviewSheet), f"the sheet of {verb.name}")
        sheet = app.screen
        assert isinstance(sheet, PreviewSheet)
        await is_previewed(screen, sheet)
        await close_sheets(screen)
        assert app.is_running, verb.name


async def is_previewed(screen: Screen, sheet: PreviewSheet) -> None:
    await until(screen.pilot, lambda: sheet._phase is not SheetPhase.READING, "the preview")
    assert sheet._preview is not None, screen.text


def line_of(screen: Screen, row_id: str) -> str:
    return next(line for line in screen.text.splitlines() if row_id in line)


async def test_every_screen_survives_every_damage(database: str, connection: asyncpg.Connection) -> None:
    await prepare(connection)
    await connection.execute("UPDATE horsies_tasks SET created_at = 'infinity' WHERE id = $1", f"task-{HEALTHY + 4}")
    async with console(database, BESIDE) as screen:
        await screen.sees("LIVE")
        await go(screen, "tasks")
        await screen.press("home")
        await screen.sees("damaged ", "row.created_at  ")
        # Without the word of the state, which gives way if a row in view needs its room.
        assert re.search(r"!✗ .*…sk-90004 add +default", line_of(screen, "…sk-90004"))
        assert re.search(r"  ▶ .*…sk-90003 add +default", line_of(screen, "…sk-90003"))
        for name in SCREENS:
            await walk(screen, name)
        await preview(screen, connection, {verb.kind: verb for verb in VERBS.values()}.values())


@pytest.mark.chaos
async def test_every_screen_and_preview_survives_every_value(database: str, connection: asyncpg.Connection) -> None:
    await prepare(connection, in_every_way=True)
    async with console(database, BESIDE) as screen:
        await screen.sees("LIVE")
        for name in SCREENS:
            await walk(screen, name)
        await preview(screen, connection, VERBS.values())


@pytest.mark.chaos
async def test_every_story_survives_every_damage(database: str, connection: asyncpg.Connection) -> None:
    await prepare(connection, in_every_way=True)
    ids = {kind: [row[0] for row in await connection.fetch(_IDS[kind])] for kind in ("task", "workflow")}
    async with console(database, story=False) as screen:
        await screen.sees("LIVE")
        app = app_of(screen)
        for name, open_one, rows in (
            ("detail", app.open_task, ids["task"]),
            ("workflow", app.show_workflow, ids["workflow"]),
        ):
            for one in filter(None, rows):
                open_one(one)

                def is_shown(name: str = name, one: str = one) -> bool:
                    view: Any = app.stage.top
                    return view is not None and view.id == name and view.feed.snapshot.text == one

                await rests(screen, f"{name} {one!r}", is_shown)
