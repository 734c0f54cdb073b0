"""Living workers: their clocks, and whether they recover by the same settings."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import counted
from horsies.views import worker_clocks, worker_rows
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from horsies.doctor import CheckContext

_MAX_NAMED: Final = 3


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
    what = f"{counted(len(rows), 'living worker')}, all with the same" if rows else "no living worker"
    return lines or [CheckLine(CheckVerdict.OK, what)]


def _differences(reported: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Each setting with several values, and who has which; one that a worker does not report has none."""
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


CHECKS = (
    Check("clocks", 130, _clocks, needs_tables=True),
    Check("recovery settings", 140, _settings, needs_tables=True),
)
