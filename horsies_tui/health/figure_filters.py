"""Filters that show exactly the tasks behind a number or an alert."""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING, Final

from horsies.views import MINUTE, RATES_OVER
from horsies.views.workers import MOST_IDS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from horsies.findings import Finding

_MOST_IDS: Final = 20
"""Most ids in one filter. For more, a filter by common properties is used, which fits into the filter bar."""
_PLAIN_WORD: Final = re.compile(r"[\w.:@/-]+")

MOST_NAMED: Final = 100
"""Most names of queues or workers in one filter."""

NUMBERS: Final = {
    "pending": "status:pending,retry",
    "due": "status:pending,retry has:due",
    "later": "status:pending,retry -has:due",
    "claimed": "status:claimed",
    "running": "status:running",
    "cap": "status:running",
    "oldest": "status:pending,retry has:due",
    "in": "since:{start} until:{end}",
    "out": "status:done ended:{start}..{end}",
    "in1m": "since:{minute} until:{end}",
    "out1m": "status:done ended:{minute}..{end}",
    "drains": "status:pending,retry has:due",
}
"""Filters by column of the queue table."""
WAITING: Final = "status:pending,retry,claimed has:due"
"""Filter of the tasks that horsies.views.figures counts as waiting."""


def rows_of_number(column: str, queue: str, now: datetime) -> str:
    """Return the filter of the tasks that a number of the queue table counted; of all queues if `queue` is empty.

    The times of a rate are absolute, so that the filter shows the same tasks an hour later.
    """
    times = {"start": at(now - RATES_OVER), "minute": at(now - MINUTE), "end": at(now)}
    words = NUMBERS.get(column, "status:live").format(**times)
    return f"{words} queue:{quoted(queue)}" if queue else words


def at(moment: datetime) -> str:
    """Format a time for the filter language."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def rows_of_finding(finding: Finding) -> str:
    """Return the filter of a finding's rows: by ids if there are few, because only ids are exact."""
    ids = finding.ids
    if finding.target_kind == "task" and 0 < finding.count == len(ids) <= _MOST_IDS and not finding.at_least:
        return f"id:{','.join(ids)}"
    return filter_of(finding)


def any_of(names: Iterable[str]) -> str:
    """Return alternative values of one key, in the filter language."""
    return ",".join(map(quoted, names))


def schedules_of(finding: Finding) -> str:
    """Return the filter of a finding's schedules; empty for all schedules."""
    return f"name:{any_of(finding.ids)}" if finding.ids else ""


def one_worker(worker_id: str) -> str:
    """Return the filter of one worker."""
    return f"id:{quoted(worker_id)}"


def rows_of_error(error_code: str | None, since: datetime) -> str:
    """Return the filter of the tasks that failed with this error since this time."""
    code = "-has:error" if error_code is None else f"error:{quoted(error_code)}"
    return f"status:failed {code} ended:>={at(since)}"


def rows_of_retries() -> str:
    """Return the filter of tasks that wait or run after a retry; they have no error during that time."""
    return "status:live tries:>1"


def rows_that_failed(since: datetime, until: datetime | None = None) -> str:
    return f"status:failed {_ended(since, until)}"


def rows_that_ended(since: datetime, until: datetime | None = None) -> str:
    return f"status:done {_ended(since, until)}"


def _ended(since: datetime, until: datetime | None) -> str:
    return f"ended:>={at(since)}" if until is None else f"ended:{at(since)}..{at(until)}"


def filter_of(finding: Finding) -> str:
    """Return the filter of a finding's tasks, as exactly as the filter language allows."""
    if finding.kind.by_id and finding.ids and len(finding.ids) <= MOST_IDS:
        return f"id:{','.join(finding.ids)}"
    words = [finding.kind.tasks] if finding.kind.tasks else []
    if finding.target_kind == "task":
        words.append(f"name:{quoted(finding.name)}")
    if finding.queue_name is not None:
        words.append(f"queue:{quoted(finding.queue_name)}")
    if finding.worker_id is not None:
        words.append(f"worker:{quoted(finding.worker_id)}")
    return " ".join(words)


def quoted(value: str) -> str:
    """Quote a value for the filter language."""
    if _PLAIN_WORD.fullmatch(value):
        return value
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'"{escaped}"'
