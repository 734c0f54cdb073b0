"""What the console shows is true, or is shown as old with its cause, whatever happens to the database.

A writer changes the database all the time. A checker reads the terminal and compares the number of waiting tasks with
those that SQL found on another connection of late: a number that is older than its pace and 3 s must not look current.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from database_server import url_with
from frame_steps import console, frame, options, until

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from horsies.store.embedded import EmbeddedServer

pytestmark = pytest.mark.chaos

SCREENS: Final = {"overview": r"^\W*default +([\d,]+) ", "tasks": r"([\d,]+) pending"}
"""Where each screen shows how many tasks wait."""
PACE_S: Final = 2.0
"""The longest pace of these numbers."""
OLD_S: Final = 3.0
NAMED_WITHIN_S: Final = 10.0
EVERY_S: Final = 0.1
MODES: Final = (
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
)
WORKER: Final = """
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
    max_claim_per_worker, queues, recovery_config, tasks_running, tasks_claimed, worker_started_at)
VALUES ('web-1-7-0a', now() + interval '1 hour', 'web-1', 7, 8, 8, 8, '{default}', '{}', 0, 0, now())
"""
SENT: Final = "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES (gen_random_uuid(), 'shop.send', 'default')"
WAITS: Final = """
SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
                WHERE NOT granted AND application_name LIKE 'horsies console%')
"""


class Checker:
    """Compares the screen with the truth, ten times a second, while a writer sends a task each time."""

    def __init__(self, pilot: Pilot[int], screen: str, truth: asyncpg.Connection) -> None:
        self._pilot, self._figure, self._truth = pilot, re.compile(SCREENS[screen], re.MULTILINE), truth
        self._true: deque[tuple[float, int]] = deque()
        """When each number was read, newest last."""
        self._late_s = 0.0
        """How late this process has been of late: then the terminal is as late."""
        self.writes = True
        self.compared = self.marked_old = 0
        self.lies: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in frame(self._pilot))

    @property
    def shown(self) -> int | None:
        found = self._figure.search(self.text)
        return None if found is None else int(found[1].replace(",", ""))

    @property
    def looks_current(self) -> bool:
        cell = frame(self._pilot)[0]
        return not self._pilot.app.stage.has_class("-stale") and ("LIVE" in cell or "POLL" in cell)

    @property
    def newest(self) -> int:
        return self._true[-1][1]

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            # Where another session has locked the table, nobody changes the number meanwhile.
            with suppress(asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError):
                if self.writes:
                    await self._truth.execute(SENT)
                count = await self._truth.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'PENDING'")
                self._true.append((loop.time(), count))
            self._compare(loop.time())
            await asyncio.sleep(EVERY_S)
            self._late_s = max(self._late_s * 0.9, loop.time() - began - EVERY_S)

    def _compare(self, now: float) -> None:
        if not self.looks_current:
            self.marked_old += 1
            return
        limit = now - PACE_S - OLD_S - 2 * self._late_s
        while len(self._true) > 1 and self._true[1][0] < limit:
            self._true.popleft()
        shown, known = self.shown, {count for _, count in self._true}
        if shown is not None and self._true:
            self.compared += 1
            if shown not in range(min(known), max(known) + 1):
                true = f"{min(known)} to {max(known)}"
                late = f"{self._late_s:.2f} s late"
                self.lies.append(f"shows {shown}, where {true} were true of late ({late}):\n{self.text}")

    async def is_current(self) -> None:
        """The newest number is shown, as current."""
        self.writes = False
        await until(self._pilot, lambda: self.looks_current and self.shown == self.newest, "current again")
        self.writes = True

    async def names(self, *causes: str) -> None:
        """Within ten seconds the screen says why it is old."""

        async def is_named() -> bool:
            return any(cause in self.text for cause in causes)

        assert await happens(is_named, NAMED_WITHIN_S + 3 * self._late_s), self.text


@asynccontextmanager
async def checked(url: str, screen: str, direct: str) -> AsyncIterator[Checker]:
    """The console at this URL; the truth is read directly."""
    settings = {"lock_timeout": "200ms", "application_name": "truth"}
    truth = await asyncpg.connect(direct, server_settings=settings)
    try:
        await truth.execute(WORKER)
        await truth.execute(SENT)
        async with console(options(url, screen=screen), (150, 40)) as pilot:
            checker = Checker(pilot, screen, truth)
            checking = asyncio.create_task(checker.run())
            try:
                await until(pilot, lambda: checker.compared > 0, "the first numbers")
                yield checker
                await checker.is_current()
            finally:
                checking.cancel()
            assert not checking.done() or checking.cancelled()
            assert not checker.lies, f"{len(checker.lies)} times, first: {checker.lies[0]}"
    finally:
        truth.terminate()


@pytest.fixture
async def psql(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database, server_settings={"application_name": "psql"})
    yield connected
    await connected.close()


async def tables(connection: asyncpg.Connection) -> Sequence[str]:
    rows = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relname LIKE 'horsies\\_%' AND relkind = 'r' ORDER BY relname"
    )
    return [row["relname"] for row in rows]


async def happens(condition: Callable[[], Any], within_s: float) -> bool:
    """Whether the condition comes true in this time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not await condition():  # noqa: ASYNC110 - nor has the database
                await asyncio.sleep(EVERY_S)
            return True
    return False


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("mode", MODES)
async def test_a_table_is_locked(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection, screen: str, mode: str
) -> None:
    """Only what keeps the console from reading makes its numbers old, and then its session is named."""
    async with checked(database, screen, database) as checker:
        for table in await tables(connection):
            async with psql.transaction():
                await psql.execute(f"LOCK TABLE {table} IN {mode} MODE")
                stops_reads = mode == "ACCESS EXCLUSIVE"
                waits = await happens(lambda: connection.fetchval(WAITS), 6.0 if stops_reads else 1.0)
                assert stops_reads or not waits
                if waits:
                    await checker.names(f"blocked by pid {psql.get_server_pid()} psql")
            await checker.is_current()


