"""Claimed and running tasks without a recent sign of life, and the lost workers that have tasks.

The predictions use the sweep's own functions: `horsies_silent_before` and `horsies_runs_silent_before` of the
schema, and `after_crash`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter, itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.quantities import clock, span
from horsies.domain.retry import GiveUp
from horsies.findings import (
    MOST_IDS,
    NO_WORKER_SWEEPS,
    RUNS_AGAIN,
    Finding,
    FindingKind,
    PredictedAction,
    Search,
    Severity,
    remedies,
)
from horsies.findings.cluster import ALIVE_WITHIN_S
from horsies.lifecycle.recovering import after_crash
from horsies.store.statements import statement
from horsies.store.worker_states import CLAIMS, RUNS
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import asyncpg

    from horsies.findings.cluster import Cluster

STALE_RUN = FindingKind("stale run", 60, tasks="status:running", swept="stale_runs", alert="{count} {name} stale{on}")
WORKER_LOST = FindingKind(
    "worker lost",
    70,
    tasks="status:claimed,running",
    workers="status:lost has:tasks",
    alert="{name} is lost{lasting}, {held}",
    alerts="{findings} workers are lost, they hold {tasks}",
    alert_severity=Severity.NEEDS_ACTION,
    stands_for_its_tasks=True,
)
FINALIZING = FindingKind("finalizing", 90, tasks="status:running", alert="{count} {name} never finalized{on}")
STALE_CLAIM = FindingKind(
    "stale claim",
    170,
    state="CLAIMED",
    tasks="status:claimed",
    swept="stale_claims",
    alert="{count} {name} claimed and stale{on}",
)
LEASE_RAN_OUT = FindingKind(
    "lease ran out", 190, state="CLAIMED", tasks="status:claimed", alert="{count} {name} with an expired lease{on}"
)

_NEVER_BEGAN: Final = "User code has not begun, so nothing can happen twice."
_alike = attrgetter("kind", "task_name", "queue_name", "worker_id")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of `diagnose_in_flight`, in its column order. `alike` counts rows of this kind, name, queue and worker."""

    kind: str
    stale: bool
    task_id: str
    task_name: str
    queue_name: str
    worker_id: str | None
    began_at: datetime
    finalizing_at: datetime | None
    claim_expires_at: datetime | None
    alike: int
    last_beat: datetime | None
    retry_count: int
    max_retries: int
    good_until: datetime | None
    task_options: str | None

    @property
    def last_sign(self) -> datetime:
        return self.last_beat or self.began_at


@dataclass(frozen=True, slots=True)
class _Holder:
    """A lost worker, in the column order of `diagnose_holders`. Both signs are of the task that becomes stale first."""

    worker_id: str
    running: int
    claimed: int
    snapshot_at: datetime | None
    last_sign: datetime
    claim_sign: datetime | None
    run_sign: datetime | None

    @property
    def in_flight(self) -> str:
        return f"{self.running} running and {self.claimed} claimed"


@dataclass(frozen=True, slots=True)
class _Silence:
    """The limit of silence: rows silent since before `before` count as dead now, by the sweep's own function."""

    now: datetime
    before: datetime
    threshold: timedelta
    spared_until: datetime | None

    def counts_from(self, last_sign: datetime) -> datetime:
        """Return when a sweep counts a row with this last sign as dead.

        While silent rows are spared, only time in which workers could beat counts.
        """
        moment = last_sign + (self.now - self.before)
        if self.spared_until is None:
            return moment
        return min(moment, max(self.spared_until, last_sign + self.threshold))


@dataclass(frozen=True, slots=True)
class _Sweeps:
    """The thresholds of the next sweeps: for claims, for finalizing marks, and for the runs of each worker."""

    cluster: Cluster
    claims: _Silence
    marks: _Silence
    runs: Mapping[str, _Silence]

    def run_counts_from(self, row: _Row) -> datetime:
        """Return when a sweep counts this run as crashed: it is silent, and its finalizing mark is old too."""
        silent = self.runs[row.worker_id or ""].counts_from(row.last_sign)
        return silent if row.finalizing_at is None else max(silent, self.marks.counts_from(row.finalizing_at))


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    settings = cluster.settings
    records = await conn.fetch(
        statement(__name__, "diagnose_in_flight"),
        settings.claimed_stale_threshold_ms,
        settings.running_stale_threshold_ms,
        settings.finalizing_stale_threshold_ms,
        MOST_IDS,
    )
    lost = [
        _Holder(*row) for row in await conn.fetch(statement(__name__, "diagnose_holders"), ALIVE_WITHIN_S, MOST_IDS)
    ]
    rows = sorted((_Row(*record) for record in records), key=lambda row: tuple(map(str, _alike(row))))
    if not rows and not lost:
        return []
    owners = {row.worker_id or "" for row in rows} | {holder.worker_id for holder in lost}
    sweeps = await _sweeps(conn, cluster, owners)
    holders = {holder.worker_id: holder for holder in lost}
    findings: list[Finding] = []
    for _, same in groupby(rows, _alike):
        findings += _by_prediction(list(same), sweeps, holders)
    return findings + [_lost(holder, sweeps) for holder in lost]


