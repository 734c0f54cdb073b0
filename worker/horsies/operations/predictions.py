"""What the sweep will do to claimed and running tasks, by the sweep's own rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from horsies.domain.codes import OperationalErrorCode
from horsies.domain.retry import GiveUp, RetryRule, decide
from horsies.operations.findings import FindingKind, Severity
from horsies.operations.formatting import clock, span
from horsies.store.sweep_state import CLAIMS, RUNS

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.operations.cluster import Cluster
    from horsies.operations.findings import Spared


def spared_sentence(spared: Spared) -> str:
    """Why silent rows are left alone, and until when."""
    if spared.gap_ended is None:
        what = f"No worker has stored a heartbeat since {clock(spared.gap_began)}"
    else:
        what = f"No worker could store a heartbeat from {clock(spared.gap_began)} until {clock(spared.gap_ended)}"
    return f"{what}; those that live do so until {clock(spared.until)}, and are spared for so long."


NOBODY_SWEEPS = "nothing: no worker lives that could sweep"


@dataclass(frozen=True, slots=True)
class InFlightProblem:
    """A row of `diagnose_in_flight`, in its column order. Rows with equal kind, name, queue and worker are counted
    together."""

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
class Holder:
    """A row of `diagnose_holders`, in its column order: a lost worker. Both signs are those of the task that is
    stale first."""

    worker_id: str
    running: int
    claimed: int
    snapshot_at: datetime | None
    last_sign: datetime
    claim_sign: datetime | None
    run_sign: datetime | None


@dataclass(frozen=True, slots=True)
class PredictedAction:
    """What will happen to a row; rows with the same prediction share one line."""

    system_will: str
    in_seconds: float | None
    severity: Severity
    reason: str = ""


class _Middle(Random):
    """No jitter: a report must not differ between two reads."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def fate_of(trouble: InFlightProblem, cluster: Cluster) -> PredictedAction:
    if trouble.kind == FindingKind.STALE_RUN:
        return _spared(_crash(trouble, cluster, cluster.sweep_in(cluster.runs_spared_until, RUNS)), cluster)
    if trouble.kind == FindingKind.FINALIZING:
        return _finalizing(trouble, cluster)
    if trouble.kind == FindingKind.STALE_CLAIM:
        return _given_back(cluster, "requeue", cluster.spared.claims_until if cluster.spared else None)
    return _lease_ran_out(trouble, cluster)


def _spared(fate: PredictedAction, cluster: Cluster) -> PredictedAction:
    if cluster.spared is None or cluster.spared.runs_until is None or fate.severity is not Severity.HANDLED:
        return fate
    return replace(fate, reason=f"{spared_sentence(cluster.spared)} {fate.reason}".strip())


def fate_of_holdings(holder: Holder, cluster: Cluster) -> PredictedAction:
    """Its tasks become stale one by one; the time is that of the first."""
    settings = cluster.settings
    steps: list[tuple[datetime, str]] = []
    if holder.claim_sign and settings.auto_requeue_stale_claimed:
        patience = timedelta(milliseconds=settings.claimed_stale_threshold_ms)
        steps.append((holder.claim_sign + patience, f"requeue {holder.claimed} claimed"))
    if holder.run_sign and settings.auto_fail_stale_running:
        patience = timedelta(milliseconds=settings.running_stale_threshold_ms)
        steps.append((holder.run_sign + patience, f"retry or fail {holder.running} running"))
    if not cluster.alive:
        return PredictedAction(NOBODY_SWEEPS, None, Severity.NEEDS_YOU)
    if not steps:
        return PredictedAction("nothing: the recovery of what it holds is off", None, Severity.NEEDS_YOU)
    steps.sort()
    rule = RUNS if steps[0][1].startswith("retry") else CLAIMS
    return PredictedAction(", ".join(text for _, text in steps), cluster.sweep_in(steps[0][0], rule), Severity.HANDLED)


def _crash(trouble: InFlightProblem, cluster: Cluster, in_seconds: float | None) -> PredictedAction:
    if not cluster.alive:
        return PredictedAction(NOBODY_SWEEPS, None, Severity.NEEDS_YOU)
    if not cluster.settings.auto_fail_stale_running:
        return PredictedAction("nothing: auto_fail_stale_running is off", None, Severity.NEEDS_YOU)
    decision = decide(
        RetryRule.from_text(trouble.task_options),
        error_code=OperationalErrorCode.WORKER_CRASHED.value,
        retry_count=trouble.retry_count,
        max_retries=trouble.max_retries,
        now=cluster.now + timedelta(seconds=in_seconds or 0.0),
        good_until=trouble.good_until,
        rng=_Middle(),
    )
    if isinstance(decision, GiveUp):
        reason = f"It is not tried again: {decision.reason.value}."
        return PredictedAction("fail as WORKER_CRASHED", in_seconds, Severity.HANDLED, reason)
    return PredictedAction(f"retry after {span(decision.delay_s)}", in_seconds, Severity.HANDLED)


def _finalizing(trouble: InFlightProblem, cluster: Cluster) -> PredictedAction:
    """Left alone while the mark is young, and while it beats."""
    if not trouble.stale or trouble.finalizing_at is None:
        return PredictedAction("nothing: it still beats", None, Severity.NEEDS_YOU)
    patience = timedelta(milliseconds=cluster.settings.finalizing_stale_threshold_ms)
    return _crash(trouble, cluster, cluster.sweep_in(trouble.finalizing_at + patience, RUNS))


def _lease_ran_out(trouble: InFlightProblem, cluster: Cluster) -> PredictedAction:
    """Any worker that may run it takes it over with its next claim; without such a worker it waits until it is
    stale."""
    if cluster.may_run(trouble.task_name, trouble.queue_name):
        return PredictedAction("claim it again with the next free place", None, Severity.HANDLED)
    patience = timedelta(milliseconds=cluster.settings.claimed_stale_threshold_ms)
    return _given_back(cluster, "requeue once it is stale", trouble.last_sign + patience)


def _given_back(cluster: Cluster, how: str, stale_at: datetime | None) -> PredictedAction:
    if not cluster.alive:
        return PredictedAction(NOBODY_SWEEPS, None, Severity.NEEDS_YOU)
    if not cluster.settings.auto_requeue_stale_claimed:
        return PredictedAction("nothing: auto_requeue_stale_claimed is off", None, Severity.NEEDS_YOU)
    return PredictedAction(how, cluster.sweep_in(stale_at, CLAIMS), Severity.HANDLED)
