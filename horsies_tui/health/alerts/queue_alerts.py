"""Alerts about served queues that grow, whose due tasks wait too long, or that are limited by a cap.

The recovery report covers queues that are paused or that no worker serves.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import span
from horsies_tui.health.alerts import Alert, Level, Scene, merged
from horsies_tui.health.figure_filters import MOST_NAMED, NUMBERS, any_of, rows_of_number
from horsies_tui.health.rates import Course, flow_now, outlook_of_all
from horsies_tui.look.units import lasting, number, per_second

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from horsies.views import QueueRow
    from horsies_tui.health.glance import Glance
    from horsies_tui.health.rates import Outlook

OLDEST_TARGET_S: Final = 300.0
"""Longest time that a due task should wait, unless the config file sets another."""
HELD_BACK_S: Final = 30.0
"""Wait of the oldest due task from which a full cap is an alert. A full queue alone is not a problem."""
_MANY_DUE: Final = 20


def _growing(scene: Scene) -> Iterator[Alert]:
    found = [alert for row in _uncapped(scene) for alert in _growth(row, scene.glance)]
    return merged(found, "queues are growing", rows=_due_in)


def _over_target(scene: Scene) -> Iterator[Alert]:
    found = [alert for row in _uncapped(scene) for alert in _age(row, scene)]
    return merged(found, "queues are over their targets", rows=_due_in)


def _waiting(scene: Scene) -> list[QueueRow]:
    return [row for row in scene.glance.queues if row.paused_at is None and row.workers and row.due.number]


def _uncapped(scene: Scene) -> list[QueueRow]:
    """Return the waiting queues, except those at a full cap, which have an alert about the cap."""
    if _full_cluster_cap(scene.glance) is not None:
        return []
    return [row for row in _waiting(scene) if not _is_full(row)]


def _at_caps(scene: Scene) -> Iterator[Alert]:
    found = []
    for row in _waiting(scene):
        if _is_full(row) and _holds_back([row], scene):
            full = f"queue {row.name}: {number(row.running)} of {number(row.cap or 0)} run (cap)"
            found.append(_capped(f"cap\t{row.name}", full, [row], scene))
    return merged(found, "queues wait at their caps", rows=_due_in)


def _at_cluster_cap(scene: Scene) -> Iterator[Alert]:
    cap, rows = _full_cluster_cap(scene.glance), _waiting(scene)
    if cap is not None and rows and _holds_back(rows, scene):
        running = sum(row.running for row in scene.glance.queues)
        yield _capped("cluster cap", f"{number(running)} of {number(cap)} run (cluster_wide_cap)", rows, scene)


def _capped(rule: str, full: str, rows: Sequence[QueueRow], scene: Scene) -> Alert:
    glance = scene.glance
    found = outlook_of_all(map(glance.outlook, rows))
    late = [row for row in rows if _waits_s(row, scene) > _target_s(row, scene)]
    oldest = max(rows, key=lambda row: _waits_s(row, scene))
    lasts = lasting(_waits_s(oldest, scene))
    over = f", over its {_target(late[0], scene)} target" if late else ""
    due = sum(row.due.number for row in rows)
    more = "+" if any(row.due.at_least for row in rows) else ""
    return Alert(
        rule,
        Level.DEGRADED if late or found.course is Course.GROWS else Level.NOTE,
        f"{full}, {number(due)}{more} due, {_end(found)}",
        f"the oldest due task waits for {lasts}{over}",
        oldest.oldest_due_at,
        lasts,
        rows=_due_in(row.name for row in rows),
    )


def _end(found: Outlook) -> str:
    if found.left is not None:
        return f"clear in {lasting(found.left.total_seconds())}"
    return "growing" if found.course is Course.GROWS else "not draining"


def _is_full(row: QueueRow) -> bool:
    return row.cap is not None and row.running >= row.cap


def _holds_back(rows: Sequence[QueueRow], scene: Scene) -> bool:
    waits = any(_waits_s(row, scene) > min(HELD_BACK_S, _target_s(row, scene)) for row in rows)
    return waits or sum(row.due.number for row in rows) >= _MANY_DUE


def _full_cluster_cap(glance: Glance) -> int | None:
    """Return the cluster-wide cap if it is full. If workers have different caps, the highest one counts."""
    caps = [row.snapshot.cluster_wide_cap for row in glance.alive if row.snapshot is not None]
    highest = None if None in caps else max((cap for cap in caps if cap is not None), default=None)
    return highest if highest is not None and sum(row.running for row in glance.queues) >= highest else None


def _waits_s(row: QueueRow, scene: Scene) -> float:
    return 0.0 if row.oldest_due_at is None else (scene.glance.now - row.oldest_due_at).total_seconds()


def _target_s(row: QueueRow, scene: Scene) -> float:
    return scene.targets.get(row.name, OLDEST_TARGET_S)


def _target(row: QueueRow, scene: Scene) -> str:
    return span(_target_s(row, scene)).removesuffix("00s")


def _due_in(queues: Iterable[str]) -> str:
    return f"{NUMBERS['due']} queue:{any_of(islice(queues, MOST_NAMED))}"


def _growth(row: QueueRow, glance: Glance) -> Iterator[Alert]:
    if glance.outlook(row).course is Course.GROWS:
        flow = flow_now(glance.rate(row.name))
        rates = f"{per_second(flow.in_per_s)}/s in, {per_second(flow.out_per_s)}/s out"
        since = glance.growing_since.get(row.name)
        yield Alert(
            f"grows\t{row.name}",
            Level.DEGRADED,
            f"{row.name} is growing, {number(row.due.number)} due",
            f"{rates} in the last {lasting(round(flow.over_s))}",
            since,
            "" if since is None else lasting((glance.now - since).total_seconds()),
            rows=rows_of_number("due", row.name, glance.now),
        )


def _age(row: QueueRow, scene: Scene) -> Iterator[Alert]:
    waits_s = _waits_s(row, scene)
    if waits_s > _target_s(row, scene):
        yield Alert(
            f"oldest\t{row.name}",
            Level.DEGRADED,
            f"{row.name} is over its {_target(row, scene)} target",
            f"the oldest due task waits for {lasting(waits_s)}",
            row.oldest_due_at,
            lasting(waits_s),
            rows=rows_of_number("due", row.name, scene.glance.now),
        )


RULES = (_growing, _over_target, _at_caps, _at_cluster_cap)
