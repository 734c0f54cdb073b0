"""The columns of the worker list, of its hosts, and of the tasks that one worker holds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from horsies.views import GONE_AFTER_S, LATE_AFTER_S, Liveness
from horsies_tui.intents import things
from horsies_tui.look.cells import EMPTY, REST, Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age, number
from horsies_tui.widgets.task_columns import TASK_COLUMNS
from horsies_tui.workers.words import megabytes, memory, note, seen, sign, tone

if TYPE_CHECKING:
    from horsies.views import TaskRow, WorkerRow
    from horsies_tui.workers.order import HostRow

_BAR: Final = 8
_NEARLY_FULL: Final = 90
"""Per cent of a machine's memory."""


def _state(row: WorkerRow, look: Look) -> Cell:
    return Cell(f"{sign(row.liveness, look.glyphs)} {row.liveness}", tone(row), sign(row.liveness, look.glyphs))


def _name(row: WorkerRow, look: Look, *, width: int) -> Cell:
    """If it does not fit its end is shown: names of pods of one deployment begin with the same text."""
    text = row.name
    return Cell(text, None, look.glyphs.ellipsis + text[1 - width :])


def _bar(row: WorkerRow, look: Look) -> Cell:
    return EMPTY if row.load is None or not row.lives else Cell(bar(row.load, look), Tone.RUNNING)


def bar(share: float, look: Look) -> str:
    """A bar with at least one full place if anything is busy, and at least one free place if not everything is."""
    full = min(round(share * _BAR), _BAR)
    if 0 < share < 1:
        full = min(max(full, 1), _BAR - 1)
    return ("=" if look.glyphs.ascii else "━") * full + look.glyphs.rule * (_BAR - full)


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
    return EMPTY if row.snapshot is None else Cell(row.snapshot.version or "", Tone.MUTED)


def _note(row: WorkerRow, look: Look) -> Cell:
    quiet = row.liveness is Liveness.ALIVE and row.seen_by == "snapshot"
    return Cell(note(row, look.now), Tone.MUTED if quiet else tone(row))


WORKER_COLUMNS: Final[ColumnSet[WorkerRow]] = ColumnSet(
    columns=(
        Column("state", "STATE", _state, brief="ST"),
        Column("worker16", "WORKER", partial(_name, width=16)),
        Column("worker22", "WORKER", partial(_name, width=22)),
        Column("worker34", "WORKER", partial(_name, width=34)),
        Column("worker44", "WORKER", partial(_name, width=44)),
        Column("bar", "LOAD", _bar),
        Column("load", "BUSY", _load, right=True),
        Column("claimed", "CLAIMED", _claimed, right=True, brief="CLAIM"),
        Column("cpu", "CPU", _cpu, right=True),
        Column("memory", "MEM", _memory, right=True),
        Column("own", "OWN", _own_memory, right=True),
        Column("children", "CHILDREN", _children_memory, right=True),
        Column("up", "UP", _up, right=True),
        Column("seen", "SEEN", _seen, right=True),
        Column("version", "VERSION", _version),
        Column("note", "QUEUES, NOTE", _note),
    ),
    layouts={
        80: {
            "state": 10,
            "worker16": 16,
            "load": 5,
            "claimed": 5,
            "cpu": 4,
            "memory": 5,
            "up": 4,
            "seen": 5,
            "note": REST,
        },
        100: {
            "state": 10,
            "worker22": 22,
            "bar": _BAR,
            "load": 5,
            "claimed": 7,
            "cpu": 4,
            "memory": 5,
            "up": 4,
            "seen": 5,
            "note": REST,
        },
        120: {
            "state": 11,
            "worker22": 22,
            "bar": _BAR,
            "load": 5,
            "claimed": 7,
            "cpu": 5,
            "memory": 5,
            "up": 4,
            "seen": 5,
            "version": 8,
            "note": REST,
        },
        160: {
            "state": 11,
            "worker34": 34,
            "bar": _BAR,
            "load": 5,
            "claimed": 7,
            "cpu": 5,
            "own": 5,
            "children": 8,
            "up": 5,
            "seen": 6,
            "version": 10,
            "note": REST,
        },
        200: {
            "state": 12,
            "worker44": 44,
            "bar": _BAR,
            "load": 7,
            "claimed": 7,
            "cpu": 5,
            "own": 5,
            "children": 8,
            "up": 5,
            "seen": 6,
            "version": 12,
            "note": REST,
        },
    },
)


