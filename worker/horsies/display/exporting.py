"""Exports of all rows of a filter as CSV or as JSON lines, page by page."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from horsies.domain.damage import Damaged
from horsies.domain.errors import HorsiesError
from horsies.domain.plain_text import clean_json
from horsies.query import task_conditions, workflow_conditions
from horsies.store.connect import with_settings
from horsies.views import Sort, WorkflowSort, task_page, workflow_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

    from horsies.query import TaskFilter, WorkflowFilter
    from horsies.store.connect import Connection
    from horsies.views import Cursor, Page, TaskRow, WorkerRow, WorkflowRow

RowT = TypeVar("RowT")

PAGE: Final = 250
"""Rows in memory at once. The console's loop decodes a page in 5 ms, between two keys."""
_AT_ONCE: Final = 50
"""Rows that are encoded before the loop may go on, 1 ms. In a thread the same work would hold the interpreter's lock
and delay each step of a key by 5 ms."""
_RISKY: Final = ("=", "+", "-", "@")
"""A spreadsheet takes a text that begins so as a formula, and may run a program for it."""


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Export(Generic[RowT]):
    """The content of an export. `columns` are taken from a row and the database's time of its page.

    Arguments and results are no columns: what the config file masks cannot leave by an export.
    """

    name: str
    columns: Mapping[str, Callable[[RowT, datetime], Any]]
    pages: Callable[[Connection], AsyncIterator[tuple[Sequence[RowT], datetime]]]


def tasks_export(wanted: TaskFilter, sort: Sort = Sort.NEWEST) -> Export[TaskRow]:
    """Export tasks. In orders other than newest and oldest, a task that moves meanwhile may be missed or come twice."""

    async def page(conn: Connection, after: Cursor | None) -> Page[TaskRow]:
        return await task_page(conn, task_conditions(wanted), sort=sort, limit=PAGE, after=after)

    return Export("tasks", TASK_COLUMNS, partial(_pages, page))


def workflows_export(wanted: WorkflowFilter, sort: WorkflowSort = WorkflowSort.NEWEST) -> Export[WorkflowRow]:
    async def page(conn: Connection, after: Cursor | None) -> Page[WorkflowRow]:
        return await workflow_page(conn, workflow_conditions(wanted), sort=sort, limit=PAGE, after=after)

    return Export("workflows", WORKFLOW_COLUMNS, partial(_pages, page))


async def _pages(
    read: Callable[[Connection, Cursor | None], Awaitable[Page[RowT]]], conn: Connection
) -> AsyncIterator[tuple[Sequence[RowT], datetime]]:
    after: Cursor | None = None
    while True:
        async with with_settings(conn):
            page = await read(conn, after)
        yield page.rows, page.now
        after = page.next
        if after is None:
            return


def workers_export(rows: Sequence[WorkerRow], now: datetime) -> Export[WorkerRow]:
    """Export the workers of a list; there are never more than fit into memory."""

    async def pages(_conn: Connection) -> AsyncIterator[tuple[Sequence[WorkerRow], datetime]]:
        yield rows, now

    return Export("workers", WORKER_COLUMNS, pages)


async def export_rows(
    conn: Connection,
    export: Export[RowT],
    form: Format,
    out: IO[str],
    on_progress: Callable[[int], None] = lambda _rows: None,
    *,
    pause_s: float = 0.0,
) -> int:
    """Write all rows; return how many. Writing is in a thread: a slow disk or a full pipe blocks only that.

    With `pause_s` the loop sleeps so long after each millisecond of work.
    """
    done = 0
    await asyncio.to_thread(out.write, _csv([export.columns]) if form is Format.CSV else "")
    async for rows, now in export.pages(conn):
        text: list[str] = []
        for first in range(0, len(rows), _AT_ONCE):
            text.append(_lines(rows[first : first + _AT_ONCE], now, export, form))
            await asyncio.sleep(pause_s)
        await asyncio.to_thread(out.write, "".join(text))
        done += len(rows)
        on_progress(done)
    await asyncio.to_thread(out.flush)
    return done


def _lines(rows: Iterable[RowT], now: datetime, export: Export[RowT], form: Format) -> str:
    columns = export.columns
    if form is Format.CSV:
        return _csv([_cell(value(row, now)) for value in columns.values()] for row in rows)
    objects = ({name: _plain(value(row, now)) for name, value in columns.items()} for row in rows)
    return "".join(f"{clean_json(json.dumps(each, ensure_ascii=False))}\n" for each in objects)


