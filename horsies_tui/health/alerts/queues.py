"""Alerts about queues that a worker serves: they grow, or a due task waits for too long.

The recovery report covers queues that are paused or that no worker serves.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from horsies.operations.formatting import span
from horsies.views import RATES_OVER
from horsies_tui.health.alerts import Alert, Level, Scene, merged
from horsies_tui.health.rates import Course
from horsies_tui.health.rows import MOST_NAMED, NUMBERS, any_of, rows_of_number
from horsies_tui.health.times import lasting
from horsies_tui.look.units import number, per_second

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from horsies.views import QueueRow
    from horsies_tui.health.glance import Glance

OLDEST_TARGET_S: Final = 300.0
"""The longest time that a due task should wait, unless the config file sets another one."""


def _growing(scene: Scene) -> Iterator[Alert]:
    found = [alert for row in _waiting(scene) for alert in _growth(row, scene.glance)]
    return merged(found, "queues are growing", rows=_due_in)


def _over_target(scene: Scene) -> Iterator[Alert]:
    found = [alert for row in _waiting(scene) for alert in _age(row, scene)]
    return merged(found, "queues are over their targets", rows=_due_in)


def _waiting(scene: Scene) -> list[QueueRow]:
    return [row for row in scene.glance.queues if row.paused_at is None and row.workers and row.due.number]


def _due_in(queues: Iterable[str]) -> str:
    return f"{NUMBERS['due']} queue:{any_of(islice(queues, MOST_NAMED))}"


def _growth(row: QueueRow, glance: Glance) -> Iterator[Alert]:
    rate = glance.rate(row.name)
    if glance.outlook(row).course is Course.GROWS:
        rates = f"{per_second(rate.in_per_s)}/s in, {per_second(rate.out_per_s)}/s out"
        yield Alert(
            f"grows\t{row.name}",
            Level.DEGRADED,
            f"{row.name} is growing, {number(row.due.number)} due",
            f"{rates} in the last {lasting(RATES_OVER.total_seconds())}",
            rows=rows_of_number("due", row.name, glance.now),
        )


def _age(row: QueueRow, scene: Scene) -> Iterator[Alert]:
    if row.oldest_due_at is None:
        return
    waits_s = (scene.glance.now - row.oldest_due_at).total_seconds()
    target_s = scene.targets.get(row.name, OLDEST_TARGET_S)
    if waits_s > target_s:
        yield Alert(
            f"oldest\t{row.name}",
            Level.DEGRADED,
            f"{row.name} is over its {span(target_s).removesuffix('00s')} target",
            f"the oldest due task waits for {lasting(waits_s)}",
            row.oldest_due_at,
            lasting(waits_s),
            rows=rows_of_number("due", row.name, scene.glance.now),
        )


RULES = (_growing, _over_target)
