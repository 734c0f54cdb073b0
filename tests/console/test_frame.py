"""The frame on a real database: tabs, footer, help, palette, errors, sheets, and switching between screens."""

from __future__ import annotations

from typing import Any

import pytest
from frame_steps import console, frame, lines, live, options, resize, until
from textual.app import App, ComposeResult
from textual.command import CommandPalette
from verb_steps import UNICODE, shown

from horsies_tui.actions import live_actions
from horsies_tui.shell.error_list import ErrorSheet
from horsies_tui.shell.header import HeaderFacts
from horsies_tui.shell.help import HelpSheet
from horsies_tui.shell.picker import Picker
from horsies_tui.shell.tabs import Tab, Tabs
from horsies_tui.tasks.view import TasksView


async def test_no_width_breaks_the_frame_and_a_read_only_production_session_says_so_without_a_colour(
    database: str,
) -> None:
    async with console(options(database, context={"production": True}, read_only=True), (160, 12)) as pilot:
        await live(pilot)
        assert "shop PROD" in lines(pilot)[0]
        assert "READ-ONLY" in lines(pilot)[0]
        assert "requeue" not in lines(pilot)[-1]
        await pilot.press("R")
        await until(pilot, lambda: "read-only" in lines(pilot)[-1])
        for width in (160, 100, 80, 40):
            await resize(pilot, width, 12)
            await until(pilot, lambda: "horsies" in lines(pilot)[0])
            assert all(len(line) == width for line in lines(pilot))
        await until(pilot, lambda: "? help" in lines(pilot)[-1])
        await resize(pilot, 120, 50)
        await pilot.press("question_mark")
        await until(pilot, lambda: any("this session changes nothing" in line for line in lines(pilot)))


async def test_keys_clicks_and_the_palette_go_to_a_screen_sheets_have_their_keys_and_ctrl_c_quits_from_one(
    database: str,
) -> None:
    async with console(options(database)) as pilot:
        await live(pilot)
        await pilot.press("5")
        await until(pilot, lambda: pilot.app.stage.name_shown == "recovery")
        tasks = pilot.app.query_one("#tasks")
        assert (tasks.shown, tasks.display) == (False, False), "only the screen that is shown reads"
        await pilot.press("2")
        await until(pilot, lambda: tasks.shown)
        await pilot.click("Tabs", offset=(lines(pilot)[1].index("Recovery"), 0))
        await until(pilot, lambda: pilot.app.stage.name_shown == "recovery")
        await pilot.press("2", "ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, CommandPalette))
        await pilot.press(*"recov")
        await until(pilot, lambda: any("Show what is stuck" in line for line in lines(pilot)))
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.stage.name_shown == "recovery")
        await pilot.press("2")
        await until(pilot, lambda: "f follow" in lines(pilot)[-1])
        for key in ("question_mark", "s", "at", "exclamation_mark"):
            await pilot.press(key)
            await until(pilot, lambda: "esc close" in lines(pilot)[-1])
            assert "f follow" not in lines(pilot)[-1]
            await pilot.press("escape")
            await until(pilot, lambda: "f follow" in lines(pilot)[-1])
        # What was said gives way to them, too.
        pilot.app.say("chosen: all that match")
        await until(pilot, lambda: "chosen" in lines(pilot)[-1])
        await pilot.press("s")
        await until(pilot, lambda: "esc close" in lines(pilot)[-1])
        await pilot.press("escape")
        # Errors are one line, and kept behind a key.
        for _ in range(3):
            pilot.app.say_error("the disk\nis full; make room")
        await until(pilot, lambda: "the disk is full; make room" in lines(pilot)[-1])
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: any("make room (3 times" in line for line in lines(pilot)))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not pilot.app.is_running)


async def test_escape_and_q_come_back_from_a_task_and_only_q_quits_from_a_tab(database: str) -> None:
    async with console(options(database, task_id="7f3a")) as pilot:
        await until(pilot, lambda: pilot.app.stage.below is not None)
        await pilot.press("escape", "escape", "escape")
        await until(pilot, lambda: pilot.app.stage.below is None)
        assert pilot.app.is_running
        pilot.app.open_task("7f3a")
        await until(pilot, lambda: pilot.app.stage.below is not None)
        await pilot.press("q")
        await until(pilot, lambda: pilot.app.stage.below is None)
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running)
        assert pilot.app.return_value == 0


