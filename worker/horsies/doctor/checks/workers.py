"""The checks of live workers: their clocks, their recovery settings, and their deletion of old rows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import counted, span
from horsies.lifecycle.retention import ages_in_use, ages_of, overdue_by
from horsies.store.statements import statement
from horsies.views import worker_clocks, worker_rows
from horsies.views.reader_session import decoded
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from horsies.doctor import CheckContext

_MAX_NAMED: Final = 3
_PRUNED_LATE_S: Final = 2 * 3_600.0
"""Seconds that the deletion may be late: the sweep prunes once an hour, and a large backlog takes several runs."""
_PRUNED_VERY_LATE_S: Final = 86_400.0
_PRUNE: Final = "horsies db prune --dry-run, then horsies db prune; and find out why no worker prunes each hour"


async def _clocks(context: CheckContext) -> Iterable[CheckLine]:
    async with context.reading() as connection:
        clocks = await worker_clocks(connection)
    lines = [
        CheckLine(
            CheckVerdict.WARN,
            f"the clock of {name_of(clock.worker_id)} was {abs(clock.ahead_s):.0f} s "
            f"{'ahead of' if clock.ahead_s > 0 else 'behind'} the database when it started: "
            "times that its tasks take from it are off by that much",
            "timedatectl set-ntp true  # on its host",
        )
        for clock in clocks
        if clock.is_off
    ]
    what = f"{counted(len(clocks), 'worker')}, no clock is off" if clocks else "no living worker whose clock is known"
    return lines or [CheckLine(CheckVerdict.OK, what)]


async def _settings(context: CheckContext) -> Iterable[CheckLine]:
    async with context.reading() as connection:
        rows = [row for row in await worker_rows(connection) if row.lives and row.snapshot is not None]
    reported = {row.name: row.snapshot.recovery_config for row in rows if row.snapshot and row.snapshot.recovery_config}
    if context.config is not None and reported:
        reported["the application"] = context.config.recovery.model_dump()
    remedy = "give all of them one AppConfig, and restart those of the older one: horsies workers drain ID"
    lines = [CheckLine(CheckVerdict.WARN, difference, remedy) for difference in _differences(reported)]
    what = f"{counted(len(rows), 'living worker')}, all with the same settings" if rows else "no living worker"
    return lines or [CheckLine(CheckVerdict.OK, what)]


def _differences(reported: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield each setting with several values, and the workers that have each; unreported ones are ignored."""
    names = dict.fromkeys(name for settings in reported.values() for name in settings)
    for name in names:
        owners: defaultdict[str, list[str]] = defaultdict(list)
        for worker, settings in reported.items():
            if name in settings:
                owners[str(settings[name])].append(worker)
        if len(owners) > 1:
            yield f"{name}: " + ", ".join(f"{value} in {_named(workers)}" for value, workers in owners.items())


def _named(workers: list[str]) -> str:
    more = f" and {len(workers) - _MAX_NAMED} more" if len(workers) > _MAX_NAMED else ""
    return f"{', '.join(workers[:_MAX_NAMED])}{more}"


async def _retention(context: CheckContext) -> Iterable[CheckLine]:
    async with context.reading() as connection:
        if context.config is None:
            ages, worker = await ages_in_use(connection)
            whose = "the defaults" if worker is None else f"worker {worker}"
        else:
            ages, whose = ages_of(context.config.recovery), "the application"
        late = await overdue_by(connection, ages)
    last = await _last_sweep(context)
    lines = [
        CheckLine(
            CheckVerdict.FAIL if late_s > _PRUNED_VERY_LATE_S else CheckVerdict.WARN,
            f"{category.replace('_', ' ')}: the oldest row is overdue by {span(late_s)} "
            f"(kept {_kept(ages[category])}, by {whose}); {last}",
            _PRUNE,
        )
        for category, late_s in late.items()
        if late_s > _PRUNED_LATE_S
    ]
    kept = ", ".join(f"{category.replace('_', ' ')} {_kept(age)}" for category, age in ages.items())
    return lines or [CheckLine(CheckVerdict.OK, f"nothing is overdue; {last}; kept: {kept} (by {whose})")]


def _kept(age_s: float | None) -> str:
    return "for ever" if age_s is None else span(age_s)


async def _last_sweep(context: CheckContext) -> str:
    rows = await context.fetch(statement(__name__, "doctor_last_retention"))
    return f"last swept {span(decoded(rows[0]['ago_s']))} ago by {rows[0]['worker_id']}" if rows else "never swept"


CHECKS = (
    Check("retention", 120, _retention, needs_tables=True),
    Check("clocks", 130, _clocks, needs_tables=True),
    Check("recovery settings", 140, _settings, needs_tables=True),
)
