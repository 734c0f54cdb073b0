"""The console's link on a database that is down, killed, frozen, read-only, or without LISTEN."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from database_server import url_with
from feed_steps import ACTOR, QUICK, Published, choice, history, ids, linked, send
from until import until

from horsies.operations.pipeline import preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies.store.embedded import EmbeddedServer
from horsies.views.reader_session import tables
from horsies_tui.feed.clock import DatabaseClock
from horsies_tui.feed.link import DatabaseLink
from horsies_tui.feed.pace import Patience
from horsies_tui.feed.status import LinkDown, LinkError, LinkState, LinkStatus, SlowRead, StatementRefused
from horsies_tui.tasks.feed import TaskFeed
from horsies_tui.tasks.snapshot import TaskSnapshot

UPSTREAM_SHAPE = Path(__file__).with_name("upstream_shape.sql").read_text("utf-8")
CONSOLE = "FROM pg_stat_activity WHERE application_name LIKE 'horsies console%' AND datname = current_database()"
HASTY = Patience(slow_s=0.05, statement_s=0.2, read_s=0.4)


@asynccontextmanager
async def fed(link: DatabaseLink) -> AsyncIterator[Published[TaskSnapshot]]:
    published: Published[TaskSnapshot] = Published()
    feed = TaskFeed(link, published, rhythm=QUICK)
    feed.start()
    yield published
    feed.stop()


def is_live(status: LinkStatus) -> bool:
    return status.state is LinkState.LIVE


async def one(conn: asyncpg.Connection) -> int:
    return int(await conn.fetchval("SELECT 1"))


async def test_it_says_what_it_is_linked_to(database: str) -> None:
    async with linked(database) as (link, statuses):
        status = await statuses.until(is_live)
        assert (status.actor, status.lacks, status.detail, status.read_only) == ("ops@bastion", (), "", False)
        assert status.server_version is not None
        assert status.database_label.split("/")[-1] == database.split("?")[0].rsplit("/", 1)[-1]
        assert abs(status.clock_offset_s) < 1
        assert await link.read(one) == 1
        assert link.status.words(link.clock.now()).startswith("LIVE 0.")


async def test_a_database_that_is_down_at_the_start_is_waited_for(database: str) -> None:
    async with BlackholeProxy(database) as proxy:
        proxy.refuse(3)
        async with linked(proxy.url) as (link, statuses):
            status = await statuses.until(lambda status: status.state is LinkState.DOWN)
            assert "starting up" in status.detail
            assert status.words(link.clock.now()) == "DOWN, retry in 0s"
            with pytest.raises(LinkDown, match="starting up"):
                await link.read(one)
            async with fed(link) as published:
                link.retry_now()
                await published.until(lambda snapshot: not snapshot.loading)
            assert (await statuses.until(is_live)).detail == ""


async def test_killed_backends_are_replaced_and_what_was_missed_is_read(
    database: str, connection: asyncpg.Connection
) -> None:
    async with linked(database) as (link, statuses), fed(link) as published:
        await statuses.until(is_live)
        await published.until(lambda snapshot: not snapshot.loading)
        async with connection.transaction():
            assert len(await connection.fetch(f"SELECT pg_terminate_backend(pid) {CONSOLE}")) == 2
            await send(connection, "meanwhile")
        assert ids(await published.until(lambda snapshot: snapshot.rows)) == ["meanwhile"]
        await statuses.until(is_live)
        assert LinkState.STALE in {status.state for status in statuses.all}
        await send(connection, "after")
        await published.until(lambda snapshot: len(snapshot.rows) == 2)


@contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def test_a_frozen_database_is_called_slow_then_stale_and_comes_back(
    embedded_server: EmbeddedServer, embedded_database: str
) -> None:
    connection = await asyncpg.connect(embedded_database)
    await send(connection, "a")
    async with linked(embedded_database, patience=HASTY) as (link, statuses), fed(link) as published:
        await statuses.until(is_live)
        await published.until(lambda snapshot: snapshot.counts is not None)
        backends = [row["pid"] for row in await connection.fetch(f"SELECT pid {CONSOLE}")]
        postmaster = int((embedded_server.place.data / "postmaster.pid").read_text().splitlines()[0])
        seen = len(statuses.all)
        with frozen([*backends, postmaster]):
            with pytest.raises(LinkError):
                await link.read(one)
            await statuses.until(lambda status: status.state is LinkState.STALE and status.next_try_at is None)
            assert link.status.words(link.clock.now()).endswith("s, connecting")
            assert ids(published.last) == ["a"]
            with pytest.raises(LinkDown):
                await link.read(one)
        words = [status.words(link.clock.now()) for status in statuses.all[seen:]]
        assert words[0] == "SLOW 0.1s"
        await statuses.until(is_live)
        await send(connection, "b")
        assert ids(await published.until(lambda snapshot: len(snapshot.rows) == 2)) == ["b", "a"]
    await connection.close()


async def test_a_statement_that_takes_too_long_is_given_up_by_the_server_and_the_connection_kept(
    database: str,
) -> None:
    async with linked(database, patience=HASTY) as (link, statuses):
        await statuses.until(is_live)
        backend = await link.read(lambda conn: conn.fetchval("SELECT pg_backend_pid()"))
        with pytest.raises(SlowRead) as caught:
            await link.read(lambda conn: conn.execute("SELECT pg_sleep(10)"))
        assert caught.value.waited_s >= 0.2
        assert link.status.words(link.clock.now()) == f"SLOW {caught.value.waited_s:.1f}s"
        assert await link.read(lambda conn: conn.fetchval("SELECT pg_backend_pid()")) == backend
        assert link.status.state is LinkState.LIVE


async def test_a_connection_that_a_firewall_forgot_is_replaced(database: str, connection: asyncpg.Connection) -> None:
    async with (
        BlackholeProxy(database) as proxy,
        linked(proxy.url, patience=HASTY) as (link, statuses),
        fed(link) as published,
    ):
        await statuses.until(is_live)
        proxy.swallow()
        with pytest.raises(LinkError):
            await link.read(one)
        await send(connection, "a")
        assert ids(await published.until(lambda snapshot: snapshot.rows)) == ["a"]


@pytest.mark.parametrize(("rights", "words"), [("SELECT, UPDATE", "POLL 2s"), ("SELECT", "POLL 2s READ-ONLY")])
async def test_where_it_cannot_listen_it_polls(
    database: str, connection: asyncpg.Connection, role: str, rights: str, words: str
) -> None:
    """A role without notifications, as behind a pooler that accepts LISTEN and never delivers."""
    await connection.execute(
        f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO {role}; REVOKE EXECUTE ON FUNCTION pg_notify FROM PUBLIC"
    )
    async with linked(url_with(database, role=role)) as (link, statuses), fed(link) as published:
        await published.until(lambda snapshot: not snapshot.loading)
        assert link.status.words(link.clock.now()) == words
        await send(connection, "a")
        assert ids(await published.until(lambda snapshot: snapshot.rows)) == ["a"]
        assert not any(is_live(status) for status in statuses.all)


@pytest.mark.parametrize(("of_database", "of_role", "here", "lacks"), [
    ("on", None, None, True), ("on", "off", None, False), ("off", "true", None, True), ("on", "on", "off", False),
])  # fmt: skip
async def test_a_role_is_read_only_by_the_closest_of_its_settings(
    database: str,
    connection: asyncpg.Connection,
    role: str,
    of_database: str,
    of_role: str | None,
    here: str | None,
    lacks: bool,
) -> None:
    name = await connection.fetchval("SELECT quote_ident(current_database())")
    await connection.execute(f"GRANT UPDATE ON horsies_tasks TO {role}")
    for place, value in (
        (f"DATABASE {name}", of_database), (f"ROLE {role}", of_role), (f"ROLE {role} IN DATABASE {name}", here),
    ):  # fmt: skip
        if value is not None:
            await connection.execute(f"ALTER {place} SET default_transaction_read_only = {value}")
    seen = await asyncpg.connect(url_with(database, role=role))
    try:
        assert await seen.fetchval("SHOW default_transaction_read_only") == ("on" if lacks else "off")
        assert ((await tables(seen)).no_writes is not None) is lacks
    finally:
        await seen.close()


async def test_a_read_only_link_cannot_write_even_when_it_acts(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "a")
    async with linked(database, read_only=True) as (link, statuses):
        status = await statuses.until(is_live)
        assert status.words(link.clock.now()).endswith(" READ-ONLY")
        for ask in (link.act, link.read):
            with pytest.raises((StatementRefused, LinkDown)):
                await ask(lambda conn: conn.execute("UPDATE horsies_tasks SET priority = 1"))
        cancel = VERBS["task", "cancel"]
        seen = await link.act(lambda conn: preview(conn, cancel, Selection.of_ids(["a"])))
        assert [target.id for target in seen.eligible] == ["a"]
    assert await connection.fetchval("SELECT priority FROM horsies_tasks") == 100


async def test_the_reader_cannot_write_though_the_operator_can(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "a")
    async with linked(database) as (link, statuses):
        await statuses.until(is_live)
        with pytest.raises(StatementRefused, match="read-only"):
            await link.read(lambda conn: conn.execute("DELETE FROM horsies_tasks"))
        assert link.status.state is LinkState.LIVE
        await link.act(lambda conn: conn.execute("DELETE FROM horsies_tasks"))
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 0


async def test_an_action_without_a_link_is_refused(database: str) -> None:
    link = DatabaseLink(choice(database), read_only=False, actor=ACTOR, clock=DatabaseClock())
    with pytest.raises(LinkDown, match="not connected"):
        await link.act(one)


async def test_the_operators_connection_is_opened_on_demand_and_replaced_when_it_is_lost(
    database: str, connection: asyncpg.Connection
) -> None:
    operators = f"{CONSOLE} AND application_name = 'horsies console operator'"
    async with linked(database) as (link, statuses):
        await statuses.until(is_live)
        assert await connection.fetchval(f"SELECT count(*) {operators}") == 0
        assert await link.act(one) == 1
        await connection.execute(f"SELECT pg_terminate_backend(pid) {operators}")
        await until(connection, f"NOT EXISTS (SELECT {operators})")
        with pytest.raises(LinkDown):
            await link.act(lambda conn: conn.fetchval("SELECT pg_terminate_backend(pg_backend_pid())"))
        assert await link.act(one) == 1


async def test_a_database_made_by_upstream_is_shown_and_says_what_it_lacks(
    empty_database: str,
) -> None:
    upstream = await asyncpg.connect(empty_database)
    await upstream.execute(UPSTREAM_SHAPE)
    there = await upstream.fetchval("SELECT count(*) FROM horsies_tasks")
    async with linked(empty_database) as (link, statuses), fed(link) as published:
        status = await statuses.until(lambda status: status.lacks)
        assert status.lacks[:-1] == (
            "no audit log of operator actions, and no undo",
            "queues cannot be paused",
            "workers cannot be drained",
            "no indexes to page by: large tables are slow",
        )
        assert "`horsies db upgrade` adopts them" in status.lacks[-1]
        snapshot = await published.until(lambda snapshot: snapshot.counts is not None)
        assert (len(snapshot.rows), snapshot.error) == (there, None)
    await upstream.close()


async def test_an_empty_database_names_the_command_that_fills_it_and_is_shown_once_it_ran(
    empty_database: str,
) -> None:
    async with linked(empty_database) as (link, _), fed(link) as published:
        snapshot = await published.until(lambda snapshot: snapshot.error is not None)
        assert "`horsies db init` creates them" in snapshot.error
        assert "\n" not in snapshot.error
        made = await asyncpg.connect(empty_database)
        await made.execute(UPSTREAM_SHAPE)
        await published.until(lambda snapshot: snapshot.error is None and not snapshot.loading)
        await made.close()


async def test_it_lets_go_of_every_connection(database: str, connection: asyncpg.Connection) -> None:
    async with linked(database) as (link, statuses), fed(link):
        await statuses.until(is_live)
        await link.act(one)
        assert await connection.fetchval(f"SELECT count(*) {CONSOLE}") == 3
    await until(connection, f"NOT EXISTS (SELECT {CONSOLE})")


async def test_no_read_of_the_feed_goes_through_the_table(database: str, connection: asyncpg.Connection) -> None:
    await history(connection, 20_000)
    await send(connection, *(f"new-{number}" for number in range(50)))
    await connection.execute("ANALYZE horsies_tasks")
    scans = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'horsies_tasks'"
    await connection.execute("SELECT pg_stat_force_next_flush()")
    before = await connection.fetchval(scans)
    async with linked(database) as (link, statuses), fed(link) as published:
        await statuses.until(is_live)
        await published.until(lambda snapshot: snapshot.counts is not None)
        await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED' WHERE id = 'new-7'")
        await published.until(lambda snapshot: "CANCELLED" in snapshot.counts.states)
    await until(connection, f"NOT EXISTS (SELECT {CONSOLE})")
    assert await connection.fetchval(scans) == before