async def test_the_help_shows_every_live_key_with_the_users_own_which_work_and_the_old_ones_do_not(
    database: str,
) -> None:
    async with console(options(database), (120, 90), {"tasks.follow": "f5", "app.errors": "f8"}) as pilot:
        await live(pilot)
        expected = [action for action, _ in live_actions(pilot.app.screen)]
        await pilot.press("exclamation_mark")
        await pilot.pause()
        assert not isinstance(pilot.app.screen, ErrorSheet)
        await pilot.press("f8")
        await until(pilot, lambda: isinstance(pilot.app.screen, ErrorSheet))
        await pilot.press("escape", "question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpSheet))
        shown = "\n".join(lines(pilot))
        assert [action.id for action in expected if action.help not in shown] == []
        assert "tasks.follow" in shown
        assert any(line.split()[1:3] == ["f5", "follow"] for line in lines(pilot))
        assert "✗ failed" in shown


async def test_a_theme_is_chosen_from_a_menu_that_scrolls(database: str) -> None:
    async with console(options(database, theme="horsies-dark"), (80, 24)) as pilot:
        for keys, theme in (
            (("down",), "horsies-light"),
            (("down",), "ansi"),
            (("down", "down", "down"), "nord"),
            (("up",) * 6, "atom-one-light"),
        ):
            await pilot.press("ctrl+t", *keys, "enter")
            assert pilot.app.theme == theme
        await pilot.press("ctrl+t")
        await until(pilot, lambda: any("● " in line and "atom-one-light" in line for line in lines(pilot)), "its mark")
        await pilot.press("escape")
        assert pilot.app.theme == "atom-one-light"


async def test_with_ascii_no_other_sign_is_written(database: str) -> None:
    async with console(options(database, ascii=True), (80, 24)) as pilot:
        await live(pilot)
        for key in ("question_mark", "exclamation_mark", "at", "colon", "ctrl+p", "5"):
            before = lines(pilot)
            await pilot.press(key)
            await until(pilot, lambda before=before: lines(pilot) != before, key)
            assert [line for line in lines(pilot) if not line.isascii()] == []
            await pilot.press("escape")


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


async def test_seven_tabs_fit_a_narrow_terminal_and_a_click_finds_each() -> None:
    titles = ("Overview", "Tasks", "Workers", "Workflows", "Recovery", "Schedules", "Activity")
    tabs = Tabs([Tab(str(key), title.lower(), title) for key, title in enumerate(titles, 1)], UNICODE)

    class OneLine(App[None]):
        chosen = ""

        def compose(self) -> ComposeResult:
            yield tabs

        def on_tabs_chosen(self, message: Tabs.Chosen) -> None:
            self.chosen = message.name

    app = OneLine()
    async with app.run_test(size=(80, 24)) as pilot:
        tabs.show("activity", {"recovery": 5})
        await pilot.pause()
        line = shown(app.screen).splitlines()[0]
        assert line.split()[-4:] == ["6", "Schedules", "7", "Activity"]
        assert "Recovery ⁵" in line
        for title in titles:
            await pilot.click(tabs, offset=(line.index(title), 0))
            assert app.chosen == title.lower()


async def test_q_closes_the_list_of_databases_and_quits_only_where_none_is_open(database: str) -> None:
    async with console(options(database)) as pilot:
        await live(pilot)
        await pilot.press("at")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await pilot.press("q")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Picker))
        assert pilot.app.is_running
    async with console(options(database, start="down")) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        assert "esc" not in lines(pilot)[-1]
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running)


async def test_the_filter_of_the_command_line_is_seen_as_far_as_there_is_room_and_is_for_the_first_database_only(
    database: str,
) -> None:
    text = "status:failed,retry,interrupted,expired queue:mail,default,pay name:send_* since:12h"
    async with console(options(database, filter=text), (80, 24)) as pilot:
        await live(pilot)
        assert lines(pilot)[2].strip().startswith(f"/ {text[:60]}")
        await pilot.press("at", "down", "enter")
        await until(
            pilot, lambda: "down" in pilot.app.link.status.database_label or isinstance(pilot.app.screen, Picker)
        )
        await until(pilot, lambda: "/ filter, for example" in frame(pilot)[2])


async def test_what_the_header_says_fits_again_after_a_resize_and_a_second_that_passes_while_it_closes_changes_nothing(
    database: str,
) -> None:
    """Views close from their innermost widgets outwards, and the last tick comes in between."""
    async with console(options(database, screen="recovery"), (120, 24)) as pilot:
        await live(pilot)
        await until(pilot, lambda: pilot.app.recovery.snapshot.report is not None)
        status, now, draw = pilot.app.link.status, pilot.app.link.clock.now(), pilot.app._draw_frame
        pilot.app._draw_frame = lambda: None  # otherwise the next second would repair it
        pilot.app.header.show(HeaderFacts(status, now, "12:00:00Z", 6))
        await until(pilot, lambda: "6 need action" in lines(pilot)[0])
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "▲6 " in lines(pilot)[0])
        pilot.app._draw_frame = draw
        await pilot.app.query_one("#summary").remove()
        pilot.app._running = False
        pilot.app._tick()
        pilot.app._running = True


async def test_the_link_may_change_while_the_list_is_taken_down(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    end, changed = TasksView._end_subscriptions, []

    def change_and_end(view: TasksView) -> None:
        view.console.link._change(detail="the server goes away")
        changed.append(view)
        end(view)

    async with console(options(database)) as pilot:
        await live(pilot)
        monkeypatch.setattr(TasksView, "_end_subscriptions", change_and_end)
    assert changed
    assert pilot.app.crash is None
