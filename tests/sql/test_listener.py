"""Notifications arrive; if they do not, the listener notices soon and callers read again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from until import LISTENERS, PRODUCERS, until, until_listening

from horsies import broker as broker_module
from horsies.broker import PostgresBroker
from horsies.config.app import PostgresConfig
from horsies.config.url import DatabaseUrl
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.result import Ok
from horsies.domain.task_result import TaskResult
from horsies.store import producer_client as link, waiting
from horsies.store.connect import Database
from horsies.store.listener import Listener

END_ALL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name LIKE 'horsies %' AND datname = current_database()"
)
FORTY_TWO = '{"__task_result__":true,"ok":42,"err":null}'


@dataclass
class Ear:
    """Records a listener's callbacks."""

    heard: list[str] = field(default_factory=list)
    gaps: int = 0
    change: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, payload: str) -> None:
        self.heard.append(payload)
        self.change.set()

    def gap(self) -> None:
        self.gaps += 1
        self.change.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.change.clear()
                await self.change.wait()


@pytest.fixture
async def ear() -> Ear:
    return Ear()


def database_at(url: str) -> Database:
    return Database(DatabaseUrl.parse(url), "in a test", None)


@pytest.fixture
async def listener(database: str, ear: Ear) -> AsyncIterator[Listener]:
    made = Listener(partial(database_at(database).connect, "listener"), probe_interval_s=5, on_gap=ear.gap)
    made.add("news", ear.hear)
    await made.start()
    yield made
    await made.close()


async def tell(connection: asyncpg.Connection, payload: str, channel: str = "news") -> None:
    await connection.execute("SELECT pg_notify($1, $2)", channel, payload)


async def test_payloads_of_its_channels_arrive_whatever_they_are(
    listener: Listener, ear: Ear, connection: asyncpg.Connection
) -> None:
    assert listener.healthy
    payloads = ["", "capacity:7", "ünïcode ☃", "'; DROP TABLE x; --", "x" * 7_999]
    for payload in payloads:
        await tell(connection, "not for us", channel="olds")
        await tell(connection, payload)
    await ear.until(lambda: len(ear.heard) == len(payloads))
    assert ear.heard == payloads


async def test_a_channel_can_be_added_and_removed_while_it_listens(
    listener: Listener, ear: Ear, connection: asyncpg.Connection
) -> None:
    gaps = ear.gaps
    listener.add('ch"annel', ear.hear)
    await ear.until(lambda: ear.gaps > gaps)
    await tell(connection, "quoted", channel='ch"annel')
    await ear.until(lambda: ear.heard == ["quoted"])
    listener.remove("news", ear.hear)
    gaps = ear.gaps
    await ear.until(lambda: ear.gaps > gaps)
    await tell(connection, "too late")
    await tell(connection, "in time", channel='ch"annel')
    await ear.until(lambda: len(ear.heard) > 1)
    assert ear.heard == ["quoted", "in time"]


async def test_two_callbacks_of_a_channel_are_both_called(
    listener: Listener, ear: Ear, connection: asyncpg.Connection
) -> None:
    second = Ear()
    listener.add("news", second.hear)
    await tell(connection, "for both")
    await second.until(lambda: bool(second.heard))
    listener.remove("news", second.hear)
    await tell(connection, "for the first")
    await ear.until(lambda: len(ear.heard) == 2)
    assert (ear.heard, second.heard) == (["for both", "for the first"], ["for both"])


async def test_an_ended_connection_is_replaced_at_once_and_the_gap_is_told(
    listener: Listener, ear: Ear, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "horsies.listener")
    gaps = ear.gaps
    assert await connection.fetchval(f"SELECT pg_terminate_backend(pid) {LISTENERS}")
    await ear.until(lambda: ear.gaps == gaps + 1)
    assert not listener.healthy
    await ear.until(lambda: ear.gaps == gaps + 2)
    assert listener.healthy
    await tell(connection, "after the gap")
    await ear.until(lambda: ear.heard == ["after the gap"])
    lost, found = [record.getMessage() for record in caplog.records]
    assert lost.startswith("no notifications, polling until they arrive: ")
    assert found == "notifications arrive again"


async def test_a_half_open_connection_is_found_by_the_probe_and_replaced(
    database: str, ear: Ear, connection: asyncpg.Connection
) -> None:
    async with BlackholeProxy(database) as proxy:
        listener = Listener(partial(database_at(proxy.url).connect, "listener"), probe_interval_s=0.1, on_gap=ear.gap)
        listener.add("news", ear.hear)
        await listener.start()
        assert listener.healthy
        gaps = ear.gaps
        proxy.swallow()
        await tell(connection, "swallowed")
        await ear.until(lambda: ear.gaps > gaps)
        assert not listener.healthy
        await ear.until(lambda: listener.healthy)
        await tell(connection, "after the gap")
        await ear.until(lambda: ear.heard == ["after the gap"])
        await listener.close()


