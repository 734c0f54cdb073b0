"""The sheet with a running task's stack or output, which is requested from its worker while the sheet is open."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from textual.containers import Vertical

from horsies.display.formatting import lasting
from horsies.display.stack_lines import innermost, is_same, lines_of
from horsies.domain.errors import HorsiesError
from horsies.domain.quantities import counted
from horsies.operations.looking import answer_to, ask_again, close, look_at, look_behind, why_no_more
from horsies.views.workers import place_of
from horsies_tui.actions import Scope, bindings
from horsies_tui.look.cells import Cell, Column, ColumnSet
from horsies_tui.look.tones import Tone
from horsies_tui.widgets.plain import LineCell, entitle
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import tzinfo

    from textual.app import ComposeResult

    from horsies.display.payload import Masks
    from horsies.display.stack_lines import StackLine
    from horsies.operations.looking import Answer, StackRequest
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.look.glyphs import Glyphs

Kind = Literal["stack", "output"]
_EVERY_S: Final[dict[Kind, float]] = {"stack": 1.0, "output": 0.5}
_LINES_KEPT: Final = 2_000


@dataclass(frozen=True, slots=True)
class LookRow:
    """A line of the sheet: a frame of a stack, or a line of output."""

    id: str
    place: str
    function: str
    text: str
    tone: Tone | None = None


STACK_COLUMNS: Final[ColumnSet[LookRow]] = ColumnSet(
    (
        Column("place", "WHERE", lambda row, _look: Cell(row.place, row.tone), 12, 20, grow=2, keep_end=True),
        Column("function", "FUNCTION", lambda row, _look: Cell(row.function, row.tone), 8, 14, grow=1, priority=1),
        Column("text", "LINE", lambda row, _look: Cell(row.text, row.tone), 12, 20, grow=4),
    )
)
OUTPUT_COLUMNS: Final[ColumnSet[LookRow]] = ColumnSet(
    (
        Column("place", "TIME", lambda row, _look: Cell(row.place, Tone.MUTED), 8, 12, priority=1),
        Column("text", "LINE", lambda row, _look: Cell(row.text, row.tone), 20, 40, grow=1),
    )
)


class _Lines(RowTable[LookRow]):
    """The lines of the sheet, which cannot be marked or opened."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "open" and "mark" not in action


