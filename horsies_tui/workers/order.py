"""The sort orders of the worker list, and the totals of each host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from horsies_tui.workers.worker_texts import TROUBLE, host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from horsies.views import Liveness, WorkerRow


_PARTS: Final = re.compile("([0-9]+)")


class WorkerSort(StrEnum):
    TROUBLE = "trouble"
    NAME = "name"
    LOAD = "load"
    TASKS = "tasks"
    CPU = "cpu"
    MEMORY = "memory"
    YOUNGEST = "youngest"
    SILENT = "silent"

    @property
    def moves(self) -> bool:
        """True if the sort value changes with each snapshot."""
        return self not in (WorkerSort.TROUBLE, WorkerSort.NAME, WorkerSort.YOUNGEST)


SORT_WORDS: Final[Mapping[WorkerSort, str]] = {
    WorkerSort.TROUBLE: "trouble first",
    WorkerSort.NAME: "by name",
    WorkerSort.LOAD: "busiest first",
    WorkerSort.TASKS: "most tasks first",
    WorkerSort.CPU: "most cpu first",
    WorkerSort.MEMORY: "most memory first",
    WorkerSort.YOUNGEST: "youngest first",
    WorkerSort.SILENT: "longest silent first",
}


def _name(row: WorkerRow) -> tuple[Any, ...]:
    return _natural(row.name), row.id


@lru_cache(maxsize=4096)
def _natural(text: str) -> tuple[tuple[bool, int, str], ...]:
    """Return a sort key that compares numbers within a text as numbers, so that web-2 comes before web-10."""
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in _PARTS.split(text))


def _trouble(row: WorkerRow) -> int:
    """Return the rank of a worker, last if it has stopped and needs no action."""
    if not row.lives and not row.in_flight and (row.loss is None or not row.loss.is_open):
        return len(TROUBLE)
    return TROUBLE.index(row.liveness)


def _largest_first(row: WorkerRow, number: float | None) -> float:
    """Return a sort key for the largest value first; workers without a value or not alive come last."""
    return float("inf") if number is None or not row.lives else -number


_KEYS: Final[Mapping[WorkerSort, Callable[[WorkerRow], Any]]] = {
    WorkerSort.TROUBLE: _trouble,
    WorkerSort.NAME: lambda _row: 0,
    WorkerSort.LOAD: lambda row: _largest_first(row, row.load),
    WorkerSort.TASKS: lambda row: -row.in_flight,
    WorkerSort.CPU: lambda row: _largest_first(row, row.snapshot.cpu_percent if row.snapshot else None),
    WorkerSort.MEMORY: lambda row: _largest_first(row, row.snapshot.whole_memory_mb if row.snapshot else None),
    WorkerSort.YOUNGEST: lambda row: _largest_first(row, row.snapshot.started_at.timestamp() if row.snapshot else None),
    WorkerSort.SILENT: lambda row: row.seen_at,
}


def in_order(rows: Iterable[WorkerRow], sort: WorkerSort) -> tuple[WorkerRow, ...]:
    key = _KEYS[sort]
    return tuple(sorted(rows, key=lambda row: (key(row), _name(row))))


@dataclass(frozen=True, slots=True)
class HostRow:
    """The workers of one host. `id` is the host's name, empty for workers that stored no snapshot."""

    id: str
    workers: tuple[WorkerRow, ...]

    def count(self, liveness: Liveness) -> int:
        return sum(row.liveness is liveness for row in self.workers)

    @property
    def living(self) -> tuple[WorkerRow, ...]:
        return tuple(row for row in self.workers if row.lives)

    @property
    def busy(self) -> int:
        """Return the number of processes that run a task."""
        return sum(row.busy or 0 for row in self.living)

    @property
    def claimed(self) -> int:
        return sum(row.claimed for row in self.living)

    @property
    def left_behind(self) -> int:
        """Return the number of tasks of workers that are not alive."""
        return sum(row.in_flight for row in self.workers if not row.lives)

    @property
    def processes(self) -> int:
        return sum(row.snapshot.processes for row in self.living if row.snapshot is not None)

    @property
    def cpu(self) -> float:
        """Return the sum of its workers' CPU use, in per cent of a core."""
        return sum(row.snapshot.cpu_percent or 0.0 for row in self.living if row.snapshot is not None)

    @property
    def versions(self) -> tuple[str, ...]:
        """Return the versions of its workers that are alive, the newest last."""
        return tuple(sorted({row.snapshot.version or "?" for row in self.living if row.snapshot is not None}))


def by_host(rows: Iterable[WorkerRow]) -> tuple[HostRow, ...]:
    """Return the hosts in the order of their first workers."""
    found: dict[str, list[WorkerRow]] = {}
    for row in rows:
        found.setdefault(host(row), []).append(row)
    return tuple(HostRow(one, tuple(workers)) for one, workers in found.items())
