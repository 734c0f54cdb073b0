"""Steps for tests of what the console shows as current: a writer, and a checker that compares the screen with SQL."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import asyncpg
from frame_steps import console, frame, options
from textual.pilot import Pilot
from verb_steps import until

SCREENS: Final = {
    "overview": {
        "PENDING": r"^\W*default +([\d,]+) ",
        "RUNNING": r"^\W*default(?: +[\d,]+){4} +([\d,]+) ",
    },
    "tasks": {"PENDING": r"([\d,]+) pending", "RUNNING": r"([\d,]+) running", "FAILED": r"([\d,]+) failed"},
}
"""Where each screen shows how many tasks have a status."""
PACE_S: Final = 2.0
"""The longest pace of these figures."""
OLD_S: Final = 3.0
NAMED_WITHIN_S: Final = 10.0
EVERY_S: Final = 0.1
WORKER: Final = """
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
    max_claim_per_worker, queues, recovery_config, tasks_running, tasks_claimed, worker_started_at)
VALUES ('web-1-7-0a', now() + interval '1 hour', 'web-1', 7, 8, 8, 8, '{default}', '{}', 0, 0, now())
"""
SENT: Final = "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES (gen_random_uuid(), 'shop.send', 'default')"
_TO: Final = """
UPDATE horsies_tasks SET status = '{0}', {1}
 WHERE id = (SELECT id FROM horsies_tasks WHERE status = '{2}' LIMIT 1)
"""
_STARTED: Final = _TO.format("RUNNING", "started_at = now(), claimed_by_worker_id = 'web-1-7-0a'", "PENDING")
_FAILED: Final = _TO.format("FAILED", "failed_at = now(), error_code = 'BROKE'", "RUNNING")
_WRITES: Final = (SENT, SENT, _STARTED, SENT, _STARTED, _FAILED)
_COUNT: Final = "SELECT status, count(*) FROM horsies_tasks GROUP BY status"


class Checker:
    """Compares the screen with the truth, ten times a second, while a writer changes a task each time."""

    def __init__(self, pilot: Pilot[int], screen: str, truth: asyncpg.Connection) -> None:
        self._pilot, self._truth = pilot, truth
        self._figures = {status: re.compile(where, re.MULTILINE) for status, where in SCREENS[screen].items()}
        self._true: deque[tuple[float, dict[str, int]]] = deque()
        """When each count was read, newest last."""
        self._writes = itertools.cycle(_WRITES)
        self.late_s = 0.0
        """How late this process has been of late: then the terminal is as late."""
        self.writes = True
        self.compared = self.marked_old = 0
        self.lies: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in frame(self._pilot))

    def shown(self, text: str) -> dict[str, int]:
        """The figures on the screen, by status."""
        found = {status: where.search(text) for status, where in self._figures.items()}
        return {status: int(figure[1].replace(",", "")) for status, figure in found.items() if figure is not None}

    @property
    def looks_current(self) -> bool:
        cell = frame(self._pilot)[0]
        return not self._pilot.app.stage.has_class("-stale") and ("LIVE" in cell or "POLL" in cell)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            # Where another session has locked the table, no session changes the figures meanwhile.
            with suppress(asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError):
                if self.writes:
                    await self._truth.execute(next(self._writes))
                found = {row["status"]: row["count"] for row in await self._truth.fetch(_COUNT)}
                self._true.append((loop.time(), {status: found.get(status, 0) for status in self._figures}))
            self._compare(loop.time())
            await asyncio.sleep(EVERY_S)
            self.late_s = max(self.late_s * 0.9, loop.time() - began - EVERY_S)

    def _compare(self, now: float) -> None:
        if not self.looks_current:
            self.marked_old += 1
            return
        limit = now - PACE_S - OLD_S - 2 * self.late_s
        while len(self._true) > 1 and self._true[1][0] < limit:
            self._true.popleft()
        text = self.text
        for status, shown in self.shown(text).items():
            known = [counts[status] for _, counts in self._true]
            if not known:
                continue
            self.compared += 1
            if not min(known) <= shown <= max(known):
                true = f"{min(known)} to {max(known)}"
                self.lies.append(
                    f"shows {shown} {status}, where {true} were true of late ({self.late_s:.2f} s late):\n{text}"
                )

    async def is_current(self) -> None:
        """The newest figures are shown, as current."""
        self.writes = False
        try:
            await until(self._pilot, self._shows_the_newest, "current again")
        except AssertionError as error:
            raise AssertionError(f"true were {self._true[-1][1]}: {error}") from None
        self.writes = True

    def _shows_the_newest(self) -> bool:
        newest = {status: count for status, count in self._true[-1][1].items() if count}
        return self.looks_current and newest.items() <= self.shown(self.text).items()

    async def names(self, *causes: str) -> float:
        """Within ten seconds the screen says why it is old; returns after how many."""
        began = asyncio.get_running_loop().time()
        limit_s = NAMED_WITHIN_S + 3 * self.late_s

        async def is_named() -> bool:
            return not self.looks_current and any(cause in self.text for cause in causes)

        assert await happens(is_named, limit_s), f"not named within {limit_s:.1f} s:\n{self.text}"
        return asyncio.get_running_loop().time() - began

    async def goes_on(self, seconds: float) -> None:
        """Compare for so long."""
        before = self.compared + self.marked_old
        await asyncio.sleep(seconds)
        assert self.compared + self.marked_old > before


@asynccontextmanager
async def checked(url: str, screen: str, direct: str) -> AsyncIterator[Checker]:
    """The console at this URL; the truth is read directly."""
    settings = {"lock_timeout": "200ms", "application_name": "truth"}
    truth = await asyncpg.connect(direct, server_settings=settings)
    try:
        await truth.execute(WORKER)
        for write in _WRITES:
            await truth.execute(write)
        async with console(options(url, screen=screen), (150, 40)) as pilot:
            checker = Checker(pilot, screen, truth)
            checking = asyncio.create_task(checker.run())
            try:
                await until(pilot, lambda: checker.compared > 0, "the first figures")
                await checker.is_current()
                yield checker
                await checker.is_current()
            finally:
                if checking.done():
                    checking.result()  # why it has ended
                checking.cancel()
            assert not checker.lies, f"{len(checker.lies)} times, first: {checker.lies[0]}"
    finally:
        truth.terminate()


async def happens(condition: Callable[[], Awaitable[Any]], within_s: float) -> bool:
    """Whether the condition comes true in this time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not await condition():  # noqa: ASYNC110 - nor has the database
                await asyncio.sleep(EVERY_S)
            return True
    return False
