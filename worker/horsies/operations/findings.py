"""The lines of the recovery report: what is stuck, the evidence, what will happen and what an operator may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.config.recovery import RecoveryConfig
    from horsies.operations.preview import TargetKind


class FindingKind(StrEnum):
    """The value is the text shown."""

    INTERRUPTED = "interrupted"
    CRASHED = "crashed"
    PAUSED_BY_ERROR = "paused by error"
    UNKNOWN_NAME = "unknown name"
    QUEUE_WITHOUT_WORKER = "no worker"
    STALE_RUN = "stale run"
    WORKER_GONE = "worker lost"
    WORKER_DIED = "worker died"
    FINALIZING = "finalizing"
    DAMAGED_WORKFLOW = "damaged workflow"
    TASK_ROW_GONE = "task row gone"
    NODE_OUT_OF_STEP = "node out of step"
    WORKFLOW_STALLED = "stalled workflow"
    NODE_WITHOUT_TASK = "node has no task"
    CHILD_FINISHED = "child finished"
    CHILD_NOT_STARTED = "child not begun"
    STALE_CLAIM = "stale claim"
    PAST_DEADLINE = "past good_until"
    LEASE_RAN_OUT = "lease ran out"
    PAUSED_QUEUE = "paused queue"
    RETRY_OVERDUE = "retry overdue"
    RULE_NOT_APPLIED = "rule not applied"


class Severity(IntEnum):
    """Worst first when sorted descending."""

    NOTE = 1  # intended, or only late
    HANDLED = 2  # the sweep, or a worker, handles it
    NEEDS_YOU = 3  # stays as it is until an operator acts


@dataclass(frozen=True, slots=True)
class Remedy:
    """What an operator may do. The verb is one of operations.tasks, .workers, .queues or .workflows, by
    `target_kind`."""

    verb: str
    target_kind: TargetKind
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Rows of one kind, name, queue and worker, with the same predicted action."""

    kind: FindingKind
    severity: Severity
    target_kind: TargetKind
    name: str  # of the task or workflow, the worker's id, or the queue
    ids: tuple[str, ...]  # as many as were read
    count: int
    at_least: bool  # there are more than `count`
    since: datetime | None  # of the oldest one
    evidence: str
    system_will: str
    in_seconds: float | None  # until the system does so; None: nothing will happen, or the time is unknown
    may: tuple[Remedy, ...]
    why: tuple[str, ...]  # sentences with further reasons
    queue_name: str | None = None
    worker_id: str | None = None

    @property
    def what(self) -> str:
        return f"{self.kind.value} {self.name}"


@dataclass(frozen=True, slots=True)
class SweepState:
    """The last sweep of a rule. `next_in_s` is 0 if it is due, None if no live worker could run it.

    The rule `recovery` is run by all workers; `runs` and `claims` may be switched off, and are swept for each threshold
    that a worker has. `workers`: how many live ones have this rule with this threshold.
    """

    ran_at: datetime
    worker_id: str | None
    interval_ms: int
    next_in_s: float | None
    rule: str = "recovery"
    threshold_ms: int | None = None
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Spared:
    """Silent rows that do not count as dead yet: no worker could beat in the gap, or none was running."""

    runs_until: datetime | None
    claims_until: datetime | None
    gap_began: datetime
    gap_ended: datetime | None  # None: no worker pulses now

    @property
    def until(self) -> datetime:
        """From when both are checked for silence again."""
        return max(filter(None, (self.runs_until, self.claims_until)), default=self.gap_began)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything by the database's clock at `now`; worst finding first."""

    now: datetime
    settings: RecoveryConfig
    settings_from: str | None  # the worker that reported its settings; None: these are the defaults, or were given
    settings_differ: bool  # live workers have different ones: the next sweep may use other thresholds
    sweep: SweepState | None  # None: none has run, or upstream's workers sweep, which record nothing
    workers_alive: int
    findings: tuple[Finding, ...]
    sweeps: tuple[SweepState, ...] = ()  # of each rule and threshold
    spared: Spared | None = None

    @property
    def needing_you(self) -> int:
        return sum(finding.severity is Severity.NEEDS_YOU for finding in self.findings)

    @property
    def handled(self) -> int:
        return sum(finding.severity is Severity.HANDLED for finding in self.findings)
