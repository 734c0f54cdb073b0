"""The preview sheet of a verb: its content, its confirmation, and that no other key confirms it."""

from __future__ import annotations

import asyncio

import pytest
from textual.widgets import Button, Input
from verb_steps import NOON, UNICODE, PlannedOperation, SheetApp, a_preview, shown, until

from horsies.operations.target import OperationError
from horsies.operations.verb import Preview
from horsies.operations.verbs import VERBS
from horsies_tui.feed.clock import FrozenClock
from horsies_tui.intents import Intent
from horsies_tui.shell import preview_sheet
from horsies_tui.shell.outcome import RowsSheet
from horsies_tui.shell.preview_sheet import PreviewSheet, Where

HERE = Where("staging", None, FrozenClock(NOON))

CANCEL = VERBS["task", "cancel"]


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
            "Requeue 49 tasks of status:failed since:1h",
            "shop-eu",
            "45 charge_card",
            "FAILED: 45 RATE_LIMITED",
            "4 will be refused",
            "it is COMPLETED already",
            "runs once more",
            "status:failed since:1h",
            "horsies tasks requeue 019a",
            "Reason (audit log)",
            "type 45 to confirm, then ctrl+y",
            "esc Back, change nothing",
            "ctrl+y Requeue 45 tasks",
            "command",
        ):
            assert words in text
        clock.advance(7)
        await until(pilot, lambda: "7s ago" in shown(app.screen))


async def test_a_confirmation_that_was_typed_ahead_is_dropped_and_the_sheet_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = asyncio.Event()

    class Slow(PlannedOperation):
        async def look(self, *, fresh_budget: bool = False) -> Preview:
            await gate.wait()
            return await super().look(fresh_budget=fresh_budget)

    monkeypatch.setattr(preview_sheet, "SEEN_FOR_S", 3600.0)
    operation = Slow(a_preview(1))
    app = an_app(operation)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+y")  # before there is a preview
        gate.set()
        await until(pilot, lambda: "1 will be requeued" in shown(app.screen))
        assert "ctrl+y was ignored: it came before these rows were shown" in shown(app.screen)
        await pilot.press("ctrl+y")  # before an operator can have read it
        await pilot.click("#confirm")
        assert operation.deeds == []
        assert "ctrl+y Requeue 1 task" not in shown(app.screen)
        app.screen._arm(app.screen._preview)  # as the timer does
        await until(pilot, lambda: "ctrl+y Requeue 1 task" in shown(app.screen))
        await pilot.press("ctrl+y")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == [None]


async def test_texts_of_others_are_not_obeyed_and_no_filter_is_said_to_be_none() -> None:
    wild = a_preview(1, consequences=("\x1b[2J[red]gone[/] in $red",), filter="name:[b]x[/b]")
    app = an_app(PlannedOperation(wild), Where("[link]x", None, FrozenClock(NOON)))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "[red]gone[/] in $red" in shown(app.screen))
        assert "name:[b]x[/b]" in shown(app.screen)
        assert "[link]x" in shown(app.screen)
        assert "\x1b" not in shown(app.screen)
    app = an_app(PlannedOperation(a_preview(2, filter="")))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "Requeue 2 tasks of no filter: all there are" in shown(app.screen))


EVERY_LETTER = "ERP back, retry: why quiz lazy jumbled foxes? THE QUICK BROWN FOX JUMPS OVER A LAZY DOG 0123456789 *!"


async def test_every_letter_of_a_reason_is_a_letter_and_no_key_without_ctrl_confirms_wherever_the_focus_is() -> None:
    operation = PlannedOperation(a_preview(1))
    app = an_app(operation)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "ctrl+y Requeue 1 task" in shown(app.screen))
        reason = app.screen.query_one("#reason", Input)
        assert app.focused is reason
        await pilot.press(*EVERY_LETTER, "enter")
        assert reason.value == EVERY_LETTER
        assert "ctrl+y confirms, esc cancels" in shown(app.screen)
        for _ in range(6):
            await pilot.press("tab", "y", "b", "l", "enter", "enter", "space")
        assert (operation.deeds, operation.looks, app.results) == ([], [False], [])
        assert isinstance(app.screen, PreviewSheet)
        reason.value = EVERY_LETTER
        await pilot.press("ctrl+y")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == [EVERY_LETTER]


async def test_the_buttons_say_their_keys_and_take_a_pointer() -> None:
    operation = PlannedOperation(a_preview(2, verb=CANCEL), intent=Intent(CANCEL))
    app = an_app(operation)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "ctrl+y Cancel 2 tasks" in shown(app.screen))
        labels = [str(button.label) for button in app.screen.query(Button)]
        assert labels == ["esc Back, change nothing", "ctrl+y Cancel 2 tasks"]
        await pilot.click("#confirm")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == [None]


