"""A worker's loop that hangs is reported, once, while the other loops continue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy

from horsies.config.app import WorkerResilienceConfig
from horsies.config.contexts import DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.run import loops
from horsies.run.events import Events
from horsies.run.loops import Supervisor, Wake
from horsies.store.connect import Database, open_database
from horsies.store.dedicated_connection import DedicatedConnection


class Look:
    """A loop that reads one table repeatedly."""

    interval_s = 0.02
    step_timeout_s = 0.2

    def __init__(self, name: str, database: Database, table: str) -> None:
        self.name = name
        self.wake = Wake()
        self.dedicated = DedicatedConnection(database, name, behind_pooler=False)
        self._table = table

    async def step(self) -> None:
        connection = await self.dedicated.ready()
        await connection.execute(f"SELECT count(*) FROM {self._table}")


class Log(logging.Handler):
    """The log records, for waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str]] = []
        self.locks: list[str] = []
        self._news = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append((record.event, record.fields["loop"]))  # type: ignore[attr-defined]
        self.locks += [record.fields["lock"]] if "lock" in record.fields else []  # type: ignore[attr-defined]
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._news.clear()
                await self._news.wait()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
async def supervisor(log: Log, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Supervisor]:
    """A supervisor that checks every 20 ms and reports after 100 ms."""
    monkeypatch.setattr(loops, "WATCH_S", 0.02)
    monkeypatch.setattr(loops, "MARGIN_S", 0.1)
    logger = logging.Logger("test", logging.INFO)
    logger.addHandler(log)
    resilience = WorkerResilienceConfig(db_retry_initial_ms=100, db_retry_max_ms=500)
    supervisor = Supervisor(resilience, Events(logger))
    yield supervisor
    await supervisor.stop_all()


def choice(url: str) -> DatabaseChoice:
    return DatabaseChoice(DatabaseUrl.parse(url), "a test")


async def test_a_loop_behind_a_locked_table_is_stuck_and_its_neighbour_is_not(
    connection: asyncpg.Connection, database: str, supervisor: Supervisor, log: Log
) -> None:
    async with open_database(choice(database)) as opened:
        blocked, free = Look("blocked", opened, "horsies_worker_states"), Look("free", opened, "horsies_queue_state")
        lock = connection.transaction()
        await lock.start()
        await connection.execute("LOCK TABLE horsies_worker_states")
        supervisor.start([blocked, free])
        await log.until(lambda: ("loop stuck", "blocked") in log.told)
        (name, since), *others = supervisor.stuck().items()
        assert (name, others) == ("blocked", [])
        assert since > blocked.interval_s + blocked.step_timeout_s
        await lock.rollback()
        await log.until(lambda: ("loop recovered", "blocked") in log.told)
        assert supervisor.stuck() == {}
        assert log.told.count(("loop stuck", "blocked")) == 1
        assert {name for _, name in log.told} == {"blocked"}
        await supervisor.stop_all()
        for loop in (blocked, free):
            await loop.dedicated.close()


async def test_a_loop_whose_server_has_gone_silent_is_stuck_until_it_answers_again(
    database: str, supervisor: Supervisor, log: Log
) -> None:
    async with BlackholeProxy(database) as proxy, open_database(choice(proxy.url)) as opened:
        loop = Look("cut off", opened, "horsies_queue_state")
        supervisor.start([loop])
        begin = supervisor.last_success["cut off"]
        async with asyncio.timeout(10):
            while supervisor.last_success["cut off"] == begin:  # noqa: ASYNC110 - it reports failures only
                await asyncio.sleep(0.01)
        proxy.refuse(times=1_000)
        proxy.swallow()
        await log.until(lambda: ("loop stuck", "cut off") in log.told)
        proxy.refuse(times=0)
        await log.until(lambda: ("loop recovered", "cut off") in log.told)
        assert supervisor.stuck() == {}
        await supervisor.stop_all()
        await loop.dedicated.close()


async def test_a_stopped_loop_is_not_missed(database: str, supervisor: Supervisor, log: Log) -> None:
    async with open_database(choice(database)) as opened:
        loop, other = Look("over", opened, "horsies_queue_state"), Look("going on", opened, "horsies_queue_state")
        supervisor.start([loop, other])
        await supervisor.stop("over")
        before = supervisor.last_success["over"]
        async with asyncio.timeout(10):
            while supervisor.last_success["going on"] < before + 0.4:  # noqa: ASYNC110 - it reports failures only
                await asyncio.sleep(0.01)
        assert supervisor.stuck() == {}
        assert log.told == []
        await supervisor.stop_all()
        for each in (loop, other):
            await each.dedicated.close()


async def test_a_loop_that_waits_for_a_locked_table_names_the_session_once(
    database: str, supervisor: Supervisor, log: Log
) -> None:
    psql = await asyncpg.connect(database, server_settings={"application_name": "psql"})
    await psql.execute("BEGIN; LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE")
    async with open_database(choice(database)) as opened:
        waiting, other = (Look("worker advance", opened, "horsies_tasks") for _ in range(2))
        other.name, other.step_timeout_s, waiting.step_timeout_s = "other", 5.0, 5.0
        supervisor.start([waiting, other])
        await log.until(lambda: log.locks != [])
        await supervisor.stop_all()
        await asyncio.gather(waiting.dedicated.close(), other.dedicated.close())
    assert [event for event, _ in log.told].count("cannot write") == 1
    assert len(log.locks) == 1
    assert log.locks[0].startswith(f"blocked by pid {psql.get_server_pid()} psql ")
    await psql.close()
