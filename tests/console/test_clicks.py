"""Clicks while screens change: they reach only the view that is shown, and there is one."""

from __future__ import annotations

import asyncio
import inspect
import random
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from flow_steps import month_end
from frame_steps import console, lines, live, options, until
from schedule_scene import AT_HALF_PAST_TWO, add_run, add_schedule, add_scheduler, definition
from task_rows import fill
from textual import events
from textual.pilot import Pilot

from horsies_tui.shell.stage import ViewStage
from horsies_tui.shell.views import TABS, VIEWS
from horsies_tui.view import ConsoleView

SIZE = (140, 40)


@pytest.fixture(autouse=True)
async def shop(connection: asyncpg.Connection) -> None:
    await fill(connection, 50)
    await month_end(connection)
    await add_schedule(connection, "nightly", definition(AT_HALF_PAST_TWO), next_s=7_500, runs=41)
    await add_run(connection, "nightly", 600, "COMPLETED", took_s=62)
    await add_scheduler(connection, "nightly")


def click(pilot: Pilot[int], x: int, y: int) -> None:
    """A click as the terminal sends it. Its effect is not awaited."""
    for kind in (events.MouseDown, events.MouseUp):
        pilot.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False))


async def place(pilot: Pilot[int], word: str) -> tuple[int, int]:
    found: list[tuple[int, int]] = []

    def looks() -> bool:
        found[:] = [(line.index(word) + 1, y) for y, line in enumerate(lines(pilot)) if word in line]
        return bool(found)

    await until(pilot, looks, word)
    return found[0]


def displayed(pilot: Pilot[int]) -> list[Any]:
    return [view for view in pilot.app.stage.query(ConsoleView) if view.display]


def views_on_the_stack() -> set[ConsoleView[Any]]:
    """The views in whose methods this is called."""
    made_by = (frame.frame.f_locals.get("self") for frame in inspect.stack())
    return {view for view in made_by if isinstance(view, ConsoleView)}


async def test_a_click_and_a_key_at_once_leave_the_view_that_was_wanted_last(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workflow took longer to make than the schedules, and was then shown over them: their keys had its focus."""
    mount, schedules_shown = ViewStage.mount, asyncio.Event()

    async def slowly(stage: ViewStage, view: ConsoleView[Any]) -> None:
        await mount(stage, view)
        if view.id == "workflow":
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await schedules_shown.wait()

    async with console(options(database, screen="workflows"), SIZE) as pilot:
        app: Any = pilot.app
        await live(pilot)
        at = await place(pilot, "month_end")
        monkeypatch.setattr(ViewStage, "mount", slowly)
        click(pilot, *at)
        click(pilot, *at)
        await until(pilot, lambda: app.stage.made("workflow") is not None, "the workflow is being made")
        pilot.app.simulate_key("6")
        shown = asyncio.create_task(until(pilot, lambda: "schedules" in [view.id for view in displayed(pilot)]))
        shown.add_done_callback(lambda _: schedules_shown.set())
        await shown
        await until(pilot, lambda: not app.stage._switching.locked())
        assert [view.id for view in displayed(pilot)] == [app.stage.top.id] == ["schedules"]
        assert app.stage.top in app.focused.ancestors
        await until(pilot, lambda: "P pause" in lines(pilot)[-1])
        await pilot.press("P")
        await until(pilot, lambda: "Pause 1 schedule" in "\n".join(lines(pilot)))


async def test_a_click_before_the_next_layout_does_not_reach_what_is_hidden(database: str) -> None:
    async with console(options(database), SIZE) as pilot:
        app: Any = pilot.app
        await live(pilot)
        await until(pilot, lambda: app.stage.top._table.rows != ())
        tasks = app.stage.top
        x, y = tasks._table.region.x + 10, tasks._table.region.y + 3
        assert tasks in app.get_widget_at(x, y)[0].ancestors
        await app.stage.go("schedules")
        for view in (tasks, app.stage.top):
            app.stage._show_only(view)
            assert app.get_widget_at(x, y)[0] is app.screen or view in app.get_widget_at(x, y)[0].ancestors_with_self


async def test_a_second_click_on_the_same_place_of_another_screen_is_no_double_click(database: str) -> None:
    async with console(options(database, screen="workflows"), SIZE) as pilot:
        app: Any = pilot.app
        await live(pilot)
        await until(pilot, lambda: "month_end" in "\n".join(lines(pilot)))
        await app.stage.go("tasks")
        await until(pilot, lambda: app.stage.top._table.rows != ())
        table = app.stage.top._table
        x, y = table.region.x + 10, table.region.y + 3
        await app.stage.go("workflows")
        await pilot.pause()
        click(pilot, x, y)
        await pilot.pause()
        await app.stage.go("tasks")
        await pilot.pause()
        click(pilot, x, y)
        await until(pilot, lambda: table.cursor_index > 0)
        await pilot.pause()
        assert app.stage.top.id == "tasks"


async def test_a_key_in_the_footer_is_pressed_only_where_it_still_means_the_same(database: str) -> None:
    async with console(options(database, screen="schedules"), SIZE) as pilot:
        app: Any = pilot.app
        await live(pilot)
        at = await place(pilot, "P pause")
        painted = app.footer._hits
        workflows = await app.stage.go("workflows")
        await until(pilot, lambda: workflows._table.rows != ())
        await place(pilot, "P pause")
        # As if the line of the schedules were still on the terminal.
        app.footer._hits = painted
        click(pilot, *at)
        await pilot.pause()
        assert len(app.screen_stack) == 1


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 20), *(pytest.param(seed, 40, marks=pytest.mark.chaos) for seed in (1, 2, 3))]
)
async def test_random_clicks_and_keys_at_once_act_on_the_shown_view_only(
    database: str, monkeypatch: pytest.MonkeyPatch, seed: int, rounds: int
) -> None:
    choose = random.Random(seed)
    keys = [*(tab.key for tab in TABS), "enter", "escape", "tab", "s", "j", "P", "R"]
    strangers: list[str] = []
    async with console(options(database), SIZE) as pilot:
        app: Any = pilot.app
        push = app.push_screen

        def checked(sheet: Any, *given: Any, **more: Any) -> Any:
            strangers.extend(f"{sheet} of {view.id}" for view in views_on_the_stack() if not view.display)
            return push(sheet, *given, **more)

        monkeypatch.setattr(app, "push_screen", checked)
        await live(pilot)
        await until(pilot, lambda: app.stage.top._table.rows != ())
        for _ in range(rounds):
            for _ in range(choose.randint(1, 4)):
                if choose.random() < 0.5:
                    app.simulate_key(choose.choice(keys))
                else:
                    at = choose.randrange(SIZE[0]), choose.randrange(SIZE[1])
                    for _ in range(choose.randint(1, 2)):
                        click(pilot, *at)
                if choose.random() < 0.3:
                    await asyncio.sleep(0)
            await pilot.pause()
            await until(pilot, lambda: not app.stage._switching.locked() and app._patience is None, "at rest")
            assert displayed(pilot) == [app.stage.top]
            assert not strangers
            assert app.stage.top.id in VIEWS
            while len(app.screen_stack) > 1:
                await pilot.press("escape")
