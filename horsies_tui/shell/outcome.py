"""The list of an operation's rows: the expected or actual result of each; a row can be opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual import on
from textual.containers import Vertical

from horsies_tui.actions import Scope, bindings, hint
from horsies_tui.look.cells import ID_WIDTH, SHORT_ID, Cell, Column, ColumnSet
from horsies_tui.look.tones import Tone
from horsies_tui.widgets.plain import LineCell, entitle
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from textual.app import ComposeResult

    from horsies.operations.target import Target
    from horsies.operations.verb import Preview
    from horsies_tui.intents import FinishedOperation, Intent
    from horsies_tui.look.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One target of an operation. `result` is its outcome as a word, `detail` the reason or the current state."""

    id: str
    kind: str
    name: str
    was: str
    result: str
    detail: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Next:
    """The operator's choice in the list: open a task or a workflow, or undo the operation."""

    task_id: str | None = None
    workflow_id: str | None = None
    undo: bool = False


def rows_of_preview(intent: Intent, preview: Preview) -> tuple[ResultRow, ...]:
    """Return the rows of a preview, refused ones first, because operators open the list for them."""
    refused = [_row(refusal.target, "refused", refusal.reason, Tone.WARNING) for refusal in preview.refused]
    return (*refused, *(_row(target, intent.verb.will, "", Tone.GOOD) for target in preview.eligible))


def rows_of_done(done: FinishedOperation) -> tuple[ResultRow, ...]:
    """Return the rows of a finished operation, those that were not changed first."""
    outcome = done.outcome
    return (
        *_rows(outcome.in_doubt, "in doubt", "connection lost; the audit log shows whether it was done", Tone.BAD),
        *(_row(target, "skipped", reason, Tone.WARNING) for target, reason in done.skipped),
        *_rows(outcome.not_attempted, "not tried", outcome.stopped or "", Tone.MUTED),
        *(_row(row.target, done.intent.verb.done, row.detail, Tone.GOOD) for row in outcome.applied),
    )


def _rows(targets: Iterable[Target], result: str, detail: str, tone: Tone) -> Iterator[ResultRow]:
    return (_row(target, result, detail, tone) for target in targets)


def _row(target: Target, result: str, detail: str, tone: Tone) -> ResultRow:
    return ResultRow(target.id, target.kind, target.label, target.state, result, detail, tone)


COLUMNS: Final[ColumnSet[ResultRow]] = ColumnSet(
    (
        Column("result", "RESULT", lambda row, _look: Cell(row.result, row.tone), 10, 18, grow=2),
        Column("id", "ID", lambda row, _look: Cell(row.id, Tone.MUTED), SHORT_ID, whole=ID_WIDTH, keep_end=True),
        Column("name", "NAME", lambda row, _look: Cell(row.name), 12, 18, grow=2, priority=1),
        Column("was", "WAS", lambda row, _look: Cell(row.was), 8, 12, grow=1, priority=1),
        Column("detail", "DETAIL", lambda row, _look: Cell(row.detail), 15, 20, grow=4),
    )
)


class _Rows(RowTable[ResultRow]):
    """The table of the sheet. It has no marks, because the sheet's actions apply to all rows."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return "mark" not in action


class RowsSheet(Sheet[Next]):
    """The sheet with the list. With `undo`, the operation can be undone from here."""

    BINDINGS = bindings(Scope.OUTCOME)
    AUTO_FOCUS = "RowTable"

    DEFAULT_CSS = """
    RowsSheet {
        #rows { max-height: 60vh; background: $surface; }
        #keys { width: 1fr; margin: 1 0 0 0; color: $text-muted; }
    }
    """

    def __init__(
        self, title: str, rows: tuple[ResultRow, ...], now: datetime, glyphs: Glyphs, *, undo: bool = False
    ) -> None:
        super().__init__()
        self._title = title
        self._rows = rows
        self._now = now
        self._glyphs = glyphs
        self._undo = undo

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield _Rows(COLUMNS, glyphs=self._glyphs, id="rows")
            yield LineCell(id="keys")

    def on_mount(self) -> None:
        entitle(self.query_one("#sheet"), self._glyphs, self._title)
        table: RowTable[ResultRow] = self.query_one(RowTable)
        table.styles.height = len(self._rows) + 1
        table.show(self._rows, now=self._now, empty="No rows selected.")
        self.call_after_refresh(self._show_keys)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._undo if action == "undo" else True

    def action_undo(self) -> None:
        self.dismiss(Next(undo=True))

    @on(RowTable.Opened)
    def _open(self, message: RowTable.Opened) -> None:
        message.stop()
        row = next(row for row in self._rows if row.id == message.row_id)
        if row.kind == "task":
            self.dismiss(Next(task_id=row.id))
        elif row.kind in ("workflow", "node"):
            self.dismiss(Next(workflow_id=row.id.partition(":")[0]))

    def _show_keys(self) -> None:
        keys = ("table.open", *(("outcome.undo",) if self._undo else ()), "sheet.close")
        self.query_one("#keys", LineCell).put("   ".join(hint(key, self, self._glyphs) for key in keys))
