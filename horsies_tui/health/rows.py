"""Filters that show exactly the tasks behind a number or an alert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.views import LATELY, RATES_OVER
from horsies_tui.look.units import age
from horsies_tui.widgets.desk_rows import filter_of, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.operations.findings import Finding

_MOST_IDS: Final = 20
"""More would fill the filter line: the words that they have in common say it then."""

MOST_NAMED: Final = 100
"""Names of queues or workers in one filter."""
_LATELY: Final = f"ended:<{age(LATELY)}"

NUMBERS: Final = {
    "pending": "status:pending,retry",
    "due": "status:pending,retry has:due",
    "later": "status:pending,retry -has:due",
    "claimed": "status:claimed",
    "running": "status:running",
    "cap": "status:running",
    "oldest": "status:pending,retry has:due",
    "in": f"since:{age(RATES_OVER)}",
    "out": f"status:done ended:<{age(RATES_OVER)}",
    "drains": "status:pending,retry has:due",
}
"""By the column of the queue table."""


def rows_of_number(column: str, queue: str) -> str:
    """The tasks that a number of the queue table counts; of all queues where none is named."""
    words = NUMBERS.get(column, "status:live")
    return f"{words} queue:{quoted(queue)}" if queue else words


def rows_of_finding(finding: Finding) -> str:
    """Its ids where they are few, for only they are exact."""
    ids = finding.ids
    if finding.target_kind == "task" and 0 < finding.count == len(ids) <= _MOST_IDS and not finding.at_least:
        return f"id:{','.join(ids)}"
    if finding.target_kind == "queue":
        return rows_of_number("due", finding.name)
    return filter_of(finding)


def any_of(names: Iterable[str]) -> str:
    """Values of one key, any of which is meant."""
    return ",".join(map(quoted, names))


def one_worker(worker_id: str) -> str:
    """The filter of the workers screen that shows it."""
    return f"id:{quoted(worker_id)}"


def rows_of_worker(worker_id: str) -> str:
    """What it holds."""
    return f"status:claimed,running worker:{quoted(worker_id)}"


def rows_of_error(error_code: str | None) -> str:
    """What failed with it lately."""
    return f"status:failed {'-has:error' if error_code is None else f'error:{quoted(error_code)}'} {_LATELY}"


def rows_that_failed(within: str = age(LATELY)) -> str:
    return f"status:failed ended:<{within}"


def rows_that_ended(within: str) -> str:
    return f"status:done ended:<{within}"