async def _sweeps(conn: asyncpg.Connection, cluster: Cluster, owners: Iterable[str]) -> _Sweeps:
    """Read the limits of silence. In a database without a pulse, which is upstream's, silence alone counts."""
    settings, spared = cluster.settings, cluster.spared
    rows: Iterable[Mapping[str, Any]] = [{"worker_id": owner} for owner in owners]
    if "horsies_pulse" in cluster.tables:
        rows = await conn.fetch(
            statement(__name__, "diagnose_silence"),
            settings.claimed_stale_threshold_ms,
            settings.claimer_heartbeat_interval_ms,
            settings.running_stale_threshold_ms,
            settings.runner_heartbeat_interval_ms,
            settings.finalizing_stale_threshold_ms,
            [row["worker_id"] for row in rows],
        )

    def silence(row: Mapping[str, Any], what: str, threshold_ms: int, spared_until: datetime | None) -> _Silence:
        threshold = timedelta(milliseconds=threshold_ms)
        return _Silence(cluster.now, row.get(what, cluster.now - threshold), threshold, spared_until)

    first, of_runs = next(iter(rows)), settings.running_stale_threshold_ms
    claims_until, runs_until = (spared.claims_until, spared.runs_until) if spared else (None, None)
    return _Sweeps(
        cluster,
        silence(first, "claims", settings.claimed_stale_threshold_ms, claims_until),
        silence(first, "marks", settings.finalizing_stale_threshold_ms, runs_until),
        # If a worker reported a longer threshold, its own applies.
        {row["worker_id"]: silence(row, "runs", of_runs, None if row.get("longer") else runs_until) for row in rows},
    )


def _by_prediction(rows: list[_Row], sweeps: _Sweeps, holders: Mapping[str, _Holder]) -> Iterator[Finding]:
    """Yield one finding per prediction. If they differ and not all rows were read, the counts are lower bounds."""
    case = _CASES[rows[0].kind]
    by_prediction: dict[PredictedAction, list[_Row]] = {}
    for row in rows:
        by_prediction.setdefault(case.predict(row, sweeps), []).append(row)
    alike, several = rows[0].alike, len(by_prediction) > 1
    holder = holders.get(rows[0].worker_id or "")
    for prediction, same in by_prediction.items():
        since, first = min(((_since(row, case), row) for row in same), key=itemgetter(0))
        ids = tuple(row.task_id for row in same)
        recover = () if holder is None else remedies("worker", (holder.worker_id,), "recover")
        yield Finding(
            kind=case.kind,
            target_kind="task",
            name=first.task_name,
            ids=ids,
            count=len(same) if several else alike,
            since=since,
            evidence=_evidence(case, since, sweeps.cluster) + (", its worker is lost" if holder else ""),
            prediction=prediction,
            remedies=remedies("task", ids, *case.verbs) + recover,
            why=tuple(_why(first, case, prediction, holder)),
            at_least=several and len(rows) < alike,
            queue_name=first.queue_name,
            worker_id=first.worker_id,
        )


def _since(row: _Row, case: _SilentCase) -> datetime:
    moment: datetime | None = getattr(row, case.since)
    return moment or row.last_sign


def _evidence(case: _SilentCase, since: datetime, cluster: Cluster) -> str:
    return case.evidence.format(
        silent=span((cluster.now - since).total_seconds()),
        runs=span(cluster.settings.running_stale_threshold_ms / 1000),
        claims=span(cluster.settings.claimed_stale_threshold_ms / 1000),
    )


def _why(row: _Row, case: _SilentCase, prediction: PredictedAction, holder: _Holder | None) -> Iterator[str]:
    beat = f"beat last at {clock(row.last_beat)}" if row.last_beat else "has never beaten since"
    worker = name_of(row.worker_id) if row.worker_id else "a worker without a name"
    yield f"It was {case.was} at {clock(row.began_at)} by {worker} and {beat}."
    if holder is not None:
        yield _held_by(holder)
    if prediction.reason:
        yield prediction.reason
    yield case.risk


def _held_by(holder: _Holder) -> str:
    said = f"wrote its last snapshot at {clock(holder.snapshot_at)}" if holder.snapshot_at else "has no snapshot"
    return f"{name_of(holder.worker_id)} {said}. It holds {holder.in_flight}."


def _lost(holder: _Holder, sweeps: _Sweeps) -> Finding:
    silent = span((sweeps.cluster.now - holder.last_sign).total_seconds())
    return Finding(
        kind=WORKER_LOST,
        target_kind="worker",
        name=holder.worker_id,
        ids=(holder.worker_id,),
        count=holder.running + holder.claimed,
        since=holder.last_sign,
        evidence=f"no sign of life for {silent}, holds {holder.in_flight}",
        prediction=_recovery_of_all(holder, sweeps),
        remedies=remedies("worker", (holder.worker_id,), "recover"),
        why=(_held_by(holder), RUNS_AGAIN if holder.running else _NEVER_BEGAN),
        worker_id=holder.worker_id,
    )


