"""The columns of the list of databases, and the text below the list about the selected one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.views import LATELY
from horsies_tui.health.alerts import Level
from horsies_tui.look.cells import Cell, Column, ColumnSet
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age, count

if TYPE_CHECKING:
    from horsies_tui.health.clusters import ClusterState
    from horsies_tui.health.glance import Glance
    from horsies_tui.look.cells import Look

_TONES: Final = {Level.CRITICAL: Tone.BAD, Level.DEGRADED: Tone.WARNING, Level.NOTE: Tone.GOOD}
_MOST_ALERTS: Final = 3


def _name(state: ClusterState, _look: Look) -> Cell:
    context = state.context
    marks = [mark for mark, on in (("PROD", context.production), ("RO", context.read_only)) if on]
    return Cell(" ".join((context.shown_name, *marks)), Tone.WARNING if context.production else Tone.STRONG)


def _verdict(state: ClusterState, look: Look) -> Cell:
    if state.error:
        return Cell(f"{look.glyphs.alarm} {state.error}", Tone.BAD)
    found = state.verdict
    if found is None:
        return Cell(f"connecting{look.glyphs.ellipsis}", Tone.MUTED)
    # A database without workers is not shown as healthy, even when it has no alerts.
    says = found.alert is not None or (state.glance is not None and state.glance.alive)
    return Cell(f"{found.lead}{found.words}", _TONES[found.level] if says else Tone.MUTED)


def _alerts(state: ClusterState, _look: Look) -> Cell:
    return _number(state, state.alert_count, Tone.WARNING)


def _waiting(state: ClusterState, _look: Look) -> Cell:
    if state.glance is None:
        return Cell("")
    waits = state.glance.waiting
    return Cell(count(waits.number, at_least=waits.at_least), None if waits.number else Tone.MUTED)


def _running(glance: Glance) -> int:
    return sum(row.running for row in glance.queues)


def _number(state: ClusterState, value: int, tone: Tone | None = None) -> Cell:
    return Cell("") if state.glance is None else Cell(count(value), tone if value else Tone.MUTED)


CLUSTER_COLUMNS: Final[ColumnSet[ClusterState]] = ColumnSet(
    (
        Column("context", "DATABASE", _name, 10, 14, grow=1),
        Column("verdict", "VERDICT", _verdict, 16, 24, grow=3),
        Column("alerts", "ALERTS", _alerts, 6, right=True),
        Column(
            "workers",
            "WORKERS",
            lambda state, _look: _number(state, len(state.glance.alive) if state.glance else 0),
            7,
            right=True,
        ),
        Column("waiting", "WAITING", _waiting, 7, right=True),
        Column(
            "running",
            "RUNNING",
            lambda state, _look: _number(state, _running(state.glance) if state.glance else 0, Tone.RUNNING),
            7,
            right=True,
        ),
        Column(
            "failed",
            f"FAILED {age(LATELY)}",
            lambda state, _look: _number(
                state, sum(one.lately for one in state.glance.failures) if state.glance else 0, Tone.BAD
            ),
            6,
            whole=10,
            right=True,
            brief="FAILED",
        ),
    )
)


def about(state: ClusterState) -> list[str]:
    """Return in full what the row may have to cut off: the address, the connection error, the worst alerts."""
    lines = [state.context.url.label]
    found = state.verdict
    if state.error:
        lines.append(state.error)
    elif found is not None:
        lines.append(f"{found.lead}{found.words}")
        worst = [alert for alert in state.alerts if alert.level is not Level.NOTE][:_MOST_ALERTS]
        lines += [f"{alert.what}: {alert.evidence}" for alert in worst]
    return lines
