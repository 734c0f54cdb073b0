"""The recovery report: what is stuck, why, what horsies does about it automatically, and when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from horsies.findings import searches as packaged
from horsies.findings.cluster import read_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import asyncpg

    from horsies.config.recovery import RecoveryConfig
    from horsies.findings import Finding, Search, Severity
    from horsies.findings.cluster import Spared, SweepState


@dataclass(frozen=True, slots=True)
class Report:
    """The report by the database's clock at `now`, worst finding first."""

    now: datetime
    settings: RecoveryConfig
    settings_from: str | None  # the worker that reported its settings; None for defaults or given settings
    settings_differ: bool  # live workers have different ones: the next sweep may use other thresholds
    sweep: SweepState | None  # None: none has run, or upstream's workers sweep, which record nothing
    workers_alive: int
    findings: tuple[Finding, ...]
    sweeps: tuple[SweepState, ...] = ()  # of each rule and threshold
    spared: Spared | None = None

    def count(self, severity: Severity) -> int:
        return sum(finding.prediction.severity is severity for finding in self.findings)

    def with_more(self, found: Iterable[Finding]) -> Report:
        def worst_first(finding: Finding) -> tuple[int, int, datetime, str]:
            return -finding.prediction.severity, finding.kind.place, finding.since or self.now, finding.name

        return replace(self, findings=tuple(sorted((*self.findings, *found), key=worst_first)))


@cache
def searches() -> tuple[Search, ...]:
    """Return the `SEARCH` of each module of the package `searches`."""
    modules = (import_module(f"{packaged.__name__}.{module.name}") for module in iter_modules(packaged.__path__))
    return tuple(module.SEARCH for module in modules)


async def diagnose(conn: asyncpg.Connection, settings: RecoveryConfig | None = None) -> Report:
    """Read the report, by these `settings`, those of the newest worker, or the defaults if no worker reports any.

    At most 500 ids of each kind are read; the others are counted, waiting rows up to a bound.
    """
    async with conn.transaction(readonly=True):
        cluster = await read_cluster(conn, settings)
        found = [finding for search in searches() for finding in await search.find(conn, cluster)]
    return Report(
        now=cluster.now,
        settings=cluster.settings,
        settings_from=cluster.settings_from,
        settings_differ=cluster.settings_differ,
        sweep=cluster.sweep,
        sweeps=cluster.sweeps,
        spared=cluster.spared,
        workers_alive=cluster.alive,
        findings=(),
    ).with_more(found)
