"""The columns of the worker list, of its hosts, and of one worker's tasks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted
from horsies.views import GONE_AFTER_S, LATE_AFTER_S, Liveness
from horsies_tui.look.cells import EMPTY, Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age, number
from horsies_tui.widgets.task_columns import TASK_COLUMNS
from horsies_tui.workers.worker_texts import megabytes, memory, note, seen, sign, tone

if TYPE_CHECKING:
    from horsies.views import TaskRow, WorkerRow
    from horsies_tui.workers.order import HostRow

_BAR: Final = 8
_NEARLY_FULL: Final = 90
"""Per cent of a machine's memory from which it is nearly full."""


def _state(row: WorkerRow, look: Look) -> Cell:
    shown = None if row.liveness is Liveness.ALIVE else tone(row)  # no colour: a healthy worker needs no attention
    return Cell(f"{sign(row.liveness, look.glyphs)} {row.liveness}", shown, sign(row.liveness, look.glyphs))


def _bar(row: WorkerRow, look: Look) -> Cell:
    return EMPTY if row.load is None or not row.lives else Cell(bar(row.load, look), Tone.RUNNING)


def bar(share: float, look: Look) -> str:
    """Return a bar with at least one full column if anything is busy, and one free column if not everything is."""
    full = min(round(share * _BAR), _BAR)
    if 0 < share < 1:
        full = min(max(full, 1), _BAR - 1)
    return look.glyphs.stroke * full + look.glyphs.rule * (_BAR - full)


def _load(row: WorkerRow, _look: Look) -> Cell:
    if row.snapshot is None or not row.lives:
        return Cell(number(row.running) if row.running else "", Tone.BAD if not row.lives else None)
    return Cell(f"{row.busy or 0}/{row.snapshot.processes}")


def _claimed(row: WorkerRow, _look: Look) -> Cell:
    return Cell(number(row.claimed), Tone.BAD if not row.lives else None) if row.claimed else EMPTY


def _cpu(row: WorkerRow, _look: Look) -> Cell:
    if row.snapshot is None or row.snapshot.cpu_percent is None or not row.lives:
        return EMPTY
    return Cell(f"{row.snapshot.cpu_percent:.0f}%")


def _memory(row: WorkerRow, _look: Look) -> Cell:
    return _megabytes(row, None if row.snapshot is None else row.snapshot.whole_memory_mb)


def _own_memory(row: WorkerRow, _look: Look) -> Cell:
    return _megabytes(row, None if row.snapshot is None else row.snapshot.memory_mb)


def _children_memory(row: WorkerRow, _look: Look) -> Cell:
    return _megabytes(row, None if row.snapshot is None else row.snapshot.children_memory_mb)


def _megabytes(row: WorkerRow, amount: float | None) -> Cell:
    if not row.lives:
        return EMPTY
    percent = row.snapshot.memory_percent if row.snapshot is not None else None
    return Cell(megabytes(amount), Tone.WARNING if percent is not None and percent > _NEARLY_FULL else None)


def _up(row: WorkerRow, look: Look) -> Cell:
    if row.snapshot is None or not row.lives:
        return EMPTY
    return Cell(age(look.now - row.snapshot.started_at))


def _seen(row: WorkerRow, look: Look) -> Cell:
    silent = row.silent(look.now).total_seconds()
    if silent <= LATE_AFTER_S:
        return Cell(seen(row, look.now), Tone.MUTED)
    return Cell(seen(row, look.now), Tone.WARNING if silent <= GONE_AFTER_S else tone(row))


def _version(row: WorkerRow, _look: Look) -> Cell:
    """Return the version of the application, if the worker knows it; else of horsies. Its details have both."""
    snapshot = row.snapshot
    return EMPTY if snapshot is None else Cell(snapshot.app_version or snapshot.version or "", Tone.MUTED)


def _note(row: WorkerRow, look: Look) -> Cell:
    return Cell(note(row, look.now), Tone.MUTED if row.liveness is Liveness.ALIVE else tone(row))


