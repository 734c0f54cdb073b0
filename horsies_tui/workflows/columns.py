"""The columns of the workflow list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies_tui.look.cells import EMPTY, ID_WIDTH, SHORT_ID, Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import age, length, number, ticking
from horsies_tui.workflow.head import progress_bar

if TYPE_CHECKING:
    from horsies.views import WorkflowRow

_BAR: Final = 10
_OVER: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


def _state(row: WorkflowRow, look: Look) -> Cell:
    return Cell(look.glyphs.state_text(row.status), state_tone(row.status), look.glyphs.state(row.status))


def _id(row: WorkflowRow, _look: Look) -> Cell:
    return Cell(row.id, Tone.MUTED)


def _name(row: WorkflowRow, look: Look) -> Cell:
    """A sub-workflow is indented by its depth."""
    return Cell(f"{look.glyphs.crumb * min(row.depth, 3)} {row.name}" if row.depth else row.name)


def _bar(row: WorkflowRow, look: Look) -> Cell:
    parts = progress_bar(row, _BAR, look.glyphs)
    return Cell("".join(text for text, _ in parts), tones=tuple(tone for text, tone in parts for _ in text))


def _done(row: WorkflowRow, _look: Look) -> Cell:
    return Cell(f"{number(row.done)}/{number(row.total)}")


def _running(row: WorkflowRow, _look: Look) -> Cell:
    return Cell(number(row.running), Tone.RUNNING) if row.running else EMPTY


def _waiting(row: WorkflowRow, _look: Look) -> Cell:
    return Cell(number(row.waiting)) if row.waiting else EMPTY


def _bad(row: WorkflowRow, _look: Look) -> Cell:
    return Cell(number(row.failed), Tone.FAILED) if row.failed else EMPTY


def _age(row: WorkflowRow, look: Look) -> Cell:
    return Cell(age(look.now - row.sent_at))


def _run(row: WorkflowRow, look: Look) -> Cell:
    run = row.run(look.now)
    return Cell(length(run) if row.status in _OVER else ticking(run))


def _definition(row: WorkflowRow, _look: Look) -> Cell:
    return Cell(row.definition_key or "", Tone.MUTED)


def _trouble(row: WorkflowRow, look: Look) -> Cell:
    """The first error and its node; for a paused workflow, `waits for you`."""
    what = " ".join(filter(None, (row.failed_node, row.error_code)))
    if row.status == "PAUSED":
        return Cell(f"waits for you{f' {look.glyphs.dot} {what}' if what else ''}", Tone.INTERRUPTED)
    return Cell(what, Tone.FAILED if row.status == "FAILED" else Tone.MUTED) if what else EMPTY


WORKFLOW_COLUMNS: Final[ColumnSet[WorkflowRow]] = ColumnSet(
    (
        Column("state", "STATE", _state, 3, 12, brief="ST"),
        Column("id", "ID", _id, SHORT_ID, whole=ID_WIDTH, priority=1, keep_end=True),
        Column("name", "NAME", _name, 12, 20, grow=3),
        Column("bar", "PROGRESS", _bar, _BAR),
        Column("done", "DONE", _done, 7, whole=9, right=True),
        Column("running", "RUNNING", _running, 5, whole=7, priority=3, right=True, brief="RUN"),
        Column("waiting", "WAIT", _waiting, 5, priority=4, right=True),
        Column("bad", "FAILED", _bad, 4, whole=6, priority=2, right=True, brief="FAIL"),
        Column("age", "AGE", _age, 4, right=True),
        Column("run", "DURATION", _run, 5, whole=8, right=True, brief="TIME"),
        Column("definition", "DEFINITION", _definition, 10, 14, grow=1, priority=5),
        Column("trouble", "ERROR", _trouble, 5, 20, grow=3),
    ),
    recedes=lambda row: row.status in ("COMPLETED", "CANCELLED") and not row.failed,
    kind="workflow",
)