def _csv(rows: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if type(value) is str:
        return safe_text(_fit(value)) if value else value
    if type(value) is bool:
        return "true" if value else "false"
    return _plain(value)


def safe_text(text: str) -> str:
    """Return the text for a cell of CSV, which no spreadsheet takes as a formula and no terminal as commands."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
    begins = text.lstrip()[:1]
    return f"'{text}" if begins in _RISKY or text[:1] in ("\t", "\n") else text


def _plain(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Damaged):
        return value.stored
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC).isoformat()[:-6]}Z"
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 6)
    return _fit(value) if isinstance(value, str) else value


def _fit(text: str) -> str:
    """Remove halves of surrogate pairs, which no file takes."""
    return text if text.isascii() else text.encode(errors="replace").decode()


@contextmanager
def new_file(path: Path) -> Iterator[IO[str]]:
    """Yield a file that appears under its name when it is complete, and not at all if the block fails or is cancelled.

    HorsiesError if a file of that name exists, now or at the end. Only its owner may read it.
    """
    taken = HorsiesError(f"{path} exists; choose another name")
    if path.exists():
        raise taken
    part = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        place = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(place, "w", encoding="utf-8", newline="") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _give_name(part, path)
        finally:
            with suppress(OSError):
                part.unlink()
    except FileExistsError:
        raise taken from None
    except OSError as error:
        what = f"cannot write {path}: {os.strerror(error.errno or 0)}; choose another place"
        raise HorsiesError(what) from error


def _give_name(part: Path, path: Path) -> None:
    """Link the file to its name, because a link refuses a name that exists; some file systems have no links."""
    try:
        os.link(part, path)
    except OSError:
        if path.exists():
            raise FileExistsError from None
        part.replace(path)


def _columns(fields: str, **derived: Callable[[Any, datetime], Any]) -> dict[str, Callable[[Any, datetime], Any]]:
    """Return the columns of these names, in this order: fields of the row, or what is derived from it."""
    return {name: derived.get(name) or _field(name) for name in fields.split()}


def _field(name: str) -> Callable[[Any, datetime], Any]:
    read = attrgetter(name)
    return lambda row, _now: read(row)


def _reported(name: str) -> Callable[[WorkerRow, datetime], Any]:
    """Return a column of what a worker reports of itself; empty if it has not reported."""
    return lambda row, _now: row.snapshot and getattr(row.snapshot, name)


TASK_COLUMNS: Final[Mapping[str, Callable[[TaskRow, datetime], Any]]] = _columns(
    "id name queue priority status state attempt attempts_allowed created_at sent_at due_at good_until claimed_at "
    "started_at finished_at age_s wait_s run_s worker_id worker_hostname worker_pid beat_at error_code error_message "
    "is_workflow_task unique_key duplicates rerun_of",
    age_s=lambda row, now: row.age(now),
    wait_s=lambda row, now: row.wait(now),
    run_s=lambda row, now: row.run(now),
    duplicates=lambda row, _now: row.duplicates.sends if row.duplicates else 0,
)
WORKFLOW_COLUMNS: Final[Mapping[str, Callable[[WorkflowRow, datetime], Any]]] = _columns(
    "id name status definition_key parent_workflow_id root_workflow_id sent_at started_at completed_at nodes completed "
    "failed skipped running waiting age_s run_s failed_node error_code",
    nodes=lambda row, _now: row.total,
    age_s=lambda row, now: now - row.sent_at,
    run_s=lambda row, now: row.run(now),
)
_REPORTED: Final = "hostname pid processes cpu_percent memory_mb children_memory_mb started_at version"
WORKER_COLUMNS: Final[Mapping[str, Callable[[WorkerRow, datetime], Any]]] = _columns(
    "id name state seen_at running claimed hostname pid processes queues cpu_percent memory_mb children_memory_mb "
    "started_at version draining_since draining_by",
    state=lambda row, _now: row.liveness.value,
    queues=lambda row, _now: row.snapshot and " ".join(row.snapshot.queues),
    **{name: _reported(name) for name in _REPORTED.split()},
)
