"""The small widgets of the task list: menus, the line of counts, the prompt, the groups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from textual.app import App, ComposeResult
from textual.message import Message
from textual.screen import ModalScreen

from horsies.views import Count, TaskCounts, TaskGroup, TaskGroups
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.tasks.groups import GroupList
from horsies_tui.tasks.menus import read_moment
from horsies_tui.widgets.counts_line import CountsLine, CountsText
from horsies_tui.widgets.menus import Item, PickOne, PickSome
from horsies_tui.widgets.prompt import Prompt
from horsies_tui.widgets.row_table import RowTable

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
ITEMS = (Item("new", "newest first", "n", "by time"), Item("old", "oldest first", "o"), Item("run", "running", "r"))


class OneWidget(App[None]):
    """A widget, or a sheet above nothing, and its messages."""

    def __init__(self, sheet: ModalScreen[Any] | None = None, widget: Any = None) -> None:
        super().__init__()
        self._sheet, self._widget = sheet, widget
        self.results: list[Any] = []
        self.told: list[Message] = []

    def compose(self) -> ComposeResult:
        if self._widget is not None:
            yield self._widget

    def on_mount(self) -> None:
        if self._sheet is not None:
            self.push_screen(self._sheet, self.results.append)

    def on_counts_line_state_chosen(self, message: Message) -> None:
        self.told.append(message)

    def on_row_table_opened(self, message: Message) -> None:
        self.told.append(message)

    @property
    def text(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]


async def test_one_of_several_is_taken_by_its_letter_or_by_moving_to_it() -> None:
    for keys, result in (
        (("enter",), "old"),
        (("down", "enter"), "run"),
        (("k", "space"), "new"),
        (("r",), "run"),
        (("escape",), None),
    ):
        app = OneWidget(PickOne("Order", ITEMS, "old", UNICODE))
        async with app.run_test() as pilot:
            await pilot.press(*keys)
        assert app.results == [result], keys


async def test_several_are_switched_by_letter_or_space_and_taken_together() -> None:
    for keys, result in (
        (("enter",), {"new"}),
        (("n", "o", "enter"), {"old"}),
        (("space", "j", "space", "enter"), {"old"}),
    ):
        app = OneWidget(PickSome("States", ITEMS, {"new"}, UNICODE))
        async with app.run_test() as pilot:
            await pilot.press(*keys)
        assert app.results == [result], keys


async def test_a_menu_says_what_is_on_without_colour_and_in_ascii() -> None:
    app = OneWidget(PickSome("States", ITEMS, {"new"}, ASCII))
    async with app.run_test():
        shown = "\n".join(app.text)
        assert "| [x] n newest first  by time" in shown
        assert "  [ ] o oldest first" in shown


async def test_what_a_time_means_stands_under_it_and_what_is_none_is_not_taken() -> None:
    prompt: Prompt[datetime] = Prompt("Go to", "", lambda text: read_moment(text, NOON), str, UNICODE)
    app = OneWidget(prompt)
    async with app.run_test() as pilot:
        await pilot.press(*"11:99", "enter")
        assert any("there is no such time" in line for line in app.text)
        await pilot.press("backspace", "backspace", *"30")
        assert any("2026-11-18 11:30:00+00:00" in line for line in app.text)
        await pilot.press("enter")
        assert app.results == [NOON - timedelta(minutes=30)]


def a_tally(since: str = "", **states: Count) -> CountsText:
    return CountsText(TaskCounts(states, None, 1_204_000), filtered=True, since=since, loud="FOLLOW")


async def test_states_are_counted_in_words_or_signs_as_there_is_room() -> None:
    line = CountsLine(UNICODE)
    app = OneWidget(widget=line)
    async with app.run_test(size=(120, 4)) as pilot:
        for width, shown in ((120, "▶ 8 running  ✗ 1,204+ failed"), (56, "▶ 8  ✗ 1,204+"), (44, "▶8 ✗1,204+")):
            await pilot.resize_terminal(width, 4)
            line.show(a_tally(RUNNING=Count(8), FAILED=Count(1204, at_least=True)))
            await pilot.pause()
            assert app.text[0].strip().startswith(shown)
            assert app.text[0].endswith("FOLLOW")


ALL = TaskCounts({"FAILED": Count(1_500)}, None, 1_300)
SOME = TaskCounts({"FAILED": Count(5_000, at_least=True)}, None, 1_204_000)
OLDER = TaskCounts({"FAILED": Count(49)}, None, 46)


async def test_an_estimate_is_shown_only_where_not_all_were_counted_and_as_one() -> None:
    """Nor is one shown that is older than the count: the list of workflows once showed `49 of 46`."""
    line = CountsLine(UNICODE)
    app = OneWidget(widget=line)
    async with app.run_test(size=(120, 4)) as pilot:
        bound = "at least 5,000 match, counted back to 11:34:05Z · about 1.2 M in table · FOLLOW"
        for told, width, said in (
            (CountsText(ALL), 80, "1,500 tasks"),
            (CountsText(ALL), 120, "1,500 tasks"),
            (CountsText(SOME), 80, "~1.2 M tasks"),
            (CountsText(SOME), 120, "about 1.2 M in table"),
            (CountsText(OLDER, filtered=True), 80, " 49 match"),
            (CountsText(OLDER, filtered=True), 120, " 49 match"),
            (a_tally("11:34:05Z", FAILED=Count(5_000, at_least=True)), 120, bound),
            (CountsText(counting=False), 120, ""),  # without a connection
            (CountsText(), 120, "counting…"),
        ):
            await pilot.resize_terminal(width, 4)
            line.show(told)
            await pilot.pause()
            assert app.text[0].endswith(said)
            assert said or not app.text[0].strip()


async def test_numbers_keep_their_places_when_they_shrink_or_vanish_and_a_click_on_a_state_names_it() -> None:
    line = CountsLine(UNICODE)
    app = OneWidget(widget=line)
    async with app.run_test(size=(100, 4)) as pilot:
        line.show(a_tally(RUNNING=Count(1204), FAILED=Count(7)))
        await pilot.pause()
        place = app.text[0].index("✗")
        line.show(a_tally(FAILED=Count(9)))
        await pilot.pause()
        assert app.text[0].index("✗") == place
        line.show(CountsText())
        line.show(a_tally(FAILED=Count(9)))
        await pilot.pause()
        assert app.text[0].index("✗") < place
        await pilot.click(CountsLine, offset=(app.text[0].index("failed"), 0))
        assert [message.state for message in app.told if isinstance(message, CountsLine.StateChosen)] == ["FAILED"]


async def test_groups_show_number_share_and_age_and_enter_opens_one() -> None:
    groups = GroupList(UNICODE)
    app = OneWidget(widget=groups)
    found = TaskGroups(
        NOON,
        (
            TaskGroup("RATE_LIMITED", 300, NOON - timedelta(hours=3), NOON - timedelta(minutes=2)),
            TaskGroup(None, 100, NOON - timedelta(hours=1), NOON),
        ),
        None,
    )
    async with app.run_test(size=(80, 8)) as pilot:
        groups.focus()
        groups.show_groups(found, "error_code", now=NOON, empty="")
        await pilot.pause()
        assert app.text[1].split() == ["▌", "300", "75%", "████████", "2m", "3h", "RATE_LIMITED"]
        assert app.text[2].split() == ["100", "25%", "██", "0s", "1h", "(without", "an", "error", "code)"]
        await pilot.press("down", "enter")
        assert [type(message) for message in app.told] == [RowTable.Opened]
        assert [group.key for group in groups.chosen] == [None]
        await pilot.press("space", "up", "space")
        assert [group.key for group in groups.chosen] == ["RATE_LIMITED", None]
