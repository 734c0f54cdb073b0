"""The columns of the workflow list, and which of them are shown at which width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies_tui.look.cells import EMPTY, REST, Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import age, length, number, ticking
from horsies_tui.workflow.head import progress_bar

if TYPE_CHECKING:
    from horsies.views import WorkflowRow

_ID_END: Final = 8
"""The end of an id distinguishes workflows: its beginning is the time, the same within a minute."""
_BAR: Final = 10
_OVER: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


def _state(row: WorkflowRow, look: Look) -> Cell:
    return Cell(look.glyphs.state_text(row.status), state_tone(row.status), look.glyphs.state(row.status))


def _id(row: WorkflowRow, look: Look) -> Cell:
    return Cell(row.id, Tone.MUTED, f"{look.glyphs.ellipsis}{row.id[-_ID_END:]}")


def _name(row: WorkflowRow, look: Look) -> Cell:
    """A sub-workflow is indented by its depth."""
    return Cell(f"{look.glyphs.crumb * min(row.depth, 3)} {row.name}" if row.depth else row.name)


def _bar(row: WorkflowRow, look: Look) -> Cell:
    return Cell(progress_bar(row, _BAR, look.glyphs), state_tone(row.status))


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
    """The first error and its node; for a paused workflow, that an operator must decide."""
    what = " ".join(filter(None, (row.failed_node, row.error_code)))
    if row.status == "PAUSED":
        return Cell(f"needs your decision{f' {look.glyphs.dot} {what}' if what else ''}", Tone.INTERRUPTED)
    return Cell(what, Tone.FAILED if row.status == "FAILED" else Tone.MUTED) if what else EMPTY


WORKFLOW_COLUMNS: Final[ColumnSet[WorkflowRow]] = ColumnSet(
    columns=(
        Column("state", "STATE", _state, brief="ST"),
        Column("id", "ID", _id),
        Column("name", "NAME", _name),
        Column("bar", "PROGRESS", _bar),
        Column("done", "DONE", _done, right=True),
        Column("running", "RUNNING", _running, right=True, brief="RUN"),
        Column("waiting", "WAIT", _waiting, right=True),
        Column("bad", "FAILED", _bad, right=True, brief="FAIL"),
        Column("age", "AGE", _age, right=True),
        Column("run", "DURATION", _run, right=True, brief="TIME"),
        Column("definition", "DEFINITION", _definition),
        Column("trouble", "ERROR", _trouble),
    ),
    layouts={
        0: {"state": 3, "name": 18, "bar": _BAR, "done": 7, "age": 4, "run": 5, "trouble": REST},
        100: {"state": 12, "id": 9, "name": 20, "bar": _BAR, "done": 9, "age": 4, "run": 5, "trouble": REST},
        120: {
            "state": 12,
            "id": 9,
            "name": 24,
            "bar": _BAR,
            "done": 9,
            "running": 5,
            "waiting": 5,
            "bad": 4,
            "age": 4,
            "run": 5,
            "trouble": REST,
        },
        180: {
            "state": 13,
            "id": 36,
            "name": 30,
            "bar": _BAR,
            "done": 10,
            "running": 6,
            "waiting": 6,
            "bad": 5,
            "age": 5,
            "run": 6,
            "definition": 24,
            "trouble": REST,
        },
    },
)
