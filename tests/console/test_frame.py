"""The frame on a real database: header, tabs, footer, help, palette, errors, and the way from one screen to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot

from horsies.config.contexts import ConfigFile, Context, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies_tui.actions import live_actions
from horsies_tui.app import ConsoleApp
from horsies_tui.keymap import keymap
from horsies_tui.options import ConsoleOptions
from horsies_tui.screens.picker import Picker
from horsies_tui.widgets.errors import ErrorSheet
from horsies_tui.widgets.help import HelpSheet

NOWHERE = "postgresql://ops@127.0.0.1:1/app"


def options(url: str, **settings: Any) -> ConsoleOptions:
    """Two contexts: `shop` is the test's database, `down` answers never."""
    contexts = {
        "shop": Context("shop", DatabaseUrl.parse(url)),
        "down": Context("down", DatabaseUrl.parse(NOWHERE), colour="yellow"),
    }
    context = replace(contexts[settings.pop("start", "shop")], **settings.pop("context", {}))
    choice = DatabaseChoice(context.url, f"context {context.name!r}, given by --context", context)
    return ConsoleOptions(choice, ConfigFile(Path("/nowhere/config.toml"), contexts, None), **settings)


@asynccontextmanager
async def console(
    wanted: ConsoleOptions, size: tuple[int, int] = (120, 30), keys: dict[str, str] | None = None
) -> AsyncIterator[Pilot[int]]:
    app = ConsoleApp(wanted, keys=keymap(keys or {}, wanted.config.path))
    async with app.run_test(size=size) as pilot:
        yield pilot


def lines(pilot: Pilot[int]) -> list[str]:
    """What stands on the terminal."""
    return ["".join(segment.text for segment in strip) for strip in pilot.app.screen._compositor.render_strips()]


def frame(pilot: Pilot[int]) -> list[str]:
    """What stands on it below any sheet."""
    return [
        "".join(segment.text for segment in strip) for strip in pilot.app.screen_stack[0]._compositor.render_strips()
    ]


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """The loop goes on until this is so; an error after ten seconds."""
    async with asyncio.timeout(10):
        while not condition():
            await pilot.pause()
            await asyncio.sleep(0)


async def live(pilot: Pilot[int]) -> None:
    await until(pilot, lambda: "LIVE" in frame(pilot)[0])


async def test_the_header_says_where_one_is_how_fresh_and_who_acts(database: str) -> None:
    async with console(options(database)) as pilot:
        await live(pilot)
        header, tabs = lines(pilot)[:2]
        assert header.split()[:3] == ["horsies", "shop", "▸"]
        assert str(pilot.app.link.actor) in header
        assert header.rstrip().endswith("Z")
        assert tabs.split() == ["2", "Tasks", "5", "Recovery"]


async def test_production_says_so_without_a_colour(database: str) -> None:
    async with console(options(database, context={"production": True})) as pilot:
        await live(pilot)
        assert "shop PROD" in lines(pilot)[0]


@pytest.mark.parametrize("width", [40, 80, 100, 160])
async def test_no_width_breaks_the_frame(database: str, width: int) -> None:
    async with console(options(database, context={"production": True}, read_only=True), (width, 12)) as pilot:
        await until(pilot, lambda: "horsies" in lines(pilot)[0])
        assert all(len(line) == width for line in lines(pilot))
        assert "? help" in lines(pilot)[-1]


async def test_a_key_goes_to_a_screen_and_only_that_one_reads(database: str) -> None:
    async with console(options(database)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: pilot.app.stage.name_shown == "recovery")
        tasks = pilot.app.query_one("#tasks")
        assert not tasks.shown
        assert not tasks.display
        await pilot.press("2")
        await until(pilot, lambda: tasks.shown)


async def test_a_click_on_a_tab_goes_there(database: str) -> None:
    async with console(options(database)) as pilot:
        await pilot.click("Tabs", offset=(14, 0))
        await until(pilot, lambda: pilot.app.stage.name_shown == "recovery")


async def test_escape_comes_back_from_a_task_and_never_quits(database: str) -> None:
    async with console(options(database, task_id="7f3a")) as pilot:
        await until(pilot, lambda: pilot.app.stage.below is not None)
        await pilot.press("escape", "escape", "escape")
        await until(pilot, lambda: pilot.app.stage.below is None)
        assert pilot.app.is_running


async def test_q_goes_back_first_and_quits_from_a_tab(database: str) -> None:
    async with console(options(database, task_id="7f3a")) as pilot:
        await until(pilot, lambda: pilot.app.stage.below is not None)
        await pilot.press("q")
        await until(pilot, lambda: pilot.app.stage.below is None)
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running)
        assert pilot.app.return_value == 0


async def test_ctrl_c_quits_at_once_even_from_a_sheet(database: str) -> None:
    async with console(options(database)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpSheet))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not pilot.app.is_running)


async def test_the_help_shows_every_live_key_with_the_users_own(database: str) -> None:
    async with console(options(database), (120, 90), {"tasks.follow": "f5"}) as pilot:
        await live(pilot)
        expected = [action for action, _ in live_actions(pilot.app.screen)]
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpSheet))
        shown = "\n".join(lines(pilot))
        assert [action.id for action in expected if action.help not in shown] == []
        assert "tasks.follow" in shown
        assert any(line.split()[1:3] == ["f5", "follow"] for line in lines(pilot))
        assert "✗ failed" in shown


