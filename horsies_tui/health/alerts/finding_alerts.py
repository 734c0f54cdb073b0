"""Alerts from the recovery report: one for each finding, or one for many findings of a kind."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted
from horsies.findings import Severity, by_key
from horsies.views import GONE_AFTER_S
from horsies_tui.health.alerts import MOST_ALIKE, NO_WORKER, USUAL_PLACE, Alert, Level, Scene
from horsies_tui.health.figure_filters import MOST_NAMED, NUMBERS, any_of, filter_of, rows_of_finding, schedules_of
from horsies_tui.look.units import lasting, number, whole_minutes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from horsies.findings import Finding, FindingKind
    from horsies.findings.diagnose import Report
    from horsies_tui.health.glance import Glance

_LEVELS: Final = {
    Severity.NEEDS_ACTION: Level.CRITICAL,
    Severity.HANDLED: Level.DEGRADED,
    Severity.NOTE: Level.NOTE,
}
_SCHEDULES_STUCK: Final = "status:stuck"
_NO_WORKER_PLACE: Final = 0
_CAUSE_PLACE: Final = 1


def _no_worker(scene: Scene) -> Iterator[Alert]:
    """Alert that no worker is alive, until the report has a finding that replaces this alert."""
    glance = scene.glance
    due = sum(row.due.number for row in glance.queues if row.paused_at is None)
    if due and not glance.alive and not glance.awaits_first_worker:
        what = f"no worker is alive, {number(due)} due"
        evidence = f"no heartbeat for {lasting(GONE_AFTER_S)}"
        yield Alert(NO_WORKER, Level.CRITICAL, what, evidence, rows=NUMBERS["due"], place=_NO_WORKER_PLACE)


def _findings(scene: Scene) -> Iterator[Alert]:
    """Yield the alerts of the findings. Tasks of a lost worker are reported once, with the worker."""
    glance, report = scene.glance, scene.glance.report
    if report is None:
        return
    causes = {finding.worker_id for finding in report.findings if finding.kind.stands_for_its_tasks}
    stale = [row for row in report.findings if row.worker_id in causes and not row.kind.stands_for_its_tasks]
    shown = sorted((row for row in report.findings if row not in stale), key=lambda row: row.kind.place)
    for kind, rows in groupby(by_key(shown).items(), lambda row: row[1].kind):
        keyed = dict(rows)
        findings = list(keyed.values())
        unserved = kind.alert_without_workers is not None and not glance.alive
        if unserved and glance.awaits_first_worker:
            continue
        if unserved or len(findings) > MOST_ALIKE:
            yield _together(kind, findings, report, glance)
            continue
        for key, finding in keyed.items():
            left = sum(row.count for row in stale if row.worker_id == finding.worker_id)
            yield _one(key, finding, left if kind.stands_for_its_tasks else 0, report, glance)


def _one(key: str, finding: Finding, stale: int, report: Report, glance: Glance) -> Alert:
    kind, lasts = finding.kind, _lasts(finding, report)
    tasks = counted(finding.count, "task")
    held = f"holds {tasks}, {number(stale)} stale" if stale else f"holds {tasks}"
    if stale >= finding.count:
        held = f"{tasks} stale"

    def words(for_how_long: str) -> str:
        return kind.alert.format(
            count=_count([finding]),
            tasks=tasks,
            name=_name(finding, glance),
            kind=kind.name,
            on=f" on {glance.name(finding.worker_id)}" if finding.worker_id else "",
            lasting=for_how_long,
            held=held,
        )

    # An alert that is raised independently of the sweep does not mention the sweep's action.
    will = kind.alert_severity is None and finding.prediction.in_seconds is not None
    return Alert(
        f"{key}	{finding.prediction.action}",
        _level(finding),
        words(""),
        whole_minutes(finding.evidence) + (f"; will {finding.prediction.action}" if will else ""),
        finding.since,
        lasts,
        words(f" for {lasts}" if lasts else "") if "{lasting}" in kind.alert else "",
        rows=_rows(finding),
        schedules=schedules_of(finding) if finding.target_kind == "schedule" else None,
        workflow=finding.ids[0] if finding.target_kind == "workflow" and finding.count == 1 else None,
        place=_place(kind),
    )


def _rows(finding: Finding) -> str | None:
    if finding.target_kind in ("task", "queue"):
        return rows_of_finding(finding)
    return None if finding.worker_id is None else filter_of(finding)


def _together(kind: FindingKind, findings: Sequence[Finding], report: Report, glance: Glance) -> Alert:
    """Return one alert for many findings of a kind, with the evidence of the oldest."""
    oldest = min(findings, key=lambda row: (row.since is None, row.since))
    queues = [row.name for row in findings if row.target_kind == "queue"]
    unserved = None if glance.alive else kind.alert_without_workers
    return Alert(
        NO_WORKER if unserved else kind.name,
        max(map(_level, findings)),
        (unserved or kind.alerts).format(
            count=_count(findings),
            tasks=counted(sum(row.count for row in findings), "task"),
            kind=kind.name,
            findings=len(findings),
        ),
        f"{_name(oldest, glance)}: {whole_minutes(oldest.evidence)}",
        oldest.since,
        _lasts(oldest, report),
        rows=f"{kind.tasks} queue:{any_of(queues)}" if 0 < len(queues) <= MOST_NAMED else None,
        workers=kind.workers,
        schedules=_SCHEDULES_STUCK if oldest.target_kind == "schedule" else None,
        place=_NO_WORKER_PLACE if unserved else _place(kind),
    )


def _level(finding: Finding) -> Level:
    return _LEVELS[finding.alert_severity or finding.kind.alert_severity or finding.prediction.severity]


def _place(kind: FindingKind) -> int:
    return _CAUSE_PLACE if kind.stands_for_its_tasks else USUAL_PLACE


def _name(finding: Finding, glance: Glance) -> str:
    return glance.name(finding.name) if finding.target_kind == "worker" else finding.name


def _count(findings: Sequence[Finding]) -> str:
    return number(sum(row.count for row in findings)) + ("+" if any(row.at_least for row in findings) else "")


def _lasts(finding: Finding, report: Report) -> str:
    """Return the duration of the finding at the time of the report, as in its evidence."""
    return "" if finding.since is None else lasting((report.now - finding.since).total_seconds())


RULES = (_no_worker, _findings)
