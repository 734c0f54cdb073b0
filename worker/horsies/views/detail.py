"""All stored data of one task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from horsies.domain.codes import OutcomeCode
from horsies.query import TaskConditions
from horsies.store.statements import statement
from horsies.views.audit import audit_page
from horsies.views.progress import has_progress, progress_of
from horsies.views.reader_session import aware
from horsies.views.statistics import usual_durations
from horsies.views.tasks import task_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.views.audit import AuditRow
    from horsies.views.progress import Progress
    from horsies.views.statistics import Usual
    from horsies.views.tasks import TaskRow

_BY_OPERATOR: Final = "OPERATOR_"
"""Prefix of the error codes of runs that an operator took from their workers."""
_MAX_IDS: Final = 10
_MAX_SEARCHED: Final = 1_000_000
"""Number of newest tasks in which the end of an id is searched: 0.15 s, once."""
_MAX_ATTEMPTS: Final = 50
_MAX_BEATS: Final = 120
_MAX_ACTIONS: Final = 50
_MAX_RERUNS: Final = 20
_MAX_BRIEF_BYTES: Final = 400
"""Maximum bytes of each text: more than a column can show, and 80 kB for 200 rows."""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The error for a beginning or end of several ids; `ids` are the newest, `more` is true if there are others."""

    text: str
    ids: tuple[str, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """A text column, possibly truncated."""

    text: str
    size: int
    """Its full length in bytes."""
    cut: bool


@dataclass(frozen=True, slots=True)
class BriefArguments:
    """The arguments of a task in a list; a text that is too long is empty."""

    args: Stored | None
    kwargs: Stored | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row of the history, in the column order of the statement."""

    attempt: int
    outcome: str
    will_retry: bool
    started_at: datetime
    finished_at: datetime
    error_code: str | None
    error_message: str | None
    failed_reason: str | None
    worker_id: str | None
    worker_hostname: str | None
    worker_pid: int | None
    worker_process_name: str | None
    output: str | None = None
    """The last lines of output, if it failed."""
    app_version: str | None = None
    """The version of the application that its worker ran, if that is still known."""
    progress: Progress | None = None
    """Its last reported progress, if any."""

    @property
    def ended_by_operator(self) -> bool:
        return (self.error_code or "").startswith(_BY_OPERATOR)

    @property
    def state(self) -> str:
        """The state that shows its end. The column has no cancellation, only a run that was taken from its worker."""
        if self.error_code in ("OPERATOR_CANCELLED", OutcomeCode.TASK_CANCELLED):
            return "CANCELLED"
        return "COMPLETED" if self.outcome == "COMPLETED" else "FAILED"

    @property
    def outcome_words(self) -> str:
        """The end in words: `completed`, `worker failure`; `cancelled by an operator` for a run that was taken away."""
        if self.ended_by_operator:
            return f"{(self.error_code or '').removeprefix(_BY_OPERATOR).lower()} by an operator"
        if self.state == "CANCELLED":
            return "cancelled"
        return self.outcome.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Execution:
    """The beats of one execution, oldest first: while it was claimed, and while it ran."""

    attempt: int
    claimer: tuple[datetime, ...]
    runner: tuple[datetime, ...]
    runner_sender: str | None
    """The process that sent the beats of the run."""
    cut: bool
    """True if older beats are omitted."""


@dataclass(frozen=True, slots=True)
class NodeLink:
    """The node of a workflow to which this task belongs, in the column order of the statement."""

    workflow_id: str
    workflow_name: str
    workflow_status: str
    task_index: int
    node_id: str | None
    node_status: str


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """The stored data of a task. `attempts` and `executions` are oldest first, the present execution last."""

    now: datetime
    row: TaskRow
    args: Stored | None
    kwargs: Stored | None
    options: Stored | None
    result: Stored | None
    failed_reason: Stored | None
    attempts: tuple[Attempt, ...]
    earlier_attempts: int
    """Number of older attempts that are omitted."""
    executions: tuple[Execution, ...]
    audit: tuple[AuditRow, ...]
    """The last operator actions on it, newest first."""
    reruns: tuple[str, ...]
    """The last tasks that operators copied from this one, newest first."""
    node: NodeLink | None
    usual: Usual | None = None
    """The usual duration of its name, while it runs; None if no such task completed recently."""


async def find_task(conn: asyncpg.Connection, text: str) -> str | Ambiguous | None:
    """Return the id `text`, or the only id that begins or ends with it; None if there is none."""
    return await find_id(conn, "horsies_tasks", text)


async def find_id(
    conn: asyncpg.Connection, table: Literal["horsies_tasks", "horsies_workflows"], text: str
) -> str | Ambiguous | None:
    """Find an id by its beginning or end; ends only in the newest million rows, because no index serves them."""
    text = text.strip("…. \n")
    for exact in dict.fromkeys((text, text.lower())):
        if await conn.fetchval(statement(__name__, "view_id_exists", table=table), exact):
            return exact
    if not text:
        return None
    finding = statement(__name__, "view_find_id", table=table)
    rows = await conn.fetch(finding, text.lower(), _MAX_IDS + 1, _MAX_SEARCHED)
    ids = tuple(row["id"] for row in rows)
    if len(ids) > 1:
        return Ambiguous(text, ids[:_MAX_IDS], len(ids) > _MAX_IDS)
    return ids[0] if ids else None


async def task_detail(
    conn: asyncpg.Connection, text: str, *, exact: bool = False, most_characters: int = 200_000
) -> TaskDetail | Ambiguous | None:
    """Read a task by its id, or, unless `exact`, its beginning or end. Texts are cut after `most_characters`."""
    found = text if exact else await find_task(conn, text)
    if not isinstance(found, str):
        return found
    page = await task_page(conn, TaskConditions().among("id", (found,)), limit=1)
    story = await conn.fetchrow(statement(__name__, "view_task_story"), found, most_characters, _MAX_RERUNS)
    if not page.rows or story is None:
        return None  # has just been deleted
    row = page.rows[0]
    attempts, all_attempts = await _attempts(conn, found)
    audit = await audit_page(conn, limit=_MAX_ACTIONS, target=("task", found))
    return TaskDetail(
        now=page.now,
        row=row,
        args=stored(story, "args"),
        kwargs=stored(story, "kwargs"),
        options=stored(story, "options"),
        result=stored(story, "result"),
        failed_reason=stored(story, "reason"),
        attempts=attempts,
        earlier_attempts=all_attempts - len(attempts),
        executions=await _executions(conn, row, attempts),
        audit=audit.rows,
        reruns=tuple(story["reruns"]),
        node=NodeLink(*tuple(story)[-6:]) if story["workflow_id"] is not None else None,
        usual=await _usual(conn, row),
    )


async def _usual(conn: asyncpg.Connection, row: TaskRow) -> Usual | None:
    """Return the usual duration of a running task; None for upstream's tables, which have no index for it."""
    if row.status != "RUNNING" or not await has_progress(conn):
        return None
    return (await usual_durations(conn, [row.name])).get(row.name)


async def brief_arguments(conn: asyncpg.Connection, ids: Sequence[str]) -> dict[str, BriefArguments]:
    """Read arguments for a list. Longer texts are omitted: values to mask cannot be found in a part of a text."""
    rows = await conn.fetch(statement(__name__, "view_brief_arguments"), list(ids), _MAX_BRIEF_BYTES)
    return {row["id"]: BriefArguments(_brief(row, "args"), _brief(row, "kwargs")) for row in rows}


def _brief(row: Any, name: str) -> Stored | None:
    size = row[f"{name}_size"]
    return None if size is None else Stored(row[name] or "", size, row[name] is None)


def stored(story: Any, name: str) -> Stored | None:
    text = story[name]
    return None if text is None else Stored(text, story[f"{name}_size"], story[f"{name}_cut"])


async def _attempts(conn: asyncpg.Connection, task_id: str) -> tuple[tuple[Attempt, ...], int]:
    rows = await conn.fetch(statement(__name__, "view_task_attempts"), task_id, _MAX_ATTEMPTS)
    found = [Attempt(*map(aware, tuple(row)[1:])) for row in rows]
    reports = await progress_of(conn, [(task_id, one.started_at) for one in found])
    newest_first = [replace(one, progress=reports.get((task_id, one.started_at))) for one in found]
    return tuple(reversed(newest_first)), rows[0]["all_of_them"] if rows else 0


@dataclass(frozen=True, slots=True)
class _Span:
    attempt: int
    role: str
    since: datetime
    until: datetime | None


async def _executions(conn: asyncpg.Connection, row: TaskRow, attempts: tuple[Attempt, ...]) -> tuple[Execution, ...]:
    spans = _spans(row, attempts)
    columns = zip(*((number, span.role, span.since, span.until) for number, span in enumerate(spans)), strict=True)
    beats = (
        await conn.fetch(statement(__name__, "view_task_beats"), row.id, *map(list, columns), _MAX_BEATS)
        if spans
        else []
    )
    heard = {number: list(group) for number, group in groupby(beats, key=itemgetter("number"))}
    newest_first = {(span.attempt, span.role): heard.get(number, []) for number, span in enumerate(spans)}
    return tuple(_execution(attempt, newest_first) for attempt in dict.fromkeys(span.attempt for span in spans))


def _execution(attempt: int, newest_first: Mapping[tuple[int, str], list[Any]]) -> Execution:
    claims, runs = (newest_first.get((attempt, role), []) for role in ("claimer", "runner"))
    claimer, runner = (tuple(aware(beat["sent_at"]) for beat in reversed(beats)) for beats in (claims, runs))
    cut = max(len(claimer), len(runner)) == _MAX_BEATS
    return Execution(attempt, claimer, runner, runs[0]["sender_id"] if runs else None, cut=cut)


def _spans(row: TaskRow, attempts: tuple[Attempt, ...]) -> list[_Span]:
    """Return, for each execution, the time before its start (its claimer beats) and the time of its run."""
    spans: list[_Span] = []
    before = row.created_at
    for attempt in attempts:
        spans.append(_Span(attempt.attempt, "claimer", before, attempt.started_at))
        spans.append(_Span(attempt.attempt, "runner", attempt.started_at, attempt.finished_at))
        before = attempt.finished_at
    present = max(row.attempt, attempts[-1].attempt + 1 if attempts else 1)
    if row.status in ("CLAIMED", "RUNNING"):
        spans.append(_Span(present, "claimer", row.claimed_at or before, row.started_at))
    if row.status == "RUNNING" and row.started_at is not None:
        spans.append(_Span(present, "runner", row.started_at, None))
    return spans
