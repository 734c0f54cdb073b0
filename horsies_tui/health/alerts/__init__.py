"""The alerts of the overview. Each module of this package has rules that raise alerts.

`alerts` runs the `RULES` of all modules in this folder. Findings of the recovery report become alerts in findings.py,
with the words of their kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final, TypeAlias

from horsies_tui.look.damage import drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from horsies_tui.health.glance import Glance

MOST_ALIKE: Final = 4
"""Most alerts of one kind that are listed separately; more are merged into one."""
USUAL_PLACE: Final = 9
NO_WORKER: Final = "nobody"
"""The id of the alert that no worker is alive."""


class Level(IntEnum):
    """The severity of an alert. The highest level is the worst."""

    NOTE = 1
    DEGRADED = 2
    """The system handles the problem, or is only slow."""
    CRITICAL = 3
    """The problem stays until an operator acts, or tasks are being lost."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert. `what` is short enough for the verdict; `evidence` gives the numbers.

    `rows` is the filter of the affected tasks, `workers` that of the affected workers if no tasks are affected. If
    neither is set, the recovery screen has a line for each alert.
    """

    id: str
    level: Level
    what: str
    evidence: str
    since: datetime | None = None
    lasts: str = ""
    """Duration of the problem when the alert was computed, as in its evidence."""
    in_verdict: str = ""
    """The text for the verdict with the duration, if `what` does not include it."""
    rows: str | None = None
    workers: str | None = None
    schedules: str | None = None
    """Filter of the affected schedules, if the alert is about schedules."""
    workflow: str | None = None
    """Id of the workflow, if the alert is about a single one."""
    failing_since: datetime | None = None
    """For failures, the start of the period of `rows`, which stays the same while the alert lasts."""
    place: int = USUAL_PLACE
    """Rank among alerts of one level. The lowest comes first, because it often causes the others."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The data for the rules. `targets` has the seconds that a due task may wait, by queue.

    `began` has the start of each failure alert that was raised before, by alert id; its rows are counted from there.
    """

    glance: Glance
    targets: Mapping[str, float]
    began: Mapping[str, datetime]


_NO_TARGETS: Final[Mapping[str, float]] = {}
_NEVER: Final[Mapping[str, datetime]] = {}
Rule: TypeAlias = "Callable[[Scene], Iterator[Alert]]"


def alerts(
    glance: Glance, targets: Mapping[str, float] = _NO_TARGETS, began: Mapping[str, datetime] = _NEVER
) -> tuple[Alert, ...]:
    """Return all alerts, worst first."""
    scene = Scene(glance, targets, began)
    by_id: dict[str, Alert] = {}
    for rule in _rules():
        name = rule.__name__.strip("_")
        found = drawn(f"alert {name}", partial(_raised, rule, scene), partial(_damaged, name))
        by_id |= {alert.id: alert for alert in found}
    return tuple(sorted(by_id.values(), key=lambda alert: (-alert.level, alert.place, alert.since or glance.now)))


def _raised(rule: Rule, scene: Scene) -> list[Alert]:
    return [*rule(scene)]


def _damaged(name: str, words: str) -> list[Alert]:
    """Return the alert that replaces those of a rule that raised an exception."""
    return [Alert(f"damaged\t{name}", Level.DEGRADED, words, "the check failed; see the errors (!)", None, "")]


@cache
def _rules() -> tuple[Rule, ...]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return tuple(rule for module in modules for rule in module.RULES)


def merged(
    found: Sequence[Alert],
    what: str,
    *,
    rows: Callable[[Iterable[str]], str] | None = None,
    workers: str | None = None,
) -> Iterator[Alert]:
    """Merge many alerts about different subjects into one, with the evidence of the first and the rows of all."""
    if len(found) <= MOST_ALIKE:
        yield from found
        return
    first = found[0]
    rule = first.id.partition("\t")[0]
    subjects = [alert.id.partition("\t")[2] for alert in found]
    yield Alert(
        rule,
        first.level,
        f"{len(found)} {what}",
        f"{first.what}: {first.evidence}",
        first.since,
        first.lasts,
        rows=None if rows is None else rows(subjects),
        workers=workers,
    )
