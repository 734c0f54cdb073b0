"""Alerts made from the recovery report: one for each finding, or one for many findings of a kind."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from horsies.operations.findings import FindingKind, Severity
from horsies.operations.formatting import counted
from horsies_tui.health.alert import Alert, Level
from horsies_tui.health.rows import MOST_NAMED, NUMBERS, any_of, filter_of, rows_of_finding, rows_of_worker
from horsies_tui.health.times import lasting, whole_minutes
from horsies_tui.look.units import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from horsies.operations.findings import Finding, Report
    from horsies_tui.health.glance import Glance

MOST_ALIKE: Final = 4
"""Up to this many alerts of one kind have a line each; more are merged into one."""
NOBODY: Final = "nobody"
"""The id of the alert that no worker is alive."""
SWEEPS_MISSED: Final = 3

_LEVELS: Final = {Severity.NEEDS_YOU: Level.HURT, Severity.HANDLED: Level.LOOK, Severity.NOTE: Level.NOTE}
_OF_QUEUES: Final = (FindingKind.QUEUE_WITHOUT_WORKER, FindingKind.PAUSED_QUEUE)
_TROUBLES: Final = {
    FindingKind.UNKNOWN_NAME: "unknown to all workers",
    FindingKind.CRASHED: "crashed, not handled yet",
    FindingKind.STALE_RUN: "stale",
    FindingKind.STALE_CLAIM: "claimed and stale",
    FindingKind.FINALIZING: "never finalized",
    FindingKind.LEASE_RAN_OUT: "with a lease that ran out",
}
# The operator should learn of a lost worker, whatever the sweep does or did about it.
_LEVELS_OF_WORKERS: Final = {FindingKind.WORKER_GONE: Level.HURT, FindingKind.WORKER_DIED: Level.LOOK}
_kind_of = attrgetter("kind")


def from_report(glance: Glance) -> Iterator[Alert]:
    """In the report's order. Tasks that a lost worker left behind are reported once, with the worker."""
    report = glance.report
    if report is None:
        return
    gone = {finding.worker_id for finding in report.findings if finding.kind is FindingKind.WORKER_GONE}
    stale = [row for row in report.findings if row.worker_id in gone and row.kind is not FindingKind.WORKER_GONE]
    told = [row for row in report.findings if row not in stale]
    for kind, findings in groupby(sorted(told, key=_kind_of), _kind_of):
        yield from _of_kind(kind, list(findings), stale, report, glance)
    yield from _sweeps(report)


def _of_kind(
    kind: FindingKind, findings: list[Finding], stale: Sequence[Finding], report: Report, glance: Glance
) -> Iterator[Alert]:
    nobody = kind is FindingKind.QUEUE_WITHOUT_WORKER and not glance.alive
    if nobody or len(findings) > MOST_ALIKE:
        yield _together(kind, findings, report, glance, nobody=nobody)
        return
    for finding in findings:
        if kind is FindingKind.WORKER_DIED:
            yield _died(finding, report, glance)
        elif kind is FindingKind.WORKER_GONE:
            left = sum(row.count for row in stale if row.worker_id == finding.worker_id)
            yield _gone(finding, left, report, glance)
        else:
            yield _one(finding, report, glance)


def _lasts(finding: Finding, report: Report) -> str:
    """As of the time of the report, as in its evidence: otherwise the two would differ."""
    return "" if finding.since is None else lasting((report.now - finding.since).total_seconds())


def _one(finding: Finding, report: Report, glance: Glance) -> Alert:
    will = f"; will {finding.system_will}" if finding.in_seconds is not None else ""
    return Alert(
        _id_of(finding),
        _LEVELS[finding.severity],
        _what(finding, glance),
        whole_minutes(finding.evidence) + will,
        finding.since,
        _lasts(finding, report),
        rows=rows_of_finding(finding) if finding.target_kind in ("task", "queue") else None,
        workflow=finding.ids[0] if finding.target_kind == "workflow" and finding.count == 1 else None,
    )


