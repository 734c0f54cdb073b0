"""The rules that raise alerts: each names its evidence and the filter for its rows."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from horsies.operations.findings import FindingKind
from horsies.operations.formatting import counted, span
from horsies.views import GONE_AFTER_S, LATE_AFTER_S, LATELY, RATES_OVER, Liveness
from horsies_tui.health.alert import Alert, Level
from horsies_tui.health.from_report import MOST_ALIKE, NOBODY, from_report
from horsies_tui.health.rates import Course
from horsies_tui.health.rows import (
    MOST_NAMED,
    NUMBERS,
    any_of,
    one_worker,
    rows_of_error,
    rows_of_number,
    rows_that_failed,
)
from horsies_tui.health.times import lasting
from horsies_tui.look.units import number, per_second

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from horsies.views import QueueRow, WorkerRow
    from horsies_tui.health.glance import Glance

OLDEST_TARGET_S: Final = 300.0
"""The longest time that a due task should wait, unless the config file sets another one."""
SURGE: Final = 5.0
"""A surge is this many times the usual number of failures."""
LEAST_FAILURES: Final = 10
AHEAD_S: Final = 2.0
BEHIND_S: Final = 30.0
"""A worker takes some seconds from start to first snapshot; only a longer delay means that its clock is behind."""
_RATES_OVER: Final = lasting(RATES_OVER.total_seconds())
_NO_TARGETS: Final[Mapping[str, float]] = {}
_NEVER: Final[Mapping[str, datetime]] = {}
_GONE_NOTED_S: Final = 600.0
"""A worker that stopped or was lost without tasks is mentioned for this long."""


def alerts(
    glance: Glance, targets: Mapping[str, float] = _NO_TARGETS, began: Mapping[str, datetime] = _NEVER
) -> tuple[Alert, ...]:
    """All alerts, worst first. `targets`: by queue, how many seconds a due task may wait.

    `began`: by alert id, the start of each failure alert that was raised before: its rows are counted from then on.
    """
    found = chain(
        from_report(glance),
        _late_workers(glance),
        _ended(glance),
        _queues(glance, targets),
        _failures(glance, began),
        _settings(glance),
        _clocks(glance),
    )
    by_id = {alert.id: alert for alert in (*_nobody(glance), *found)}
    return tuple(sorted(by_id.values(), key=lambda alert: (-alert.level, _place(alert), alert.since or glance.now)))


_FIRST: Final = (NOBODY, FindingKind.WORKER_GONE)
"""First among alerts of the same level, since most of the others follow from these."""


def _place(alert: Alert) -> int:
    rule = alert.id.partition("\t")[0]
    return next((place for place, kind in enumerate(_FIRST) if kind == rule), len(_FIRST))


# Workers.


def _nobody(glance: Glance) -> Iterator[Alert]:
    """The report finds the same a moment later, in other words; its alert then replaces this one."""
    due = sum(row.due.number for row in glance.queues if row.paused_at is None)
    if due and not glance.alive:
        evidence = f"no sign of life from any for {lasting(GONE_AFTER_S)}"
        yield Alert(NOBODY, Level.HURT, f"no worker is alive, {number(due)} due", evidence, rows=NUMBERS["due"])


def _late_workers(glance: Glance) -> Iterator[Alert]:
    late = [row for row in glance.workers if row.liveness is Liveness.LATE]
    if len(late) > MOST_ALIKE:
        worst = max(late, key=lambda row: row.silent_s)
        evidence = f"{glance.name(worst.id)} for {lasting(worst.silent_s)}, {_DUE}"
        yield Alert("late", Level.LOOK, f"{len(late)} workers are late", evidence, workers="status:late")
        return
    for row in late:
        evidence = f"last {row.seen_by} {lasting(row.silent_s)} ago, {_DUE}"
        yield _about_worker(row, "late", Level.LOOK, f"{glance.name(row.id)} is late", evidence)


_DUE: Final = f"due within {LATE_AFTER_S:.0f}s"


def _ended(glance: Glance) -> Iterator[Alert]:
    """Workers that held no task: a note, not an alarm. The report covers those that held some."""
    ended = [row for row in glance.workers if row.silent_s < _GONE_NOTED_S and not row.held]
    for liveness, evidence in _ENDS.items():
        these = [row for row in ended if row.liveness is liveness]
        if len(these) > MOST_ALIKE:
            all_of_them = f"all within {lasting(_GONE_NOTED_S)}: {evidence}"
            rows = f"status:{liveness} -has:tasks"
            yield Alert(liveness, Level.NOTE, f"{len(these)} workers {liveness}", all_of_them, workers=rows)
            continue
        for row in these:
            what = f"{glance.name(row.id)} {liveness} {lasting(row.silent_s)} ago"
            yield _about_worker(row, liveness, Level.NOTE, what, evidence)


_ENDS: Final = {
    Liveness.LOST: "no sign of life; it held nothing",
    Liveness.STOPPED: "its last snapshot said that it stops; it held nothing",
}


def _about_worker(row: WorkerRow, rule: str, level: Level, what: str, evidence: str) -> Alert:
    lasts = lasting(row.silent_s)
    return Alert(f"{rule}\t{row.id}", level, what, evidence, row.seen_at, lasts, workers=one_worker(row.id))


def _settings(glance: Glance) -> Iterator[Alert]:
    if glance.report is not None and glance.report.settings_differ:
        what, evidence = "workers have different recovery settings", "each worker sweeps by its own thresholds"
        yield Alert("settings", Level.LOOK, what, evidence, workers="-status:lost,died,stopped")


def _clocks(glance: Glance) -> Iterator[Alert]:
    off = [clock for clock in glance.clocks if clock.ahead_s > AHEAD_S or clock.ahead_s < -BEHIND_S]
    if not off:
        return
    worst = max(off, key=lambda clock: abs(clock.ahead_s))
    more = f", and {counted(len(off) - 1, 'other worker')}" if len(off) > 1 else ""
    way = "ahead of" if worst.ahead_s > 0 else "behind"
    off_by = lasting(abs(worst.ahead_s))
    evidence = f"{glance.name(worst.worker_id)} was {off_by} {way} the database when it started{more}"
    ids = (clock.worker_id for clock in off[:MOST_NAMED])
    yield Alert("clocks", Level.LOOK, "clocks are apart", evidence, workers=f"id:{any_of(ids)}")


# Queues.


def _queues(glance: Glance, targets: Mapping[str, float]) -> Iterator[Alert]:
    # The report covers queues that are paused or that no worker serves.
    waiting = [row for row in glance.queues if row.paused_at is None and row.workers and row.due.number]
    growing = [alert for row in waiting for alert in _growth(row, glance)]
    late = [alert for row in waiting for alert in _age(row, glance, targets.get(row.name, OLDEST_TARGET_S))]
    yield from _together(growing, "are growing")
    yield from _together(late, "are over their targets")


def _together(found: list[Alert], words: str) -> Iterator[Alert]:
    """One alert in place of many similar ones."""
    if len(found) <= MOST_ALIKE:
        yield from found
        return
    first = found[0]
    rule, names = first.id.partition("\t")[0], [alert.id.partition("\t")[2] for alert in found]
    rows = f"{NUMBERS['due']} queue:{any_of(names[:MOST_NAMED])}"
    evidence = f"{first.what}: {first.evidence}"
    yield Alert(rule, Level.LOOK, f"{len(found)} queues {words}", evidence, first.since, first.lasts, rows=rows)


def _growth(row: QueueRow, glance: Glance) -> Iterator[Alert]:
    outlook, rate = glance.outlook(row), glance.rate(row.name)
    if outlook.course is Course.GROWS:
        yield Alert(
            f"grows\t{row.name}",
            Level.LOOK,
            f"{row.name} is growing, {number(row.due.number)} due",
            f"{per_second(rate.in_per_s)}/s in, {per_second(rate.out_per_s)}/s out in the last {_RATES_OVER}",
            rows=rows_of_number("due", row.name, glance.now),
        )


def _age(row: QueueRow, glance: Glance, target_s: float) -> Iterator[Alert]:
    if row.oldest_due_at is None:
        return
    waits_s = (glance.now - row.oldest_due_at).total_seconds()
    if waits_s > target_s:
        yield Alert(
            f"oldest\t{row.name}",
            Level.LOOK,
            f"{row.name} is over its {span(target_s).removesuffix('00s')} target",
            f"the oldest due task waits for {lasting(waits_s)}",
            row.oldest_due_at,
            lasting(waits_s),
            rows=rows_of_number("due", row.name, glance.now),
        )


# Failures.


def _failures(glance: Glance, began: Mapping[str, datetime]) -> Iterator[Alert]:
    surging = [kind for kind in glance.failures if surges(kind.lately, kind.usual)]
    lately_on = glance.now - LATELY
    for kind in surging:
        rule = f"error\t{kind.error_code or ''}"
        since = began.get(rule, lately_on)
        yield Alert(
            rule,
            Level.LOOK,
            f"{kind.error_code or 'failures without a code'} surges",
            _compared(kind.lately, kind.usual),
            failing_since=since,
            rows=rows_of_error(kind.error_code, since),
        )
    lately = sum(kind.lately for kind in glance.failures)
    usual = [kind.usual for kind in glance.failures]
    expected = None if None in usual else sum(value for value in usual if value is not None)
    # If one code causes most failures, its alert is enough.
    if not surging and surges(lately, expected):
        since = began.get("failures", lately_on)
        evidence = _compared(lately, expected)
        rows = rows_that_failed(since)
        yield Alert("failures", Level.LOOK, "more fails than usual", evidence, failing_since=since, rows=rows)


def surges(lately: int, usual: float | None) -> bool:
    """Whether this number of failures within LATELY is far more than usual."""
    return lately >= LEAST_FAILURES and (usual is None or lately >= SURGE * max(usual, 1.0))


def _compared(lately: int, usual: float | None) -> str:
    before = "too many to say what is usual" if usual is None else f"usually {usual:.0f}"
    return f"{number(lately)} in {lasting(LATELY.total_seconds())}, {before}"