def _host_bar(row: HostRow, look: Look) -> Cell:
    return Cell(bar(row.busy / row.processes, look), Tone.RUNNING) if row.processes else EMPTY


def _count(row: HostRow, _look: Look, *, of: tuple[Liveness, ...]) -> Cell:
    found = [worker for worker in row.workers if worker.liveness in of]
    return Cell(number(len(found)), tone(max(found, key=lambda worker: worker.held))) if found else EMPTY


def _host_note(row: HostRow, _look: Look) -> Cell:
    if row.left_behind:
        return Cell(f"left {things(row.left_behind, 'task')}", Tone.BAD)
    several = len(row.versions) > 1
    return Cell(" and ".join(row.versions), Tone.WARNING if several else Tone.MUTED)


HOST_COLUMNS: Final[ColumnSet[HostRow]] = ColumnSet(
    columns=(
        Column("host", "HOST", lambda row, _look: Cell(row.id or "(unknown)")),
        Column("alive", "ALIVE", partial(_count, of=(Liveness.ALIVE,)), right=True),
        Column("draining", "DRAINING", partial(_count, of=(Liveness.DRAINING,)), right=True, brief="DRAIN"),
        Column("late", "LATE", partial(_count, of=(Liveness.LATE,)), right=True),
        Column("gone", "LOST", partial(_count, of=(Liveness.LOST, Liveness.DIED)), right=True),
        Column("bar", "LOAD", _host_bar),
        Column("load", "BUSY", lambda row, _look: Cell(f"{row.busy}/{row.processes}"), right=True),
        Column("claimed", "CLAIMED", lambda row, _look: Cell(number(row.claimed)), right=True, brief="CLAIM"),
        Column("cpu", "CPU", lambda row, _look: Cell(f"{row.cpu:.0f}%"), right=True),
        Column("memory", "MEM", lambda row, _look: Cell(megabytes(memory(row.workers))), right=True),
        Column("note", "VERSIONS, NOTE", _host_note),
    ),
    layouts={
        80: {
            "host": 16,
            "alive": 5,
            "draining": 5,
            "late": 4,
            "gone": 4,
            "load": 7,
            "claimed": 5,
            "memory": 5,
            "note": REST,
        },
        100: {
            "host": 22,
            "alive": 5,
            "draining": 8,
            "late": 4,
            "gone": 4,
            "bar": _BAR,
            "load": 7,
            "claimed": 7,
            "memory": 5,
            "note": REST,
        },
        120: {
            "host": 30,
            "alive": 6,
            "draining": 8,
            "late": 5,
            "gone": 5,
            "bar": _BAR,
            "load": 9,
            "claimed": 7,
            "cpu": 6,
            "memory": 5,
            "note": REST,
        },
    },
)


def _held_note(row: TaskRow, _look: Look) -> Cell:
    return Cell("its outcome is being stored", Tone.MUTED) if row.finalizing_at is not None else EMPTY


_OF_TASKS: Final = {column.key: column for column in TASK_COLUMNS.columns}
HELD_COLUMNS: Final[ColumnSet[TaskRow]] = ColumnSet(
    columns=(
        *(_OF_TASKS[key] for key in ("state", "id", "name", "queue", "age", "wait", "run", "try", "beat")),
        Column("note", "", _held_note),
    ),
    layouts={
        0: {"state": 3, "id": 9, "name": 20, "run": 5, "try": 4, "beat": REST},
        77: {"state": 10, "id": 9, "name": 20, "queue": 8, "wait": 5, "run": 5, "try": 4, "beat": 5, "note": REST},
        118: {
            "state": 10,
            "id": 9,
            "name": 34,
            "queue": 14,
            "age": 5,
            "wait": 6,
            "run": 6,
            "try": 5,
            "beat": 6,
            "note": REST,
        },
        198: {
            "state": 10,
            "id": 36,
            "name": 40,
            "queue": 20,
            "age": 5,
            "wait": 6,
            "run": 6,
            "try": 5,
            "beat": 6,
            "note": REST,
        },
    },
)
"""The tasks that one worker holds; without a column for the worker."""