def _gone(finding: Finding, stale: int, report: Report, glance: Glance) -> Alert:
    lasts, name = _lasts(finding, report), glance.name(finding.name)
    since = f" for {lasts}" if lasts else ""
    held = counted(finding.count, "task")
    more = f", {number(stale)} stale" if stale else ""
    return Alert(
        _id_of(finding),
        Level.HURT,
        f"{name} is lost, holds {held}{more}",
        whole_minutes(finding.evidence),
        finding.since,
        lasts,
        f"{name} is lost{since}, holds {held}{more}",
        rows_of_worker(finding.name),
    )


def _died(finding: Finding, report: Report, glance: Glance) -> Alert:
    """Raised until an operator acknowledges it; its link shows exactly the tasks that failed or were returned."""
    name, held = glance.name(finding.name), counted(finding.count, "task")
    return Alert(
        _id_of(finding),
        Level.LOOK,
        f"{name} died with {held}",
        finding.evidence,
        finding.since,
        _lasts(finding, report),
        rows=filter_of(finding),
    )


def _together(kind: FindingKind, findings: Sequence[Finding], report: Report, glance: Glance, *, nobody: bool) -> Alert:
    """One alert for many findings of a kind; the evidence is that of the oldest."""
    oldest = min(findings, key=lambda row: (row.since is None, row.since))
    tasks = sum(row.count for row in findings)
    names = [row.name for row in findings]
    rows, workers = None, None
    first = glance.name(oldest.name) if oldest.target_kind == "worker" else oldest.name
    match kind:
        case FindingKind.WORKER_GONE:
            what = f"{len(findings)} workers are lost, they hold {counted(tasks, 'task')}"
            workers = "status:lost has:tasks"
        case FindingKind.WORKER_DIED:
            what = f"{len(findings)} workers died with {counted(tasks, 'task')}"
            workers = "status:died"
        case FindingKind.QUEUE_WITHOUT_WORKER if nobody:
            what = f"no worker is alive, {number(tasks)}{_plus(findings)} due"
        case _ if kind in _OF_QUEUES:
            state = "are paused" if kind is FindingKind.PAUSED_QUEUE else "have no worker"
            what = f"{len(findings)} queues {state}, {number(tasks)}{_plus(findings)} due"
        case _:
            what = f"{number(tasks)}{_plus(findings)} {kind.value}, of {counted(len(findings), 'kind')}"
    if kind in _OF_QUEUES and len(names) <= MOST_NAMED:
        rows = f"{NUMBERS['due']} queue:{any_of(names)}"
    level = _LEVELS_OF_WORKERS.get(kind) or max(_LEVELS[row.severity] for row in findings)
    return Alert(
        NOBODY if nobody else kind.value,
        level,
        what,
        f"{first}: {whole_minutes(oldest.evidence)}",
        oldest.since,
        _lasts(oldest, report),
        rows=rows,
        workers=workers,
    )


def _plus(findings: Sequence[Finding]) -> str:
    return "+" if any(row.at_least for row in findings) else ""


def _id_of(finding: Finding) -> str:
    return "\t".join(
        (finding.kind, finding.name, finding.queue_name or "", finding.worker_id or "", finding.system_will)
    )


def _what(finding: Finding, glance: Glance) -> str:
    many = f"{number(finding.count)}{'+' if finding.at_least else ''}"
    match finding.kind:
        case FindingKind.PAUSED_QUEUE:
            return f"queue {finding.name} is paused, {many} due"
        case FindingKind.QUEUE_WITHOUT_WORKER:
            return f"queue {finding.name} has no worker, {many} due"
        case FindingKind.RULE_NOT_APPLIED:
            return f"no worker sweeps {finding.name}"
        case _:
            where = f" on {glance.name(finding.worker_id)}" if finding.worker_id else ""
            return f"{many} {finding.name} {_TROUBLES.get(finding.kind, finding.kind.value)}{where}"


def _sweeps(report: Report) -> Iterator[Alert]:
    if report.sweep is None or not report.workers_alive:
        return
    late_s, every_s = (report.now - report.sweep.ran_at).total_seconds(), report.sweep.interval_ms / 1000
    if late_s > SWEEPS_MISSED * every_s:
        lasts, what = lasting(late_s), "no worker sweeps: what is stuck stays stuck"
        evidence = f"last recovery sweep {lasts} ago, due every {lasting(every_s)}"
        yield Alert("sweep", Level.HURT, what, evidence, report.sweep.ran_at, lasts)