WORKER_COLUMNS: Final[ColumnSet[WorkerRow]] = ColumnSet(
    (
        Column("state", "STATE", _state, 10),
        Column("worker", "WORKER", lambda row, _look: Cell(row.name), 12, 16, grow=3, keep_end=True),
        Column("bar", "LOAD", _bar, _BAR, priority=1),
        Column("load", "BUSY", _load, 5, right=True),
        Column("claimed", "CLAIMED", _claimed, 5, whole=7, right=True, brief="CLAIM"),
        Column("cpu", "CPU", _cpu, 4, right=True),
        Column("memory", "MEM", _memory, 5, right=True),
        Column("own", "OWN", _own_memory, 5, priority=3, right=True),
        Column("children", "CHILDREN", _children_memory, 8, priority=4, right=True),
        Column("up", "UP", _up, 4, right=True),
        Column("seen", "SEEN", _seen, 5, right=True),
        Column("version", "VERSION", _version, 7, 8, grow=1, priority=2),
        Column("note", "QUEUES, NOTE", _note, 10, 22, grow=3),
    ),
    kind="worker",
)


def _host_bar(row: HostRow, look: Look) -> Cell:
    return Cell(bar(row.busy / row.processes, look), Tone.RUNNING) if row.processes else EMPTY


def _count(row: HostRow, _look: Look, *, of: tuple[Liveness, ...]) -> Cell:
    found = [worker for worker in row.workers if worker.liveness in of]
    return Cell(number(len(found)), tone(max(found, key=lambda worker: worker.in_flight))) if found else EMPTY


def _host_note(row: HostRow, _look: Look) -> Cell:
    if row.left_behind:
        return Cell(f"left {counted(row.left_behind, 'task')}", Tone.BAD)
    several = len(row.versions) > 1
    return Cell(" and ".join(row.versions), Tone.WARNING if several else Tone.MUTED)


HOST_COLUMNS: Final[ColumnSet[HostRow]] = ColumnSet(
    (
        Column("host", "HOST", lambda row, _look: Cell(row.id or "(unknown)"), 12, 16, grow=3),
        Column("alive", "ALIVE", partial(_count, of=(Liveness.ALIVE,)), 5, right=True),
        Column("draining", "DRAINING", partial(_count, of=(Liveness.DRAINING,)), 5, 8, right=True, brief="DRAIN"),
        Column("late", "LATE", partial(_count, of=(Liveness.LATE,)), 4, right=True),
        Column("gone", "LOST", partial(_count, of=(Liveness.LOST, Liveness.DIED)), 4, right=True),
        Column("bar", "LOAD", _host_bar, _BAR, priority=1),
        Column("load", "BUSY", lambda row, _look: Cell(f"{row.busy}/{row.processes}"), 7, whole=9, right=True),
        Column("claimed", "CLAIMED", lambda row, _look: Cell(number(row.claimed)), 5, 7, right=True, brief="CLAIM"),
        Column("cpu", "CPU", lambda row, _look: Cell(f"{row.cpu:.0f}%"), 6, priority=2, right=True),
        Column("memory", "MEM", lambda row, _look: Cell(megabytes(memory(row.workers))), 5, right=True),
        Column("note", "VERSIONS, NOTE", _host_note, 8, 16, grow=3),
    )
)


def _held_note(row: TaskRow, _look: Look) -> Cell:
    return Cell("its outcome is being stored", Tone.MUTED) if row.finalizing_at is not None else EMPTY


_OF_TASKS: Final = {column.key: column for column in TASK_COLUMNS.columns}
HELD_COLUMNS: Final[ColumnSet[TaskRow]] = ColumnSet(
    (
        *(_OF_TASKS[key] for key in ("state", "id", "name", "queue", "age", "wait", "run", "try", "beat")),
        Column("note", "", _held_note, grow=1, priority=2),
    ),
    kind="task",
)
"""The columns of one worker's tasks, without that of the worker."""
