"""A finding of the recovery report, and a kind of findings.

`findings/diagnose.py` runs the `SEARCH` of every module in `findings/searches/`, found by its place alone. The console
and the command line show a finding by its own record and that of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.domain.states import TargetKind
    from horsies.findings.cluster import Cluster

MOST_IDS: Final = 500
"""Maximum number of ids read per kind and name; further ones are only counted."""
RUNS_AGAIN: Final = "Requeueing runs user code again from the start: it may repeat what the first run already did."


class Severity(IntEnum):
    """Severities; sorted descending, the worst comes first."""

    NOTE = 1  # intended, or only late
    HANDLED = 2  # the sweep, or a worker, handles it
    NEEDS_ACTION = 3  # does not change until an operator acts


@dataclass(frozen=True, slots=True)
class FindingKind:
    """A kind of finding: its name in the report and in JSON, and how the console and the command line show it.

    In `alert`, `alerts` and `alert_without_workers` these are replaced: {count}, {tasks} (1 task, 12 tasks), {kind};
    if one alert covers many findings also {findings}, their number; else {name}, {on} (its worker), {lasting}
    (in the verdict alone), {held} (how many tasks it holds, and how many of them are stale).
    """

    name: str
    place: int
    """Position among findings of equal severity, lowest first; unique for each kind."""
    state: str | None = None
    """The state of its tasks, whose symbol is shown before it; None for a warning symbol."""
    tasks: str | None = None
    """The filter of its tasks, without name, queue and worker; None if it is about workflows."""
    by_id: bool = False
    """True if its tasks are shown by their ids, because other tasks have the same state."""
    workers: str | None = None
    """The filter of the workers that many findings of this kind are about."""
    swept: str | None = None
    """Its name in `horsies recovery run --dry-run --json`; None if a sweep changes none of its rows."""
    alert: str = "{count} {name} {kind}{on}"
    alerts: str = "{count} {kind}, in {findings} findings"
    alert_without_workers: str | None = None
    """One alert in place of all findings of this kind while no worker is alive."""
    alert_severity: Severity | None = None
    """The severity of the alert, if it differs from the finding's."""
    stands_for_its_tasks: bool = False
    """True if its alert replaces the alerts about tasks of the same worker."""


@dataclass(frozen=True, slots=True)
class PredictedAction:
    """The automatic action if no operator acts; rows with the same prediction share one finding."""

    action: str
    severity: Severity
    in_seconds: float | None = None  # None if nothing will happen, or the time is unknown
    reason: str = ""


NEEDS_DECISION: Final = PredictedAction("waits for you", Severity.NEEDS_ACTION)
NO_WORKER_SWEEPS: Final = PredictedAction("nothing: no worker is alive to sweep", Severity.NEEDS_ACTION)


@dataclass(frozen=True, slots=True)
class Remedy:
    """The verb that an operator may use, for targets of this kind and with these of its options."""

    verb: str
    target_kind: TargetKind
    ids: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


def remedies(target_kind: TargetKind, ids: Iterable[str], *verbs: str) -> tuple[Remedy, ...]:
    targets = tuple(ids)
    return tuple(Remedy(verb, target_kind, targets) for verb in verbs)


@dataclass(frozen=True, slots=True)
class Finding:
    """Rows of one kind, name, queue and worker, with the same prediction."""

    kind: FindingKind
    target_kind: TargetKind | Literal["database"]
    name: str  # of the task or workflow, the worker's id, the queue, or the doctor's check
    evidence: str
    prediction: PredictedAction
    ids: tuple[str, ...] = ()  # the ids that were read
    count: int = 1
    since: datetime | None = None  # time of the oldest row
    remedies: tuple[Remedy, ...] = ()
    why: tuple[str, ...] = ()  # sentences with further reasons
    at_least: bool = False  # there are more than `count`
    queue_name: str | None = None
    worker_id: str | None = None
    alert_severity: Severity | None = None  # of its alert, if that differs from the prediction's and from its kind's

    @property
    def what(self) -> str:
        return f"{self.kind.name} {self.name}"


def about_rows(
    kind: FindingKind,
    row: Mapping[str, Any],
    prediction: PredictedAction,
    evidence: str,
    *,
    verbs: Iterable[str],
    why: Iterable[str],
    at_least: bool = False,
    worker_id: str | None = None,
) -> Finding:
    """Return a finding about tasks of one name and queue, or workflows of one name, from a row that counts them."""
    target_kind: TargetKind = "task" if "task_name" in row else "workflow"
    return Finding(
        kind=kind,
        target_kind=target_kind,
        name=row["task_name"] if target_kind == "task" else row["name"],
        ids=tuple(row["ids"]),
        count=row["count"],
        since=row["since"],
        evidence=evidence,
        prediction=prediction,
        remedies=remedies(target_kind, row["ids"], *verbs),
        why=tuple(why),
        at_least=at_least,
        queue_name=row.get("queue_name"),
        worker_id=worker_id,
    )


def by_key(found: Iterable[Finding]) -> dict[str, Finding]:
    """Return the findings by a key that is the same in each report.

    Several findings may have the same name: two damaged workflows, or rows that differ only in their prediction.
    """
    keyed: dict[str, Finding] = {}
    for finding in found:
        key = "\t".join((finding.kind.name, finding.name, finding.queue_name or "", finding.worker_id or ""))
        while key in keyed:
            key += "'"
        keyed[key] = finding
    return keyed


Find: TypeAlias = "Callable[[asyncpg.Connection, Cluster], Awaitable[Iterable[Finding]]]"


@dataclass(frozen=True, slots=True)
class Search:
    """A search for findings of these kinds. All run one after the other in a read-only transaction.

    `Cluster.tables` has those of our tables that exist: in a database of upstream some are missing.
    """

    kinds: tuple[FindingKind, ...]
    find: Find