@pytest.mark.parametrize("screen", SCREENS)
async def test_a_table_is_locked_for_three_seconds_again_and_again(
    database: str, psql: asyncpg.Connection, screen: str
) -> None:
    async with checked(database, screen, database) as checker:
        for _ in range(4):
            async with psql.transaction():
                await psql.execute("LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE")
                await psql.execute(SENT)
                await psql.execute("SELECT pg_sleep(3)")
            await asyncio.sleep(1.0)
        assert checker.marked_old


@pytest.mark.parametrize("delay_s", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("screen", SCREENS)
async def test_every_read_is_slow(database: str, screen: str, delay_s: float) -> None:
    async with BlackholeProxy(database) as proxy, checked(proxy.url, screen, database) as checker:
        proxy.delay_s = delay_s
        compared = checker.compared
        assert not await happens(_never, 20.0)
        assert checker.compared + checker.marked_old > compared
        proxy.delay_s = 0.0


async def _never() -> bool:
    return False


@pytest.mark.parametrize("screen", SCREENS)
async def test_no_connection_is_left_to_ask_for_the_cause(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection, role: str, screen: str
) -> None:
    await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    async with checked(url_with(database, role=role), screen, database) as checker:
        await connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
        async with psql.transaction():
            await psql.execute("LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE")
            await checker.names("has no free connection", "too many connections")
        await checker.is_current()
        # The same without the connections that there were.
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'horsies console%'"
        )
        await checker.names("has no free connection", "too many connections")
        await connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT -1")


@contextmanager
def frozen(pids: Sequence[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("screen", SCREENS)
async def test_the_server_is_frozen(embedded_server: EmbeddedServer, embedded_database: str, screen: str) -> None:
    """Its sessions and its postmaster stop, as in a virtual machine that is moved; the writer's session goes on."""
    async with checked(embedded_database, screen, embedded_database) as checker:
        observer = await asyncpg.connect(embedded_database)
        sessions = await observer.fetch(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'horsies console%'"
        )
        postmaster = int((embedded_server.place.data / "postmaster.pid").read_text().splitlines()[0])
        with frozen([*(row["pid"] for row in sessions), postmaster]):
            await checker.names("the server does not answer", "no answer from", "the connection was lost")
            assert not await happens(_never, 5.0)
        await observer.close()


@pytest.mark.parametrize("screen", SCREENS)
async def test_the_network_falls_silent(database: str, screen: str) -> None:
    async with BlackholeProxy(database) as proxy, checked(proxy.url, screen, database) as checker:
        proxy.silence()
        await checker.names("the server does not answer", "no answer from", "the connection was lost")
        assert not await happens(_never, 5.0)
        proxy.restore()