async def test_a_moved_key_works_and_the_old_one_does_not(database: str) -> None:
    async with console(options(database), keys={"app.errors": "f8"}) as pilot:
        await pilot.press("exclamation_mark")
        await pilot.pause()
        assert not isinstance(pilot.app.screen, ErrorSheet)
        await pilot.press("f8")
        await until(pilot, lambda: isinstance(pilot.app.screen, ErrorSheet))


async def test_the_palette_finds_an_action_by_name_and_runs_it(database: str) -> None:
    async with console(options(database)) as pilot:
        await live(pilot)
        await pilot.press("colon")
        await until(pilot, lambda: isinstance(pilot.app.screen, CommandPalette))
        await pilot.press(*"recov")
        await until(pilot, lambda: any("What is stuck" in line for line in lines(pilot)))
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.stage.name_shown == "recovery")


async def test_errors_are_one_line_and_kept_behind_a_key(database: str) -> None:
    async with console(options(database)) as pilot:
        for _ in range(3):
            pilot.app.say_error("the disk\nis full; make room")
        await until(pilot, lambda: "the disk is full; make room" in lines(pilot)[-1])
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: any("make room (3 times" in line for line in lines(pilot)))


async def test_a_read_only_session_offers_no_writes_and_says_why(database: str) -> None:
    async with console(options(database, read_only=True)) as pilot:
        await live(pilot)
        assert "READ-ONLY" in lines(pilot)[0]
        assert "requeue" not in lines(pilot)[-1]
        await pilot.press("R")
        await until(pilot, lambda: "read-only" in lines(pilot)[-1])
        await pilot.press("question_mark")
        await until(pilot, lambda: any("this session changes nothing" in line for line in lines(pilot)))


async def test_a_context_may_be_read_only_by_itself(database: str) -> None:
    async with console(options(database, context={"read_only": True})) as pilot:
        await live(pilot)
        assert (pilot.app.why_no_writes() or "").startswith("read-only")


async def test_a_database_that_does_not_answer_shows_the_others_instead_of_an_empty_board(database: str) -> None:
    async with console(options(database, start="down")) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await until(pilot, lambda: any("nothing answers at 127.0.0.1:1" in line for line in lines(pilot)))
        assert (pilot.app.why_no_writes() or "").startswith("not connected: DOWN")
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, Picker)
        await pilot.press("j", "k", "enter")
        await live(pilot)
        assert "shop" in lines(pilot)[0]
        assert pilot.app.screen is pilot.app.screen_stack[0]


async def test_another_context_keeps_nothing_of_the_one_before(database: str) -> None:
    async with console(options(database)) as pilot:
        await live(pilot)
        first_link, first_view = pilot.app.link, pilot.app.query_one("#tasks")
        await pilot.press("at")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await pilot.press("down", "enter")
        await until(pilot, lambda: pilot.app.link is not first_link)
        await until(pilot, lambda: not first_view.is_attached)
        await until(pilot, lambda: "down" in frame(pilot)[0])
        assert not first_view.shown
        assert "LIVE" not in frame(pilot)[0]


async def test_a_database_without_our_tables_says_once_which_command_makes_them(empty_database: str) -> None:
    async with console(options(empty_database)) as pilot:
        await until(pilot, lambda: "horsies db init" in lines(pilot)[-1])
        (told,) = [error for error in pilot.app._errors if error.text == " ".join(pilot.app.link.status.lacks)]
        assert told.times == 1


async def test_times_change_between_utc_and_local(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(options(database)) as pilot:
        await live(pilot)
        await pilot.press("u")
        await until(pilot, lambda: "this machine's zone" in lines(pilot)[-1])
        assert not pilot.app.utc
        await pilot.press("u")
        await until(pilot, lambda: "times in UTC" in lines(pilot)[-1])


async def test_the_theme_goes_round(database: str) -> None:
    async with console(options(database, theme="horsies-dark")) as pilot:
        seen = []
        for _ in range(3):
            await pilot.press("ctrl+t")
            seen.append(pilot.app.theme)
        assert seen == ["horsies-light", "ansi", "horsies-dark"]


@pytest.mark.parametrize("key", ["question_mark", "exclamation_mark", "at", "colon", "5"])
async def test_with_ascii_no_other_sign_is_written(database: str, key: str) -> None:
    async with console(options(database, ascii=True), (80, 24)) as pilot:
        await live(pilot)
        await pilot.press(key)
        await pilot.pause()
        assert [line for line in lines(pilot) if not line.isascii()] == []


async def test_without_colours_nothing_but_bold_and_reverse_is_sent(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    wanted = options(database, theme="ansi", context={"production": True, "colour": "red"})
    async with console(wanted) as pilot:
        await live(pilot)
        styles = {
            segment.style
            for strip in pilot.app.screen._compositor.render_strips()
            for segment in strip.apply_filter(pilot.app._filters[-1], pilot.app.screen.background_colors[1])
            if segment.style is not None
        }
        assert [style for style in styles if not _without_colour(style)] == []
        assert any(style.reverse for style in styles)


def _without_colour(style: Any) -> bool:
    return all(colour is None or colour.is_default for colour in (style.color, style.bgcolor))


async def test_the_frame_repaints_little_when_only_the_clock_moves(database: str) -> None:
    async with console(options(database)) as pilot:
        await live(pilot)
        painted: list[str] = []
        for name in ("_place_cell", "_context_cell", "_actor_cell"):
            cell = getattr(pilot.app.header, name)
            cell.refresh = lambda *_, name=name, **__: painted.append(name)
        pilot.app._draw_frame()
        pilot.app._draw_frame()
        assert painted == []
