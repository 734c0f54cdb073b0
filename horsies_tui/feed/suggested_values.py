"""Task names, queues, error codes and workers in the database, as suggestions for the filter bar."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from horsies.query import parse, task_conditions
from horsies.views import queue_rows, task_groups, worker_rows
from horsies_tui.feed.status import LinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from horsies.store.connect import Connection
    from horsies.views import GroupBy
    from horsies_tui.feed.link import DatabaseLink

_FRESH_S: Final = 30.0
"""Time for which the values are kept, because a refresh takes five reads. New names are missing until then."""
_MOST: Final = 200


def _moments(now: datetime) -> tuple[str, ...]:
    """Return examples of times as they are written: an hour ago, midnight."""
    hour_ago = now.astimezone(UTC) - timedelta(hours=1)
    return f">={hour_ago:%Y-%m-%dT%H:%MZ}", f">={now.astimezone(UTC):%Y-%m-%d}"


class KnownValues:
    """The known values, read on request at most every 30 seconds, and kept if the database does not answer."""

    def __init__(self, link: DatabaseLink, publish: Callable[[Mapping[str, Sequence[str]]], None]) -> None:
        self._link = link
        self._publish = publish
        self.known: Mapping[str, Sequence[str]] = {}
        self._read_at: float | None = None
        self._task: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        fresh = self._read_at is not None and now - self._read_at < _FRESH_S
        if not fresh and (self._task is None or self._task.done()):
            self._read_at = now
            self._task = asyncio.create_task(self._read())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _read(self) -> None:
        """Read the values in several short reads, so that the reads of the screen can run between them."""
        self.known = {**self.known, "ended": _moments(self._link.clock.now())}
        try:
            await self._add("name", "task_name")
            await self._add("error", "error_code")
            queues = await self._link.read(queue_rows)
            await self._add("queue", "queue_name", *(row.name for row in queues))
            workers = await self._link.read(worker_rows)
            await self._add("worker", "worker", *(name for row in workers for name in (row.name, row.id)))
        except LinkError:
            self._read_at = None

    async def _add(self, key: str, by: GroupBy, *first: str) -> None:
        """Add the values of the newest tasks, most frequent first, after those in `first`, which are always valid."""

        async def ask(conn: Connection) -> list[str]:
            found = await task_groups(conn, task_conditions(parse("")), by=by, limit=_MOST)
            return [group.key for group in found.groups if group.key]

        values = tuple(dict.fromkeys([*first, *await self._link.read(ask)]))
        self.known = {**self.known, key: values}
        self._publish(self.known)
