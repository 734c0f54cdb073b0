"""The filter bar alone: completion, marked errors, enter and escape, earlier filters."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from horsies.query import TaskFilter, parse
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.suggestions import Suggestions
from horsies_tui.widgets.typed_line import FilterInput

VALUES = {"queue": ("mail", "pay"), "name": ("send_mail", "odd, name"), "error": ("TIMEOUT", "RATE_LIMITED")}


class Below(Static, can_focus=True):
    """The list below the bar."""

    DEFAULT_CSS = "Below { height: 1fr; }"


class LineApp(App[None], inherit_bindings=False):
    def __init__(self) -> None:
        super().__init__()
        self.opened = 0
        self.closed: list[str | None] = []

    def compose(self) -> ComposeResult:
        yield FilterBar()
        yield Below("rows\n" * 20)

    def on_mount(self) -> None:
        self.bar.values = VALUES
        self.query_one(Below).focus()

    def on_filter_bar_opened(self) -> None:
        self.opened += 1

    def on_filter_bar_closed(self, message: FilterBar.Closed) -> None:
        self.closed.append(None if message.filter is None else message.filter.text)
        self.query_one(Below).focus()

    @property
    def bar(self) -> FilterBar:
        return self.query_one(FilterBar)

    def line(self, y: int) -> str:
        return self.screen._compositor.render_strips()[y].text.rstrip()


def app_of(pilot: Pilot[Any]) -> LineApp:
    assert isinstance(pilot.app, LineApp)
    return pilot.app


async def begin(pilot: Pilot[Any], text: str = "", typed: str = "", *keys: str) -> LineApp:
    """Open the bar on this filter in force, type a text at its end, and press keys."""
    app = app_of(pilot)
    app.bar.show(text)
    app.bar.edit()
    app.query_one(FilterInput).insert_text_at_cursor(typed)
    await pilot.pause()
    await pilot.press(*keys)
    return app


def marked(app: LineApp) -> list[str]:
    """The parts of the text that are marked as wrong."""
    text = app.bar.text
    return [text[problem.start : problem.end] for problem in app.query_one(FilterInput).wrong]


async def test_enter_applies_what_was_typed_in_its_normal_form_and_escape_leaves_the_filter_as_it_was() -> None:
    async with LineApp().run_test() as pilot:
        app = await begin(pilot, "", "status:FAILED queue:mail", "enter")
        assert app.opened == 1, "the values that there are were asked for once"
        assert app.bar.text == "status:failed queue:mail"
        assert not app.bar.editing
        assert isinstance(app.focused, Below)
        await begin(pilot, "queue:pay", ",mail", "escape")
        assert app.bar.text == "queue:pay"
        # What is typed after a filter in force is a word of its own, also if another window was in front meanwhile.
        await begin(pilot, "queue:pay", "status:failed")
        for event in (events.AppBlur(), events.AppFocus()):
            app.post_message(event)
            await pilot.pause()
        await pilot.press("enter")
        app.bar.edit()
        await pilot.press("enter")
        assert app.bar.text == "queue:pay status:failed", "nothing was typed: unchanged"
        await begin(pilot, "queue:pay", "", "ctrl+u", "enter")
        both = "queue:pay status:failed"
        assert app.closed == ["status:failed queue:mail", None, both, both, TaskFilter().text]


COMPLETED = (
    ("sta", 1, "status:"),
    ("status:fa", 1, "status:failed"),
    ("que", 2, "queue:mail"),
    ("queue:p", 1, "queue:pay"),
    ("queue:mail,", 1, "queue:mail,pay"),
    ("error:time", 1, "error:TIMEOUT"),
    ("-err", 1, "-error:"),
    ("name:odd", 1, 'name:"odd, name"'),
    ("queue:mail stat", 1, "queue:mail status:"),
)
"""What is typed, how often tab is pressed, and what becomes of it."""


async def test_tab_completes_keys_and_the_values_that_there_are() -> None:
    async with LineApp().run_test() as pilot:
        for typed, tabs, becomes in COMPLETED:
            app = await begin(pilot, "", typed, *["tab"] * tabs)
            assert app.bar.text == becomes
            await pilot.press("escape")
        # Values that come while typing are offered at once.
        app = await begin(pilot, "", "worker:")
        assert app.query_one(Suggestions).first is None
        app.bar.learn({**VALUES, "worker": ("web-1:4121",)})
        await pilot.press("tab")
        assert parse(app.bar.text) == parse("worker:web-1:4121")


async def test_the_offers_say_what_a_key_means_and_down_and_enter_take_one() -> None:
    async with LineApp().run_test(size=(100, 12)) as pilot:
        app = await begin(pilot, "", "queu")
        assert app.line(0) == " / queu"
        assert app.line(1).split() == ["queue:", "the", "queue,", "as", "in", "queue:email,sms"]
        assert app.line(2) == "rows", "they lie over the list"
        await pilot.press("e", "colon", "down", "down", "enter")
        assert (app.bar.text, app.closed) == ("queue:pay", []), "the line stays open"
        await pilot.press("enter")
        assert app.closed == ["queue:pay"]


async def test_a_wrong_word_is_marked_where_it_stands_and_enter_applies_nothing_and_goes_to_the_first() -> None:
    async with LineApp().run_test(size=(100, 12)) as pilot:
        app = await begin(pilot, "queue:pay", "staus:failed tries:many")
        assert "there is no key 'staus'; did you mean status?" in app.line(1)
        await pilot.press("enter")
        assert app.closed == []
        assert app.bar.editing
        assert marked(app) == ["staus", "many"]
        assert app.query_one(FilterInput).cursor_position == len("queue:pay staus")
        await pilot.press("tab")
        assert app.bar.text == "queue:pay status:failed tries:many"


async def test_what_may_still_become_right_is_not_called_wrong() -> None:
    async with LineApp().run_test() as pilot:
        app = await begin(pilot, "", "status:fai")
        assert marked(app) == []
        await pilot.press("x")
        assert marked(app) == ["faix"]


async def test_a_long_explanation_is_shown_whole() -> None:
    async with LineApp().run_test(size=(60, 12)) as pilot:
        app = await begin(pilot, "", "status:nowhere")
        shown = " ".join(app.line(y).strip() for y in range(1, 5))
        states = "pending, claimed, running, completed, failed, cancelled, expired, retry, scheduled, interrupted"
        assert f"use one of {states}, live, done" in shown


async def test_up_brings_back_the_filters_of_before_and_down_what_was_typed() -> None:
    async with LineApp().run_test() as pilot:
        app = await begin(pilot, "", "queue:pay", "enter")
        await begin(pilot, "queue:pay", "name:charge", "enter")
        await begin(pilot, "status:failed", "id:7f", "up", "up")
        assert app.bar.text == "queue:pay"
        await pilot.press("down")
        assert app.bar.text == "queue:pay name:charge"
        await pilot.press("down")
        assert app.bar.text == "status:failed id:7f"


async def test_named_filters_are_offered_while_nothing_is_written() -> None:
    async with LineApp().run_test() as pilot:
        app_of(pilot).bar.named = lambda: {"stuck": "status:running run:>10m"}
        app = await begin(pilot, "", "", "down", "enter", "enter")
        assert app.closed == ["status:running run:>10m"]
        await begin(pilot, "", "q")
        offered = app.query_one(Suggestions).first
        assert offered is not None
        assert offered.text == "queue:"


async def test_a_click_on_an_offer_takes_it_and_a_click_elsewhere_closes() -> None:
    async with LineApp().run_test() as pilot:
        app = await begin(pilot, "", "queue:")
        await pilot.click(offset=(6, 2))
        assert app.bar.text == "queue:pay"
        await pilot.click(Below, offset=(3, 10))
        await pilot.pause()
        assert app.closed == [None]
        assert app.bar.text == ""
