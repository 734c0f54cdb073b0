"""The history: operations of operators, what ended, began or was recovered automatically, and the marks on charts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from horsies.domain.quantities import counted
from horsies.query import ActivityFilter, Term
from horsies.query.language import BARE
from horsies.query.other_keys import CHANGE, OPERATION
from horsies.query.values import Choice, Glob, Moment
from horsies.store.statements import statement
from horsies.views.reader_session import aware, tables
from horsies.views.schedules import scheduler_rows
from horsies.views.workers import Liveness, name_of, worker_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from horsies.views.series import Buckets
    from horsies.views.workers import WorkerRow

_MAX_TIMES: Final = 2_000
"""Maximum number of batch times per page, three probes each. An operation on 100,000 tasks has 200 of them."""
_EVERY_ROW: Final = 2_000_000_000
_MAX_ENDS: Final = 1_000
"""Maximum number of tasks of each status whose ends are read."""
_MAX_GROUPS: Final = 300
_MAX_WORKFLOWS: Final = 200
_MAX_RECOVERIES: Final = 200
_MAX_OUTAGES: Final = 500
_MAX_SWEEPS: Final = 300
_REPORTED_WITHIN_S: Final = 30.0
"""Seconds before an outage in which a live worker has stored a snapshot: six are due in this time."""
_MAX_SNAPSHOTS: Final = 2_000
_SLICES: Final = 720
_MAX_PER_SLICE: Final = 20
_MAX_COUNTED: Final = 2_000
"""Attempts read, and counted, per slice of the time: for a day, all attempts up to 10 a minute."""
LOOKS_BACK: Final = timedelta(days=1)
"""How far back changes are read if the filter does not say."""
_A_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One confirmed operation, in the column order of the statement; who and why are the same for all of its rows."""

    operation_id: UUID
    began_at: datetime
    acted_at: datetime
    """Time of its last row."""
    verbs: tuple[str, ...]
    kinds: tuple[str, ...]
    applied: int
    refused: int
    undone: int
    at_least: bool
    """True if not all of its rows were counted."""
    target_id: str
    """Of its first target by id."""
    os_user: str | None
    os_host: str | None
    db_role: str
    reason: str | None
    filter: str | None
    is_undo: bool

    @property
    def targets(self) -> int:
        return self.applied + self.refused

    @property
    def who(self) -> str:
        return f"{self.os_user or '?'}@{self.os_host or '?'}"

    @property
    def verb(self) -> str:
        """The verb, such as `requeue`; `undo` also for orders, whose audit rows have the opposite verb."""
        return "undo" if self.is_undo else " and ".join(self.verbs)


@dataclass(frozen=True, slots=True)
class OperationPage:
    """Operations, newest first. `recorded` is false without an audit table. `next`: older ones are before this time."""

    rows: tuple[OperationRow, ...]
    now: datetime
    next: datetime | None
    recorded: bool


What: TypeAlias = Literal[
    "failed",
    "cancelled",
    "expired",
    "started",
    "stopped",
    "lost",
    "died",
    "recovered",
    "swept",
    "outage",
    "idle",
    "deployed",
]


