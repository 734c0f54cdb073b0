"""The charts of one worker: busy processes, CPU, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies_tui.look.charts import Chart, Curve
from horsies_tui.look.tones import Tone
from horsies_tui.workers.words import megabytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from horsies.views import WorkerPoint

_LATELY: Final = 2
"""The current value is taken from the last two points, because the newest one has only just begun."""


def charts(points: Sequence[WorkerPoint], span: str) -> tuple[Chart, ...]:
    """How busy the worker was, and its use of CPU and memory; the first curve of each chart matters most."""
    processes = max((point.processes or 0 for point in points), default=0)
    busy = _of(points, _busy)
    claimed = _of(points, lambda one: one.claimed)
    cpu = _of(points, lambda one: one.cpu_percent)
    whole, own = _of(points, _whole), _of(points, lambda one: one.memory_mb)
    return (
        Chart(
            "busy",
            (
                Curve("", busy, Tone.RUNNING, _now(busy, lambda number: f"{number:.0f}/{processes}")),
                Curve("claimed", claimed, Tone.CLAIMED, _now(claimed, _count)),
            ),
            _count,
            span,
            top=_highest((*busy, *claimed, processes)),
        ),
        Chart("cpu", (Curve("", cpu, Tone.GOOD, _now(cpu, _percent)),), _percent, span, top=_highest((*cpu, 100.0))),
        Chart(
            "memory",
            (
                Curve("", whole, Tone.ACCENT, _now(whole, megabytes)),
                Curve("its own", own, Tone.MUTED, _now(own, megabytes)),
            ),
            megabytes,
            span,
        ),
    )


def _of(points: Sequence[WorkerPoint], value: Callable[[WorkerPoint], float | None]) -> tuple[float | None, ...]:
    return tuple(value(point) for point in points)


def _busy(point: WorkerPoint) -> int | None:
    """Busy processes: one that runs many async tasks counts once."""
    return point.running if point.running is None or point.processes is None else min(point.running, point.processes)


def _whole(point: WorkerPoint) -> float | None:
    return None if point.memory_mb is None else point.memory_mb + (point.children_memory_mb or 0.0)


def _now(values: Sequence[float | None], write: Callable[[float], str]) -> str:
    """The current value as text; empty if there was no snapshot lately."""
    lately = [value for value in values[-_LATELY:] if value is not None]
    return write(lately[-1]) if lately else ""


def _highest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value), default=1.0)


def _count(number: float) -> str:
    return f"{number:.0f}"


def _percent(number: float) -> str:
    return f"{number:.0f}%"