class Deaf(asyncpg.Connection):
    """LISTEN behind a pooler in transaction mode: accepted, and without effect."""

    async def add_listener(self, channel: str, callback: object) -> None:
        pass


async def test_a_connection_that_never_hears_itself_is_not_healthy(database: str, ear: Ear) -> None:
    connect = partial(asyncpg.connect, database, connection_class=Deaf)
    listener = Listener(connect, probe_interval_s=0.05, on_gap=ear.gap)
    await listener.start()
    assert not listener.healthy
    await ear.until(lambda: ear.gaps >= 3)  # it retries
    assert not listener.healthy
    await listener.close()


async def test_no_database_at_the_start_is_no_error_and_is_tried_again(
    database: str, ear: Ear, connection: asyncpg.Connection
) -> None:
    async with BlackholeProxy(database) as proxy:
        proxy.refuse(2)
        listener = Listener(partial(database_at(proxy.url).connect, "listener"), on_gap=ear.gap)
        listener.add("news", ear.hear)
        await listener.start()
        assert not listener.healthy
        await ear.until(lambda: listener.healthy)
        await tell(connection, "at last")
        await ear.until(lambda: ear.heard == ["at last"])
        await listener.close()


async def test_news_makes_the_probe_unnecessary(database: str, ear: Ear, connection: asyncpg.Connection) -> None:
    probes: list[str] = []

    async def connect() -> asyncpg.Connection:
        made = await asyncpg.connect(database)
        made.add_query_logger(lambda record: probes.append(record.query) if "pg_notify" in record.query else None)
        return made

    listener = Listener(connect, probe_interval_s=0.1)
    listener.add("news", ear.hear)
    await listener.start()
    assert len(probes) == 1
    deadline = time.monotonic() + 0.35
    while time.monotonic() < deadline:
        await tell(connection, "tick")
        await ear.until(lambda: bool(ear.heard))
        ear.heard.clear()
    assert len(probes) <= 2
    await listener.close()


async def test_a_closed_listener_leaves_no_session_behind(
    database: str, connection: asyncpg.Connection, ear: Ear
) -> None:
    listener = Listener(partial(database_at(database).connect, "listener"), on_gap=ear.gap)
    await listener.start()
    await listener.close()
    await listener.close()
    assert not listener.healthy
    await until(connection, f"NOT EXISTS (SELECT {LISTENERS})")


@pytest.fixture
async def proxied(database: str) -> AsyncIterator[tuple[BlackholeProxy, PostgresBroker]]:
    """A broker that reaches its database through a proxy that can go silent."""
    async with BlackholeProxy(database) as proxy:
        broker = PostgresBroker(PostgresConfig(database_url=proxy.url))
        yield proxy, broker
        assert await broker.close_async() == Ok(None)


async def insert(connection: asyncpg.Connection, task_id: str) -> None:
    await connection.execute("INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ($1, 'x', 'q')", task_id)


async def complete(connection: asyncpg.Connection, task_id: str) -> None:
    await connection.execute(
        "UPDATE horsies_tasks SET status = 'COMPLETED', result = $2 WHERE id = $1", task_id, FORTY_TWO
    )


async def test_a_wait_survives_the_end_of_every_session(
    proxied: tuple[BlackholeProxy, PostgresBroker], connection: asyncpg.Connection
) -> None:
    _, broker = proxied
    await insert(connection, "t")
    wait = asyncio.create_task(broker.get_result_async("t"))
    await until_listening(connection)
    await connection.execute(END_ALL)
    await complete(connection, "t")
    assert await wait == TaskResult(ok=42)


