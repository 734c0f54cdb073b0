"""Alerts about workers: late and ended workers, clocks, memory, settings, and overdue sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted, size
from horsies.views import LATE_AFTER_S, Liveness
from horsies_tui.health.alerts import Alert, Level, Scene, merged
from horsies_tui.health.figure_filters import MOST_NAMED, any_of, one_worker
from horsies_tui.look.units import lasting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.views import WorkerRow

SWEEPS_MISSED: Final = 3
MUCH_MEMORY: Final = 0.8
NEARLY_ALL_MEMORY: Final = 0.9
"""Share of a machine's memory from which the kernel may soon kill a process."""
_ENDED_NOTED_S: Final = 600.0
"""How long a worker that stopped or was lost without tasks is mentioned."""


def _late(scene: Scene) -> Iterator[Alert]:
    glance = scene.glance
    late = sorted((row for row in glance.workers if row.liveness is Liveness.LATE), key=lambda row: -row.silent_s)
    found = [
        _about(
            row,
            "late",
            Level.DEGRADED,
            f"{glance.name(row.id)} is late",
            f"last {row.seen_by} {lasting(row.silent_s)} ago, due within {LATE_AFTER_S:.0f}s",
        )
        for row in late
    ]
    return merged(found, "workers are late", workers="status:late")


def _lost(scene: Scene) -> Iterator[Alert]:
    return _ended(scene, Liveness.LOST, "no heartbeat; it had no tasks")


def _stopped(scene: Scene) -> Iterator[Alert]:
    return _ended(scene, Liveness.STOPPED, "shut down; it had no tasks")


def _ended(scene: Scene, liveness: Liveness, evidence: str) -> Iterator[Alert]:
    """Yield notes about ended workers without tasks. The recovery report covers those with tasks."""
    glance = scene.glance
    found = [
        _about(row, liveness, Level.NOTE, f"{glance.name(row.id)} {liveness} {lasting(row.silent_s)} ago", evidence)
        for row in glance.workers
        if row.liveness is liveness and row.silent_s < _ENDED_NOTED_S and not row.in_flight
    ]
    return merged(found, f"workers {liveness}", workers=f"status:{liveness} -has:tasks")


def _about(row: WorkerRow, rule: str, level: Level, what: str, evidence: str) -> Alert:
    lasts = lasting(row.silent_s)
    return Alert(f"{rule}\t{row.id}", level, what, evidence, row.seen_at, lasts, workers=one_worker(row.id))


def _settings(scene: Scene) -> Iterator[Alert]:
    report = scene.glance.report
    if report is not None and report.settings_differ:
        what, evidence = "workers have different recovery settings", "each worker sweeps by its own thresholds"
        yield Alert("settings", Level.DEGRADED, what, evidence, workers="-status:lost,died,stopped")


def _clocks(scene: Scene) -> Iterator[Alert]:
    off = [clock for clock in scene.glance.clocks if clock.is_off]
    if not off:
        return
    worst = max(off, key=lambda clock: abs(clock.ahead_s))
    more = f", and {counted(len(off) - 1, 'other worker')}" if len(off) > 1 else ""
    way = "ahead of" if worst.ahead_s > 0 else "behind"
    off_by = lasting(abs(worst.ahead_s))
    evidence = f"{scene.glance.name(worst.worker_id)} was {off_by} {way} the database when it started{more}"
    ids = (clock.worker_id for clock in off[:MOST_NAMED])
    yield Alert("clocks", Level.DEGRADED, "clocks differ", evidence, workers=f"id:{any_of(ids)}")


def _memory(scene: Scene) -> Iterator[Alert]:
    """Alert about hosts with little memory, by the workers' snapshots. A container's limit is a finding instead."""
    glance = scene.glance
    by_host: dict[str, list[WorkerRow]] = {}
    for row in glance.alive:
        if row.snapshot is not None and row.snapshot.whole_memory_mb and row.snapshot.memory_percent:
            by_host.setdefault(row.snapshot.hostname, []).append(row)
    for host, rows in by_host.items():
        used = {row.id: _used_mb(row) for row in rows}
        whole_mb = max(_machine_mb(row) for row in rows)
        share = sum(used.values()) / whole_mb
        if share < MUCH_MEMORY:
            continue
        largest = max(rows, key=_used_mb)
        children_mb = (largest.snapshot and largest.snapshot.children_memory_mb) or 0.0
        most = f"{glance.name(largest.id)} uses {_megabytes(used[largest.id])}, its children {_megabytes(children_mb)}"
        others = f"; {counted(len(rows) - 1, 'other worker')} there" if len(rows) > 1 else ""
        yield Alert(
            f"memory\t{host}",
            Level.CRITICAL if share >= NEARLY_ALL_MEMORY else Level.DEGRADED,
            f"workers use {share:.0%} of the memory of {host}",
            f"{most} of it, of {_megabytes(whole_mb)}{others}",
            workers=f"id:{any_of(row.id for row in rows[:MOST_NAMED])}",
        )


def _used_mb(row: WorkerRow) -> float:
    return (row.snapshot and row.snapshot.whole_memory_mb) or 0.0


def _machine_mb(row: WorkerRow) -> float:
    """Return the memory of a worker's machine, computed from the worker's own use in megabytes and per cent."""
    snapshot = row.snapshot
    if snapshot is None or not snapshot.memory_mb or not snapshot.memory_percent:
        return float("inf")
    return snapshot.memory_mb / snapshot.memory_percent * 100


def _megabytes(amount: float) -> str:
    return size(round(amount) * 1_048_576)


def _sweeps(scene: Scene) -> Iterator[Alert]:
    report = scene.glance.report
    if report is None or report.sweep is None or not report.workers_alive:
        return
    late_s, every_s = (report.now - report.sweep.ran_at).total_seconds(), report.sweep.interval_ms / 1000
    if late_s > SWEEPS_MISSED * every_s:
        lasts, what = lasting(late_s), "no worker sweeps: stuck tasks are not recovered"
        evidence = f"last recovery sweep {lasts} ago, due every {lasting(every_s)}"
        yield Alert("sweep", Level.CRITICAL, what, evidence, report.sweep.ran_at, lasts)


RULES = (_late, _lost, _stopped, _settings, _clocks, _memory, _sweeps)