class LookSheet(Sheet[None]):
    """The sheet. It requests the stack or output from the worker while it is open."""

    BINDINGS = bindings(Scope.SHEET)
    AUTO_FOCUS = "RowTable"

    DEFAULT_CSS = """
    LookSheet {
        #sheet { max-width: 100%; width: 96%; }
        #lines { height: 60vh; background: $surface; }
        #state { width: 1fr; margin: 1 0 0 0; color: $text-muted; }
        #note { width: 1fr; display: none; color: $text-warning; }
    }
    """

    def __init__(
        self, task_id: str, kind: Kind, link: DatabaseLink, masks: Masks, glyphs: Glyphs, zone: tzinfo | None
    ) -> None:
        super().__init__()
        self._task_id = task_id
        self._kind = kind
        self._link = link
        self._masks = masks
        self._glyphs = glyphs
        self._zone = zone
        self._stack: Mapping[str, Any] | None = None
        self._since: datetime | None = None
        self._output: deque[LookRow] = deque(maxlen=_LINES_KEPT)

    def compose(self) -> ComposeResult:
        columns = STACK_COLUMNS if self._kind == "stack" else OUTPUT_COLUMNS
        with Vertical(id="sheet"):
            yield _Lines(columns, glyphs=self._glyphs, id="lines")
            yield LineCell(id="note")
            yield LineCell(id="state")

    def on_mount(self) -> None:
        entitle(self.query_one("#sheet"), self._glyphs, f"{self._kind} of {self._task_id}")
        self._say("waiting for the worker…")
        self._put((), datetime.now(UTC))
        self.run_worker(self._watch(), exclusive=True)

    async def _watch(self) -> None:
        look: StackRequest | None = None
        try:
            actor = self._link.actor
            look = await self._link.act(lambda conn: look_at(conn, actor, self._task_id, self._kind))
            self._entitle(look)
            while True:
                answer = await self._ask(look)
                if self._kind == "stack" and (behind := await self._behind(look, answer)) is not None:
                    look = behind
                    self._entitle(look)
                    continue
                self._show(look, answer)
                if answer.is_last:
                    break
                await asyncio.sleep(_EVERY_S[self._kind])
                known = (answer.found or {}).get("last", 0)
                await self._link.act(lambda conn, look=look, known=known: ask_again(conn, look, after=known))  # type: ignore[misc]
        except HorsiesError as error:
            self._say(error.message)
        finally:
            if look is not None:
                await asyncio.shield(self._close(look))

    def _entitle(self, look: StackRequest) -> None:
        """Show the task in the title; a starved task has no stack, so the task that has its process is shown."""
        if look.starved is not None:
            title = f"{look.task_name} {look.task_id}, which blocks {look.starved}"
            entitle(self.query_one("#sheet"), self._glyphs, f"{self._kind} of {title}")

    async def _behind(self, look: StackRequest, answer: Answer) -> StackRequest | None:
        if answer.found is None or "behind" not in answer.found:
            return None
        return await self._link.act(lambda conn: look_behind(conn, self._link.actor, look, answer))

    async def _ask(self, look: StackRequest) -> Answer:
        return await self._link.act(lambda conn: answer_to(conn, look))

    async def _close(self, look: StackRequest) -> None:
        with suppress(HorsiesError):  # without a connection, the worker deletes the request within an hour
            await self._link.act(lambda conn: close(conn, look))

    def _show(self, look: StackRequest, answer: Answer) -> None:
        found = self._masks.on(answer.found)
        if found is not None and self._kind == "output":
            self._take_output(found, answer.now)
        elif found is not None and "frames" in found:
            self._take_stack(found, answer)
        if answer.is_last:
            self._say(why_no_more(look, answer))
        elif self._kind == "stack" and found is not None:
            self._say(self._about(look, answer, found))
        else:
            self._say(f"{counted(len(self._output), 'line')}; following" if self._output else "nothing written yet")

    def _take_output(self, found: Mapping[str, Any], now: datetime) -> None:
        """Show the output. The newest line stays in view while the cursor is on it."""
        table = self.query_one(_Lines)
        at_end = not self._output or table.cursor_row is self._output[-1]
        self._output.extend(self._lines(found))
        self._put(tuple(self._output), now)
        if at_end:
            table.action_last()

    def _take_stack(self, stack: Mapping[str, Any], answer: Answer) -> None:
        before, self._stack = self._stack, stack
        if before is None or not is_same(stack, before):
            self._since = self._link.clock.now()
        note = self.query_one("#note", LineCell)
        note.put(stack.get("note", ""))
        note.display = "note" in stack
        rows = (self._frame(number, line) for number, line in enumerate(lines_of(stack, before)))
        self._put(tuple(rows), answer.now)

    def _about(self, look: StackRequest, answer: Answer, stack: Mapping[str, Any]) -> str:
        line = innermost(stack)
        now = self._link.clock.now()
        ran = "" if look.started_at is None else f" for {lasting(now - look.started_at)}"
        same = "" if self._since in (None, now) else f"; unchanged for {lasting(now - self._since)}"
        where = "" if line is None else f", in {line.function}"
        place = place_of(look.worker_id, None, stack.get("pid"))
        return f"{look.task_name} runs{ran} on {place}{where}{same}"

    def _frame(self, number: int, line: StackLine) -> LookRow:
        tone = Tone.WARNING if line.changed else None if line.is_users else Tone.MUTED
        if line.thread:
            return LookRow(str(number), line.place, "", "", Tone.STRONG)
        return LookRow(str(number), line.place, line.function, line.source, tone)

    def _lines(self, found: Mapping[str, Any]) -> Iterator[LookRow]:
        if found.get("left_out"):
            text = f"{self._glyphs.text('…')} {counted(found['left_out'], 'line')} left out"
            yield LookRow(f"gap-{found['last']}", "", "", text, Tone.MUTED)
        for number, time, stream, text in found.get("lines", ()):
            at = datetime.fromtimestamp(time, UTC).astimezone(self._zone)
            yield LookRow(str(number), f"{at:%H:%M:%S}", "", text, Tone.WARNING if stream == "stderr" else None)

    def _put(self, rows: tuple[LookRow, ...], now: datetime) -> None:
        self.query_one(_Lines).show(rows, now=now, empty="")

    def _say(self, text: str) -> None:
        self.query_one("#state", LineCell).put(text)