# Predictions


class _Middle(Random):
    """A generator without jitter: a report must not differ between two reads."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def _crash(row: _Row, sweeps: _Sweeps) -> PredictedAction:
    cluster, moment = sweeps.cluster, sweeps.run_counts_from(row)
    if not cluster.alive:
        return NO_WORKER_SWEEPS
    if not cluster.settings.auto_fail_stale_running:
        return PredictedAction("nothing: auto_fail_stale_running is off", Severity.NEEDS_ACTION)
    in_seconds = cluster.sweep_in(moment, RUNS)
    decision = after_crash(row, now=cluster.now + timedelta(seconds=in_seconds or 0.0), rng=_Middle())
    action, reason = "fail as WORKER_CRASHED", ""
    if isinstance(decision, GiveUp):
        reason = f"It is not retried: {decision.reason.value}."
    else:
        action = f"retry after {span(decision.delay_s)}"
    if cluster.spared is not None and cluster.spared.runs_until == moment:
        reason = f"{cluster.spared.words()} {reason}".strip()
    return PredictedAction(action, Severity.HANDLED, in_seconds, reason)


def _marked(row: _Row, sweeps: _Sweeps) -> PredictedAction:
    """Predict that it is not changed while its mark is young, or while it beats."""
    return _crash(row, sweeps) if row.stale else PredictedAction("nothing: it still beats", Severity.NEEDS_ACTION)


def _lease_ran_out(row: _Row, sweeps: _Sweeps) -> PredictedAction:
    """Predict that a worker reclaims it with its next claim; without a worker it waits until it is stale."""
    if sweeps.cluster.may_run(row.task_name, row.queue_name):
        return PredictedAction("claim it again when a worker has room", Severity.HANDLED)
    return _requeue(row, sweeps, "requeue once it is stale")


def _requeue(row: _Row, sweeps: _Sweeps, action: str = "requeue") -> PredictedAction:
    cluster = sweeps.cluster
    if not cluster.alive:
        return NO_WORKER_SWEEPS
    if not cluster.settings.auto_requeue_stale_claimed:
        return PredictedAction("nothing: auto_requeue_stale_claimed is off", Severity.NEEDS_ACTION)
    moment = sweeps.claims.counts_from(row.last_sign)
    return PredictedAction(action, Severity.HANDLED, cluster.sweep_in(moment, CLAIMS))


def _recovery_of_all(holder: _Holder, sweeps: _Sweeps) -> PredictedAction:
    """Predict that its tasks become stale one by one; the time is that of the first."""
    cluster = sweeps.cluster
    steps: list[tuple[datetime, str, str]] = []
    if holder.claim_sign and cluster.settings.auto_requeue_stale_claimed:
        moment = sweeps.claims.counts_from(holder.claim_sign)
        steps.append((moment, f"requeue {holder.claimed} claimed", CLAIMS))
    if holder.run_sign and cluster.settings.auto_fail_stale_running:
        moment = sweeps.runs[holder.worker_id].counts_from(holder.run_sign)
        steps.append((moment, f"retry or fail {holder.running} running", RUNS))
    if not cluster.alive:
        return NO_WORKER_SWEEPS
    if not steps:
        return PredictedAction("nothing: the recovery of its tasks is switched off", Severity.NEEDS_ACTION)
    steps.sort()
    moment, _, rule = steps[0]
    return PredictedAction(", ".join(step[1] for step in steps), Severity.HANDLED, cluster.sweep_in(moment, rule))


# The kinds.


@dataclass(frozen=True, slots=True)
class _SilentCase:
    """The words of a case. `since` is the start of the silence: the last sign, the end of the code or of the lease."""

    kind: FindingKind
    since: str
    evidence: str
    predict: Callable[[_Row, _Sweeps], PredictedAction]
    verbs: tuple[str, ...]
    was: str
    risk: str


_BEGAN: Final = (("requeue", "fail"), "started", RUNS_AGAIN)
_CLAIMED: Final = (("release", "cancel"), "claimed", _NEVER_BEGAN)
_CASES: Final = {
    case.kind.name: case
    for case in (
        _SilentCase(STALE_RUN, "last_sign", "no heartbeat of its run for {silent}, threshold {runs}", _crash, *_BEGAN),
        _SilentCase(
            FINALIZING, "finalizing_at", "user code ended {silent} ago, its outcome is not stored", _marked, *_BEGAN
        ),
        _SilentCase(
            STALE_CLAIM,
            "last_sign",
            "no heartbeat of its claim for {silent}, threshold {claims}",
            _requeue,
            *_CLAIMED,
        ),
        _SilentCase(LEASE_RAN_OUT, "claim_expires_at", "its lease expired {silent} ago", _lease_ran_out, *_CLAIMED),
    )
}
SEARCH = Search((*(case.kind for case in _CASES.values()), WORKER_LOST), _find)