@dataclass(frozen=True, slots=True)
class Change:
    """A change that no operator made. Similar ends of tasks within ten minutes are one change with a `count`."""

    kind: Literal["task", "workflow", "worker", "scheduler", "database", "sweep"]
    what: What
    name: str
    target_id: str
    began_at: datetime
    at: datetime
    detail: str = ""
    count: int = 1

    @property
    def id(self) -> str:
        """A key that does not change while more ends of the same ten minutes are counted, or while an outage lasts."""
        part = int(self.began_at.timestamp() // 600) if self.kind == "task" else self.began_at.isoformat()
        return "\t".join((self.kind, self.what, self.name, self.detail if self.kind == "task" else "", str(part)))


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes, newest first. Before `since`, not all ends of tasks were read."""

    rows: tuple[Change, ...]
    since: datetime | None


@dataclass(frozen=True, slots=True)
class ChartMarks:
    """Numbers of buckets. In `dark` ones no heartbeat could be stored for at least half of their time."""

    dark: tuple[int, ...] = ()
    outages: tuple[int, ...] = ()
    deployed: tuple[int, ...] = ()
    operated: tuple[int, ...] = ()


async def operation_page(
    conn: asyncpg.Connection,
    wanted: ActivityFilter,
    *,
    limit: int = 100,
    before: datetime | None = None,
    count_up_to: int = _EVERY_ROW,
) -> OperationPage:
    """Read the newest matching operations with their totals. A page may have fewer rows than the limit and a `next`."""
    here = await tables(conn)
    if not here.actions:
        return OperationPage((), here.now, None, recorded=False)
    since, until = span(wanted, here.now)
    kinds = _targets(wanted)
    if kinds is None:
        return OperationPage((), here.now, None, recorded=True)
    end = min((time for time in (before, until) if time is not None), default=None)
    who, verbs, words = (
        [_likes(wanted, key, negated=negated) for negated in (False, True)] for key in ("by", "verb", BARE)
    )
    request = (limit, _MAX_TIMES, since, end, *who, *verbs, *kinds, *words)
    found = await conn.fetchrow(statement(__name__, "activity_operations"), *request)
    operations = await operation_totals(conn, found["found"], count_up_to=count_up_to)
    # An operation that continued after the previous page's end was on that page.
    shown = tuple(row for row in operations if before is None or row.acted_at < before)
    return OperationPage(shown, here.now, found["reached"] if found["more"] else None, recorded=True)


async def operation_totals(
    conn: asyncpg.Connection, operation_ids: Sequence[UUID], *, count_up_to: int = _EVERY_ROW
) -> list[OperationRow]:
    """Read these operations with their totals, newest first."""
    rows = await conn.fetch(statement(__name__, "activity_totals"), operation_ids, count_up_to)
    columns: list[list[Any]] = [[tuple(value) if isinstance(value, list) else value for value in row] for row in rows]
    return [OperationRow(*row) for row in columns]


async def newest_action(conn: asyncpg.Connection) -> int | None:
    """Read the newest audit row: while it is unchanged, so are all operations and their totals."""
    if not (await tables(conn)).actions:
        return None
    newest: int | None = await conn.fetchval(statement(__name__, "activity_newest_action"))
    return newest


async def changes(conn: asyncpg.Connection, wanted: ActivityFilter) -> Changes:
    """Read the newest matching changes; those of the last day if the filter has no start."""
    here = await tables(conn)
    since, until = span(wanted, here.now)
    since = since or min(until or here.now, here.now) - LOOKS_BACK
    found: list[Change] = []
    reached = None
    if _wants_changes(wanted, "task"):
        text = _by_itself("activity_task_ends", "activity_task_by_itself", audited=here.actions)
        ends = await conn.fetch(text, _MAX_ENDS, since, until, _MAX_GROUPS)
        limits = (_SLICES, _MAX_PER_SLICE, _MAX_COUNTED, _MAX_GROUPS)
        attempts = await conn.fetch(statement(__name__, "activity_attempts"), since, until, *limits)
        found += _merged([*map(_task_end, ends), *map(_task_end, attempts)])
        reached = aware(ends[0]["reached"]) if ends else None
    if _wants_changes(wanted, "workflow"):
        text = _by_itself("activity_workflow_ends", "activity_workflow_by_itself", audited=here.actions)
        ends = await conn.fetch(text, _MAX_WORKFLOWS, since, until)
        found += map(_workflow_end, ends)
    if _wants_changes(wanted, "worker"):
        found += await _of_workers(conn, since, until, here.now)
        if here.worker_losses:
            rows = await conn.fetch(statement(__name__, "activity_recoveries"), _MAX_RECOVERIES, since, until)
            found += map(_recovery, rows)
    if _wants_changes(wanted, "scheduler") and here.schedules:
        found += await _of_schedulers(conn, since, until, here.now)
    if _wants_changes(wanted, "database") and here.outages:
        request = (_MAX_OUTAGES, since, until, _REPORTED_WITHIN_S, _MAX_SNAPSHOTS)
        found += map(_outage, await conn.fetch(statement(__name__, "activity_outages"), *request))
    if _wants_changes(wanted, "sweep") and here.outages:
        sweeps = await conn.fetch(statement(__name__, "activity_sweeps"), _MAX_SWEEPS, since, until)
        found += map(_sweep, sweeps)
    shown = [change for change in found if _has_words(wanted, change)]
    return Changes(tuple(sorted(shown, key=lambda change: change.at, reverse=True)), reached)


async def chart_marks(conn: asyncpg.Connection, buckets: Buckets) -> ChartMarks:
    """Read which buckets have an outage, a new version, or an operation."""
    kinds = Term("kind", (Choice("worker"), Choice("database")))
    since = Term("since", (Moment("", at=buckets.first),))
    found = (await changes(conn, ActivityFilter((kinds, since)))).rows
    gaps = [change for change in found if change.what == "outage"]
    deployed = {buckets.index(change.at) for change in found if change.what == "deployed"}
    operated = []
    if (await tables(conn)).actions:
        rows = await conn.fetch(statement(__name__, "mark_operations"), *buckets.parameters)
        operated = [row["number"] for row in rows]
    return ChartMarks(
        tuple(sorted(_covered(gaps, buckets, buckets.step / 2))),
        tuple(sorted(_covered(gaps, buckets, timedelta()))),
        tuple(sorted(number for number in deployed if number is not None)),
        tuple(operated),
    )


def _covered(gaps: list[Change], buckets: Buckets, least: timedelta) -> set[int]:
    """Return the buckets of which at least this share lies in a gap."""
    return {
        number
        for number, start in enumerate(buckets.starts)
        for gap in gaps
        if min(gap.at, start + buckets.step) - max(gap.began_at, start) >= least
        and gap.at >= start
        and gap.began_at < start + buckets.step
    }


def _merged(ends: list[Change]) -> list[Change]:
    """Merge failed tasks and failed attempts into one change: a requeued task has only failed attempts."""
    found: dict[str, Change] = {}
    for end in ends:
        part = end.began_at.timestamp() // 600
        key = "\t".join((end.what, end.name, end.detail, str(part)))
        other = found.get(key)
        if other is None:
            found[key] = end
        else:
            began, at = min(other.began_at, end.began_at), max(other.at, end.at)
            found[key] = replace(other, began_at=began, at=at, count=max(other.count, end.count))
    return list(found.values())


async def _of_schedulers(
    conn: asyncpg.Connection, since: datetime, until: datetime | None, now: datetime
) -> list[Change]:
    """Return starts and losses of schedulers; a scheduler that was stopped has no row."""
    found = []
    for one in await scheduler_rows(conn, there=True, within=now - since):
        version = f"horsies {one.version}"
        found.append(Change("scheduler", "started", one.name, one.id, one.started_at, one.started_at, version))
        if not one.lives(now):
            served = f"served {counted(len(one.schedules), 'schedule')}"
            found.append(Change("scheduler", "lost", one.name, one.id, one.seen_at, one.seen_at, served))
    return [change for change in found if change.at >= since and (until is None or change.at < until)]


def _outage(row: Any) -> Change:
    """Return a time without heartbeats; `idle` if all workers were stopped. A current outage has the current time."""
    began, ended = row["began_at"], row["ended_at"]
    lasts = f"for {(ended - began).total_seconds():,.0f}s{' until now' if row['lasts'] else ''}"
    if row["stopped"]:
        return Change("database", "idle", "no workers", "", began, ended, f"all workers were stopped {lasts}")
    causes = "no server, no network, a lock or a full disk"
    if not row["survived"]:
        causes += ", or no worker"
    return Change("database", "outage", "no heartbeats", "", began, ended, f"none was stored {lasts}: {causes}")


def _sweep(row: Any) -> Change:
    expired, repairs = row["expired"], row["repairs"]
    parts = [f"{expired:,} expired"] if expired else []
    if repairs:
        parts.append(f"{repairs:,} repaired in {counted(row['workflows'], 'workflow')}")
    by = name_of(row["worker_id"]) if row["worker_id"] else "by command"
    return Change("sweep", "swept", by, row["worker_id"] or "", row["at"], row["at"], ", ".join(parts))


async def _of_workers(conn: asyncpg.Connection, since: datetime, until: datetime | None, now: datetime) -> list[Change]:
    found: list[Change] = []
    rows = await worker_rows(conn, gone_within=now - since + LOOKS_BACK)
    for row in rows:
        if row.snapshot is not None:
            started = row.snapshot.started_at
            found.append(Change("worker", "started", row.name, row.id, started, started, row.snapshot.versions))
        ends: dict[Liveness, What] = {Liveness.LOST: "lost", Liveness.DIED: "died", Liveness.STOPPED: "stopped"}
        if (what := ends.get(row.liveness)) is not None:
            held = f"still has {counted(row.in_flight, 'task')}" if row.in_flight else ""
            found.append(Change("worker", what, row.name, row.id, row.seen_at, row.seen_at, held))
    found += _deployments(rows, now)
    return [change for change in found if change.at >= since and (until is None or change.at < until)]


def _deployments(rows: Iterable[WorkerRow], now: datetime) -> Iterator[Change]:
    """Yield workers that started with a version that no live worker of their queues had.

    A return to an earlier version is a deployment, too; a replacement of a worker by one of the same version is not.
    Other applications usually have other queues.
    """
    newest: dict[str, str] = {}
    alive_until: dict[tuple[str, str], datetime] = {}
    reported = ((row.snapshot, row) for row in rows if row.snapshot is not None and row.snapshot.versions)
    for snapshot, row in sorted(reported, key=lambda one: one[0].started_at):
        version, started = snapshot.app_version or snapshot.versions, snapshot.started_at
        before = [
            newest[queue] != version and alive_until.get((queue, version), started) <= started
            for queue in snapshot.queues
            if queue in newest
        ]
        if before and all(before):
            yield Change("worker", "deployed", row.name, row.id, started, started, f"new version: {snapshot.versions}")
        for queue in snapshot.queues:
            newest[queue] = version
            until = alive_until.get((queue, version), started)
            alive_until[queue, version] = max(until, row.up_until(now))


def _by_itself(ends: str, condition: str, *, audited: bool) -> str:
    """Return the statement of these ends, without those that are in the audit."""
    return statement(__name__, ends, by_itself=statement(__name__, condition) if audited else "")


def _task_end(row: Any) -> Change:
    what: What = row["status"].lower()
    began, at = aware(row["began_at"]), aware(row["at"])
    return Change("task", what, row["task_name"], row["id"], began, at, row["error_code"] or "", row["count"])


def _workflow_end(row: Any) -> Change:
    what: What = row["status"].lower()
    at = aware(row["at"])
    return Change("workflow", what, row["name"], row["id"], at, at)


def _recovery(row: Any) -> Change:
    became = {"failed": row["failed"], "to be retried": row["retried"], "returned": row["returned"]}
    detail = ", ".join(f"{count:,} {what}" for what, count in became.items() if count)
    name, count = name_of(row["worker_id"]), sum(became.values())
    return Change("worker", "recovered", name, row["worker_id"], row["at"], row["at"], detail, count)


def span(wanted: ActivityFilter, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the bounds of a filter's time: not before the first, and before the second."""
    since, until = (
        next((moment.at or now - (moment.ago or timedelta()) for moment in wanted.pick(key, Moment)), None)
        for key in ("since", "until")
    )
    return since, None if until is None else until + _A_MICROSECOND


def _kinds(wanted: ActivityFilter) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words after `kind:` that are included (none: all), and those that are excluded."""
    included, excluded = (wanted.pick("kind", Choice, negated=negated) for negated in (False, True))
    return frozenset(choice.word for choice in included), frozenset(choice.word for choice in excluded)


def _targets(wanted: ActivityFilter) -> tuple[list[str], list[str]] | None:
    """Return the included (none: all) and the excluded kinds of targets; None if no operation matches."""
    included, excluded = _kinds(wanted)
    if OPERATION in excluded or included == {CHANGE}:
        return None
    return ([] if OPERATION in included else sorted(included - {CHANGE})), sorted(excluded)


def _wants_changes(wanted: ActivityFilter, kind: str) -> bool:
    included, excluded = _kinds(wanted)
    by_operators = wanted.pick("by", Glob) or wanted.pick("verb", Glob)
    fits = not included or bool(included & {CHANGE, kind})
    return fits and not by_operators and not excluded & {CHANGE, kind}


def _likes(wanted: ActivityFilter, key: str, *, negated: bool) -> list[str]:
    around = "%" if key == BARE else ""
    return [f"{around}{glob.like}{around}" for glob in wanted.pick(key, Glob, negated=negated)]


def _has_words(wanted: ActivityFilter, change: Change) -> bool:
    text = f"{change.name} {change.detail} {change.target_id}"
    globs, others = (wanted.pick(BARE, Glob, negated=negated) for negated in (False, True))
    return (not globs or any(one.is_in(text) for one in globs)) and not any(one.is_in(text) for one in others)