async def test_a_wait_gives_up_when_the_database_stays_away(
    proxied: tuple[BlackholeProxy, PostgresBroker], connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, broker = proxied
    monkeypatch.setattr(waiting, "_TIMEOUT_S", 0.1)
    await insert(connection, "t")
    wait = asyncio.create_task(broker.get_result_async("t"))
    await until_listening(connection)
    proxy.refuse(1_000)
    await connection.execute(END_ALL)
    error = (await asyncio.wait_for(wait, 5)).err_value
    assert error.error_code is OperationalErrorCode.BROKER_ERROR
    assert "starting or stopping" in error.message
    assert error.data == {"retryable": True}


async def test_a_wait_behind_a_pooler_polls_and_never_listens(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def yes(_: Database) -> bool:
        return True

    monkeypatch.setattr(link, "is_behind_pooler", yes)
    monkeypatch.setattr(waiting, "_POLL_WITHOUT_NOTIFICATIONS_S", 0.05)
    broker = PostgresBroker(PostgresConfig(database_url=database))
    assert broker.enqueue("demo.add", task_id="t", enqueue_sha="a") == Ok("t")
    wait = asyncio.create_task(broker.get_result_async("t"))
    await until(connection, f"EXISTS (SELECT {PRODUCERS} AND query LIKE '-- read_outcomes%' AND state = 'idle')")
    await complete(connection, "t")
    assert await wait == TaskResult(ok=42)
    assert await connection.fetchval(f"SELECT count(*) {LISTENERS}") == 0
    await broker.close_async()


async def test_a_silent_connection_costs_a_wait_no_more_than_its_time(
    proxied: tuple[BlackholeProxy, PostgresBroker], connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, broker = proxied
    monkeypatch.setattr(waiting, "_SHORTEST_READ_S", 0.2)
    await insert(connection, "t")
    assert (await broker.get_result_async("t", 0)).is_err()
    proxy.swallow()
    error = (await broker.get_result_async("t", 100)).err_value
    assert "did not answer" in error.message
    await complete(connection, "t")
    assert await broker.get_result_async("t", 0) == TaskResult(ok=42)


async def test_a_send_over_a_silent_connection_may_be_repeated_and_the_next_one_works(
    proxied: tuple[BlackholeProxy, PostgresBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, broker = proxied
    monkeypatch.setattr(link, "_MAX_STATEMENT_S", 0.2)
    two = [broker.enqueue_async("demo.add", task_id=f"t{number}", enqueue_sha="a") for number in range(2)]
    assert await asyncio.gather(*two) == [Ok("t0"), Ok("t1")]
    proxy.swallow()
    error = (await broker.enqueue_async("demo.add", task_id="t2", enqueue_sha="a")).unwrap_err()
    assert error.retryable
    assert error.message == "the database did not answer within 0.2 s"
    assert await broker.enqueue_async("demo.add", task_id="t2", enqueue_sha="a") == Ok("t2")


async def test_the_channel_of_ended_tasks_is_unlistened_when_no_call_waits(
    proxied: tuple[BlackholeProxy, PostgresBroker], connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, broker = proxied
    monkeypatch.setattr(waiting, "_LINGER_S", 0.0)
    idle = f"EXISTS (SELECT {LISTENERS} AND state = 'idle' AND query"
    for task_id in ("t", "u"):
        await insert(connection, task_id)
        wait = asyncio.create_task(broker.get_result_async(task_id))
        # the first time all channels are followed by a probe, later on task_done is added alone
        await until(connection, f"{idle} ~ 'pg_notify|^LISTEN')")
        await complete(connection, task_id)
        assert await wait == TaskResult(ok=42)
        await until(connection, f"{idle} LIKE 'UNLISTEN%')")


async def test_a_lost_connection_costs_no_send(
    proxied: tuple[BlackholeProxy, PostgresBroker], connection: asyncpg.Connection
) -> None:
    _, broker = proxied
    for number in range(5):
        sent = await broker.enqueue_async("demo.add", task_id=f"t{number}", enqueue_sha="a")
        assert sent == Ok(f"t{number}")
        await connection.execute(f"SELECT pg_terminate_backend(pid) {PRODUCERS}")


@pytest.mark.parametrize(("resend", "refusals", "accepted"), [(False, 1, 1), (True, 2, None), (True, 4, 4)])
async def test_transient_trouble_is_waited_out_where_that_was_asked_for(
    proxied: tuple[BlackholeProxy, PostgresBroker],
    monkeypatch: pytest.MonkeyPatch,
    resend: bool,
    refusals: int,
    accepted: int | None,
) -> None:
    proxy, _ = proxied
    assert broker_module._RESEND_PAUSES_S == (0.2, 0.4, 0.8)
    monkeypatch.setattr(broker_module, "_RESEND_PAUSES_S", (0.02, 0.04, 0.08))
    broker = PostgresBroker(PostgresConfig(database_url=proxy.url), resend_on_transient_err=resend)
    proxy.refuse(refusals)
    sent = await broker.enqueue_async("demo.add", task_id="t", enqueue_sha="a")
    if accepted is None:
        assert sent == Ok("t")
    else:
        assert sent.unwrap_err().retryable
        assert "starting or stopping" in sent.unwrap_err().message
        assert proxy.accepted == accepted
    await broker.close_async()
