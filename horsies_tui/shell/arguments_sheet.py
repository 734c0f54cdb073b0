"""The sheet in which the operator edits a task's arguments before a copy of the task is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual import on
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import TextArea

from horsies.operations.edited import Arguments
from horsies.operations.target import OperationError
from horsies.store.pool import CONNECTION_ERRORS
from horsies_tui.actions import Scope, bindings, key_for
from horsies_tui.feed.status import sentence
from horsies_tui.look.units import size
from horsies_tui.shell.editing import Draft, EditError
from horsies_tui.widgets.plain import LineCell, entitle
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual.app import ComposeResult

    from horsies.views import Stored, TaskDetail
    from horsies_tui.look.glyphs import Glyphs

UNEDITED: Final = Arguments()


class ArgumentsSheet(Sheet[Arguments]):
    """An editor that returns the edited arguments, UNEDITED if nothing was changed, or None if it was closed."""

    BINDINGS = bindings(Scope.ARGUMENTS)
    AUTO_FOCUS = "TextArea"

    DEFAULT_CSS = """
    ArgumentsSheet {
        #arguments { height: 16; max-height: 60vh; border: none; }
        #said { width: 1fr; margin: 1 0 0 0; color: $text-muted; }
        #said.-error { color: $text-error; text-style: bold; }
    }
    """

    @dataclass
    class Read(Message):
        """The task was read. Its row is None if the task no longer exists."""

        detail: TaskDetail | None

    @dataclass
    class Unreadable(Message):
        text: str

    def __init__(
        self,
        task_id: str,
        read: Callable[[], Awaitable[TaskDetail | None]],
        glyphs: Glyphs,
        *,
        hidden: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._task_id = task_id
        self._read = read
        self._glyphs = glyphs
        self._hidden = tuple(hidden)
        self._draft: Draft | None = None
        self._as_it_is = False

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield TextArea(id="arguments", read_only=True, compact=True)
            yield LineCell(id="said")

    def on_mount(self) -> None:
        entitle(self.query_one("#sheet"), self._glyphs, f"Rerun {self._task_id}")
        self._say(f"reading its arguments{self._glyphs.ellipsis}")
        self.run_worker(self._ask())

    def action_send(self) -> None:
        """Check the text; invalid JSON keeps the sheet open, with the cursor at the error."""
        if self._as_it_is:
            self.dismiss(UNEDITED)
        elif self._draft is not None:
            area = self.query_one(TextArea)
            try:
                edited = self._draft.read(area.text)
            except EditError as error:
                if error.line is not None:
                    area.move_cursor((error.line - 1, 0))
                self._say(error.message, error=True)
            except OperationError as error:
                self._say(sentence(error), error=True)
            else:
                self.dismiss(edited)

    async def _ask(self) -> None:
        try:
            self.post_message(self.Read(await self._read()))
        except CONNECTION_ERRORS as error:
            self.post_message(self.Unreadable(sentence(error)))

    @on(Unreadable)
    def _show_trouble(self, message: Unreadable) -> None:
        message.stop()
        self._say(message.text, error=True)

    @on(Read)
    def _open(self, message: Read) -> None:
        message.stop()
        if message.detail is None:
            self._say("the task no longer exists", error=True)
            return
        args, kwargs = message.detail.args, message.detail.kwargs
        if large := [stored.size for stored in (args, kwargs) if stored is not None and stored.cut]:
            self._go_unedited(f"the arguments are too large to edit here ({size(max(large))})")
            return
        try:
            self._draft = Draft(_text(args), _text(kwargs), self._hidden)
        except EditError as error:
            self._go_unedited(error.message)
            return
        area = self.query_one(TextArea)
        area.load_text(self._draft.text())
        area.read_only = False
        row = message.detail.row
        if row.finished_at is None:
            # Reported before the operator types anything; the preview checks again whether the task has ended.
            self._say(
                f"the task is {row.status}: only a finished task can be sent again   {self._close_key} close",
                error=True,
            )
        else:
            self._say(f"{self._key('arguments.send')} preview   {self._close_key} close")

    def _go_unedited(self, why: str) -> None:
        self._as_it_is = True
        self._say(f"{why}; {self._key('arguments.send')} sends them as they are", error=True)

    def _say(self, text: str, *, error: bool = False) -> None:
        self.query_one("#said", LineCell).put(self._glyphs.text(text), *(("-error",) if error else ()))

    @property
    def _close_key(self) -> str:
        return self._key("sheet.close")

    def _key(self, action_id: str) -> str:
        return key_for(action_id, self, self._glyphs)


def _text(stored: Stored | None) -> str | None:
    return None if stored is None else stored.text
