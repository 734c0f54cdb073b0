"""The alerts of the overview; each module of this package has the rules that raise some.

`alerts` runs the `RULES` of every module here, found by its name alone. A finding of the recovery report becomes an
alert by the words of its kind; see findings.py of this package.
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
"""Up to this many alerts of one kind have a line each; more are merged into one."""
USUAL_PLACE: Final = 9
NO_WORKER: Final = "nobody"
"""The id of the alert that no worker is alive."""


class Level(IntEnum):
    """Sorted descending, the worst comes first."""

    NOTE = 1
    DEGRADED = 2
    """The system handles it, or it is only slow."""
    CRITICAL = 3
    """It stays until an operator acts, or tasks are being lost."""


@dataclass(frozen=True, slots=True)
class Alert:
    """`what` is short enough for the verdict, `evidence` gives the numbers.

    `rows` is the filter of the tasks that the alert is about, `workers` that of the workers if it is only about those.
    If neither is set, the recovery screen has a line for each.
    """

    id: str
    level: Level
    what: str
    evidence: str
    since: datetime | None = None
    lasts: str = ""
    """How long it has lasted when it was computed, as in its evidence."""
    in_verdict: str = ""
    """The words of the verdict, if no other part says how long."""
    rows: str | None = None
    workers: str | None = None
    schedules: str | None = None
    """The filter of the schedules screen, if it is about schedules."""
    workflow: str | None = None
    """The id of the workflow, if the alert is about a single one."""
    failing_since: datetime | None = None
    """For failures: the start of `rows`. Kept while the alert lasts, so that no row drops out."""
    place: int = USUAL_PLACE
    """Among alerts of one level the lowest comes first: most of the others follow from it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The data that the rules judge. `targets`: by queue, how many seconds a due task may wait.

    `began`: by alert id, the start of each failure alert that was raised before: its rows are counted from then on.
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
    """All alerts, worst first."""
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
    """An alert in place of those of a rule that what it judges has made fail."""
    return [Alert(f"damaged\t{name}", Level.DEGRADED, words, "it cannot be judged: ! says why", None, "")]


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
    """One alert in place of many about different subjects: the evidence of the first, and the rows of all."""
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
