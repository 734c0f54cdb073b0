"""The sheet before a verb: what it shows, how it is confirmed, and that nothing else confirms it."""

from __future__ import annotations

import asyncio

import pytest
from textual.widgets import Button, Input
from verb_steps import NOON, UNICODE, PlannedOperation, SheetApp, a_preview, shown, until

from horsies.operations.preview import OperationError
from horsies_tui.feed import FrozenClock
from horsies_tui.widgets.outcome import RowsSheet
from horsies_tui.widgets.preview_sheet import PreviewSheet, Where
from horsies_tui.wishes import Wish

HERE = Where("staging", None, FrozenClock(NOON))


def an_app(operation: PlannedOperation, where: Where = HERE) -> SheetApp:
    return SheetApp(PreviewSheet(operation, where, UNICODE))


async def test_it_says_what_will_change_what_not_and_why() -> None:
    clock = FrozenClock(NOON)
    operation = PlannedOperation(a_preview(45, refused=4, filter="status:failed since:1h"))
    app = an_app(operation, Where("shop-eu", None, clock))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "45 will be requeued" in shown(app.screen))
        text = shown(app.screen)
        for words in (
            "Requeue 49 tasks",
            "shop-eu",
            "45 FAILED RATE_LIMITED",
            "4 will be refused",
            "it is COMPLETED already",
            "one more run each",
            "status:failed since:1h",
            "horsies tasks requeue 019a",
            "reason, for the audit",
            "y, then type 45 to confirm",
        ):
            assert words in text
        clock.advance(7)
        await until(pilot, lambda: "7s ago" in shown(app.screen))


async def test_focus_starts_on_cancel_and_enter_does_nothing_but_close() -> None:
    operation = PlannedOperation(a_preview(1))
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "y yes" in shown(app.screen))
        assert isinstance(app.focused, Button)
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.results))
    assert app.results == [None]
    assert operation.deeds == []


async def test_y_does_what_few_rows_need_with_the_reason_that_was_typed() -> None:
    operation = PlannedOperation(a_preview(20))
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "y yes" in shown(app.screen))
        await pilot.press("shift+tab", *"may y be", "enter", "y")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == ["may y be"]
    assert len(app.results[0].outcome.applied) == 20


async def test_above_twenty_rows_only_the_number_confirms() -> None:
    operation = PlannedOperation(a_preview(21))
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "type 21" in shown(app.screen))
        await pilot.press("y", "enter", *"20", "enter")
        await until(pilot, lambda: "that is not it" in shown(app.screen))
        assert operation.deeds == []
        await pilot.press("backspace", "1", "enter")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == [None]


async def test_in_production_even_one_row_takes_the_name_of_the_context() -> None:
    operation = PlannedOperation(a_preview(1))
    app = an_app(operation, Where("shop-eu", "shop-eu", FrozenClock(NOON)))
    async with app.run_test() as pilot:
        await until(pilot, lambda: "type shop-eu" in shown(app.screen))
        assert "PRODUCTION" in shown(app.screen)
        assert app.screen.has_class("-production")
        await pilot.press("y", *"1", "enter")
        await until(pilot, lambda: "that is not it" in shown(app.screen))
        app.screen.query_one("#word", Input).value = ""
        await pilot.press(*"shop-eu", "enter")
        await until(pilot, lambda: bool(app.results))
    assert len(operation.deeds) == 1


async def test_where_nothing_is_eligible_no_key_does_anything() -> None:
    operation = PlannedOperation(a_preview(0, refused=3))
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "nothing to do" in shown(app.screen))
        assert "one more run" not in shown(app.screen)
        await pilot.press("y", "b", "escape")
        await until(pilot, lambda: bool(app.results))
    assert (app.results, operation.deeds, operation.looks) == ([None], [], [False])


async def test_a_refusal_of_the_database_is_a_sentence_and_nothing_is_confirmed() -> None:
    operation = PlannedOperation(OperationError("the role app lacks UPDATE", help_text="GRANT UPDATE"))
    app = an_app(operation)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "the role app lacks UPDATE; GRANT UPDATE" in shown(app.screen))
        await pilot.press("y", "escape")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == []


async def test_trouble_while_doing_says_that_nothing_was_done() -> None:
    operation = PlannedOperation(a_preview(1), trouble=OSError("the wire is cut"))
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "y yes" in shown(app.screen))
        await pilot.press("y")
        await until(pilot, lambda: "nothing was done" in shown(app.screen) and "the wire is cut" in shown(app.screen))
        await pilot.press("y", "escape")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == [None]


async def test_at_work_it_shows_progress_and_escape_stops_it_with_a_true_account() -> None:
    operation = PlannedOperation(a_preview(2), gate=asyncio.Event())
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "y yes" in shown(app.screen))
        await pilot.press("y")
        await until(pilot, lambda: "500 of 1,200 done, esc stops" in shown(app.screen))
        await pilot.press("y")
        await pilot.press("escape")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == [None]
    assert app.results[0].outcome.stopped == "interrupted"


async def test_b_looks_again_with_a_fresh_budget_where_the_verb_has_one() -> None:
    operation = PlannedOperation(a_preview(1))
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "b fresh budget" in shown(app.screen))
        await pilot.press("b")
        await until(pilot, lambda: "b one more run" in shown(app.screen))
    assert operation.looks == [False, True]
    other = PlannedOperation(a_preview(1, verb="cancel"), wish=Wish("cancel"))
    app = an_app(other)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "y yes" in shown(app.screen))
        assert "fresh" not in shown(app.screen)
        await pilot.press("b")
    assert other.looks == [False]


async def test_every_row_can_be_looked_at_before() -> None:
    app = an_app(PlannedOperation(a_preview(2, refused=1)))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "l every row" in shown(app.screen))
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, RowsSheet) and "refused" in shown(app.screen))
        text = shown(app.screen)
        assert text.index("refused") < text.index("will be requeued")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PreviewSheet))
    assert app.results == []


async def test_texts_of_others_are_not_obeyed() -> None:
    wild = a_preview(1, consequences=("\x1b[2J[red]gone[/] in $red",), filter="name:[b]x[/b]")
    app = an_app(PlannedOperation(wild), Where("[link]x", None, FrozenClock(NOON)))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "[red]gone[/] in $red" in shown(app.screen))
        assert "name:[b]x[/b]" in shown(app.screen)
        assert "[link]x" in shown(app.screen)
        assert "\x1b" not in shown(app.screen)


@pytest.mark.parametrize("size", [(80, 24), (60, 16)])
async def test_the_question_is_always_in_view(size: tuple[int, int]) -> None:
    long = a_preview(45, refused=4, consequences=tuple(f"consequence {number}" for number in range(30)))
    app = an_app(PlannedOperation(long))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "to confirm" in shown(app.screen))
        assert "Cancel" in shown(app.screen)
