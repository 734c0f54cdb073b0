"""The frame with a sheet above it, in a narrow terminal, and with a link that outlives the widgets."""

from __future__ import annotations

import pytest
from frame_steps import console, frame, lines, live, options, until

from horsies_tui.shell.header import HeaderFacts
from horsies_tui.shell.picker import Picker
from horsies_tui.tasks.view import TasksView


async def test_the_footer_has_the_keys_of_the_sheet_while_one_is_open(database: str) -> None:
    async with console(options(database)) as pilot:
        await live(pilot)
        assert "f follow" in lines(pilot)[-1]
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


async def test_a_filter_longer_than_the_line_is_seen_as_far_as_there_is_room(database: str) -> None:
    text = "status:failed,retry,interrupted,expired queue:mail,default,pay name:send_* since:12h"
    async with console(options(database, filter=text), (80, 24)) as pilot:
        await live(pilot)
        assert lines(pilot)[2].strip().startswith(f"/ {text[:60]}")


async def test_what_the_header_says_fits_again_after_a_resize(database: str) -> None:
    async with console(options(database), (120, 24)) as pilot:
        await live(pilot)
        status, now = pilot.app.link.status, pilot.app.link.clock.now()
        pilot.app._draw_frame = lambda: None  # otherwise the next second would repair it
        pilot.app.header.show(HeaderFacts(status, now, "12:00:00Z", 6))
        await until(pilot, lambda: "6 need action" in lines(pilot)[0])
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "▲6 " in lines(pilot)[0])


async def test_the_filter_of_the_command_line_is_for_the_first_database_only(database: str) -> None:
    async with console(options(database, filter="status:failed")) as pilot:
        await live(pilot)
        await pilot.press("at", "down", "enter")
        await until(
            pilot, lambda: "down" in pilot.app.link.status.database_label or isinstance(pilot.app.screen, Picker)
        )
        await until(pilot, lambda: "/ filter, for example" in frame(pilot)[2])


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
