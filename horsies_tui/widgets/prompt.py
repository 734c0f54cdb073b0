"""A sheet that asks the operator for one line and checks it while it is typed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from textual import on
from textual.containers import Vertical
from textual.widgets import Input

from horsies.domain.errors import HorsiesError
from horsies.store.pool import CONNECTION_ERRORS
from horsies_tui.widgets.plain import LineCell, entitle
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import ComposeResult

    from horsies_tui.look.glyphs import Glyphs

AnswerT = TypeVar("AnswerT")


class Prompt(Sheet[AnswerT], Generic[AnswerT]):
    """A sheet that returns the result of `read`. Below the field it shows the meaning of the text, or its error.

    `present` reads the current value, which is put into the empty field and selected, so that typing replaces it.
    """

    DEFAULT_CSS = """
    Prompt {
        & > #sheet { width: 60; }
        & Input { border: none; height: 1; padding: 0; background: $boost; }
        & LineCell { width: 100%; color: $text-muted; }
        & LineCell.-wrong { color: $text-error; }
    }
    """

    def __init__(
        self,
        title: str,
        placeholder: str,
        read: Callable[[str], AnswerT],
        describe: Callable[[AnswerT], str],
        glyphs: Glyphs,
        *,
        value: str = "",
        present: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        super().__init__()
        self._present = present
        self._value = value
        self._title = title
        self._placeholder = placeholder
        self._read = read
        self._describe = describe
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet") as sheet:
            entitle(sheet, self._glyphs, self._title, "enter preview · esc close")
            field = Input(self._value, placeholder=self._placeholder, compact=True)
            field.cursor_blink = False
            yield field
            yield LineCell()

    def on_mount(self) -> None:
        if self._present is not None:
            self.run_worker(self._begin_with(self._present))

    async def _begin_with(self, present: Callable[[], Awaitable[str]]) -> None:
        with suppress(*CONNECTION_ERRORS):  # the field stays empty
            value, field = await present(), self.query_one(Input)
            if not field.value:
                field.value = value
                field.action_select_all()

    @on(Input.Changed)
    def _typed(self) -> None:
        self._answer()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        answer = self._answer()
        if answer is not None:
            self.dismiss(answer)

    def _answer(self) -> AnswerT | None:
        text, told = self.query_one(Input).value, self.query_one(LineCell)
        if not text.strip():
            told.put("")
            return None
        try:
            answer = self._read(text)
        except HorsiesError as error:
            told.put(error.message, "-wrong")
            return None
        told.put(self._describe(answer))
        return answer