async def test_the_command_is_copied_whole() -> None:
    ids = " ".join(f"019a7c2e-{number:04}-7000-8000-000000000000" for number in range(300))
    app = an_app(PlannedOperation(a_preview(2, command=f"horsies tasks requeue {ids}")))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "ctrl+y Requeue" in shown(app.screen))
        await pilot.press("tab", "y")
        await until(pilot, lambda: "sent to the terminal (OSC 52)" in shown(app.screen))
        assert app.clipboard == f"horsies tasks requeue {ids}"
        await pilot.press("end")
        await until(pilot, lambda: "0299-7000" in shown(app.screen).replace("\n", " "))


async def test_in_production_even_one_row_takes_the_name_of_the_context() -> None:
    operation = PlannedOperation(a_preview(1))
    app = an_app(operation, Where("shop-eu", "shop-eu", FrozenClock(NOON)))
    async with app.run_test() as pilot:
        await until(pilot, lambda: "type shop-eu" in shown(app.screen))
        assert "PRODUCTION" in shown(app.screen)
        assert app.screen.has_class("-production")
        await pilot.press("ctrl+y", *"1", "ctrl+y")
        await until(pilot, lambda: "that does not match" in shown(app.screen))
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
        await pilot.press("ctrl+y", "ctrl+n", "escape")
        await until(pilot, lambda: bool(app.results))
    assert (app.results, operation.deeds, operation.looks) == ([None], [], [False])


async def test_a_refusal_of_the_database_is_a_sentence_and_nothing_is_confirmed() -> None:
    operation = PlannedOperation(OperationError("the role app lacks UPDATE", help_text="GRANT UPDATE"))
    app = an_app(operation)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "the role app lacks UPDATE; GRANT UPDATE" in shown(app.screen))
        await pilot.press("ctrl+y", "escape")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == []


async def test_trouble_while_doing_says_that_nothing_was_done() -> None:
    operation = PlannedOperation(a_preview(1), trouble=OSError("the wire is cut"))
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "ctrl+y" in shown(app.screen))
        await pilot.press("ctrl+y")
        await until(pilot, lambda: "nothing was done" in shown(app.screen) and "the wire is cut" in shown(app.screen))
        await pilot.press("ctrl+y", "escape")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == [None]


async def test_at_work_it_shows_progress_and_escape_stops_it_with_a_true_account() -> None:
    operation = PlannedOperation(a_preview(2), gate=asyncio.Event())
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "ctrl+y" in shown(app.screen))
        await pilot.press("ctrl+y")
        await until(pilot, lambda: "500 of 1,200 done, esc stops" in shown(app.screen))
        await pilot.press("ctrl+y")
        await pilot.press("escape")
        await until(pilot, lambda: bool(app.results))
    assert operation.deeds == [None]
    assert app.results[0].outcome.stopped == "interrupted"


async def test_ctrl_n_looks_again_with_fresh_retries_where_the_verb_has_one() -> None:
    operation = PlannedOperation(a_preview(1))
    app = an_app(operation)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "ctrl+n reset retries" in shown(app.screen))
        await pilot.press("ctrl+n")
        await until(pilot, lambda: "ctrl+n runs once more" in shown(app.screen))
    assert operation.looks == [False, True]
    other = PlannedOperation(a_preview(1, verb=CANCEL), intent=Intent(CANCEL))
    app = an_app(other)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "ctrl+y" in shown(app.screen))
        assert "reset retries" not in shown(app.screen)
        await pilot.press("ctrl+n")
    assert other.looks == [False]


async def test_every_row_can_be_looked_at_before() -> None:
    app = an_app(PlannedOperation(a_preview(2, refused=1)))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "ctrl+l list rows" in shown(app.screen))
        await pilot.press("ctrl+l")
        await until(pilot, lambda: isinstance(app.screen, RowsSheet) and "refused" in shown(app.screen))
        text = shown(app.screen).partition("RESULT")[2]
        assert text.index("refused") < text.index("will be requeued")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PreviewSheet))
    assert app.results == []


@pytest.mark.parametrize("size", [(80, 24), (60, 16)])
async def test_the_question_is_always_in_view(size: tuple[int, int]) -> None:
    long = a_preview(45, refused=4, consequences=tuple(f"consequence {number}" for number in range(30)))
    app = an_app(PlannedOperation(long))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "to confirm" in shown(app.screen))
        assert "esc Back" in shown(app.screen)
        assert "ctrl+y Requeue 45 tasks" in shown(app.screen)
