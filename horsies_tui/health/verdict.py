"""The verdict: the state of the cluster in one line, with the worst alerts and the time until the queues are empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted
from horsies.views.cluster import waiting
from horsies_tui.health.alerts import Level
from horsies_tui.health.rates import Course
from horsies_tui.look.units import length, number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from horsies_tui.health.alerts import Alert
    from horsies_tui.health.glance import Glance

_MOST_SAID: Final = 2
_SOON_S: Final = 60.0
"""A queue that will be empty within this time is not mentioned."""

_LEADS: Final = {Level.CRITICAL: "Critical: ", Level.DEGRADED: "Degraded: ", Level.NOTE: "Healthy: "}


@dataclass(frozen=True, slots=True)
class ClusterVerdict:
    """The verdict. `lead` is the level in words; `alert` is the first mentioned alert, or None."""

    level: Level
    lead: str
    words: str
    alert: Alert | None = None


def verdict(glance: Glance, alerts: Sequence[Alert], room: int | None = None) -> ClusterVerdict:
    """Compute the verdict from all alerts, worst first. `room` limits its length and so the number of alerts."""
    worst = [alert for alert in alerts if alert.level is not Level.NOTE]
    drain = _drain(glance)
    if not worst:
        lead = _LEADS[Level.NOTE] if glance.alive else ""
        return ClusterVerdict(Level.NOTE, lead, f"{_well(glance)}{drain}.")
    lead = _LEADS[worst[0].level]
    for many, end, below in ((_MOST_SAID, drain, True), (1, drain, True), (1, "", True), (1, "", False)):
        words = _spoken(worst, many, end, below=below)
        if room is None or len(lead + words) <= room:
            break
    return ClusterVerdict(worst[0].level, lead, words, worst[0])


def _spoken(worst: Sequence[Alert], many: int, end: str, *, below: bool) -> str:
    said = "; ".join(alert.in_verdict or alert.what for alert in worst[:many])
    more = len(worst) - many if below else 0  # the list counts them as well
    rest = f"; {counted(more, 'more alert')} below" if more > 0 else ""
    return f"{said}{rest}{end}."


def _well(glance: Glance) -> str:
    alive = len(glance.alive)
    if not alive:
        return f"{'No worker is alive' if glance.had_workers else 'No worker yet'}; {_waits(glance)}"
    busy = "" if glance.busy is None else f", {glance.busy:.0%} busy"
    return f"{counted(alive, 'worker')}{busy}, {_waits(glance)}"


def _waits(glance: Glance) -> str:
    """Return the number of waiting tasks as in the chart and the queue list, and how many are in paused queues."""
    waits, paused = glance.waiting, waiting(row for row in glance.queues if row.paused_at is not None)
    if not waits.number:
        return "no tasks waiting"
    words = f"{number(waits.number)}{'+' if waits.at_least else ''} waiting"
    return f"{words}, {number(paused.number)} of them in paused queues" if paused.number else words


def _drain(glance: Glance) -> str:
    """Return the text about the queue that takes longest to drain."""
    left: list[tuple[timedelta, str]] = []
    for row in glance.queues:
        outlook = glance.outlook(row)
        if outlook.course is Course.DRAINS and outlook.left is not None and outlook.left.total_seconds() > _SOON_S:
            left.append((outlook.left, row.name))
    if not left:
        return ""
    longest, name = max(left)
    return f"; {name} clear in {length(longest)}"
