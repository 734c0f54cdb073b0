"""A primary crashes or hangs and a standby takes over: workers and producers reconnect, and losses are reported."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest
from chaos_scene import scene
from failover_pair import Pair, failover_pair, new_servers
from forked_commands import HORSIES

import horsies
from horsies.config.app import PostgresConfig
from horsies.config.url import DatabaseUrl
from horsies.store.connect import Database
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.producer_client import Link
from horsies.store.schema import create

pytestmark = pytest.mark.chaos

MOVED_WITHIN_S = 15.0
UNTIL_PROMOTED_S = 6.0
LIVING = "SELECT count(*) FROM horsies_tasks WHERE status IN ('PENDING', 'CLAIMED', 'RUNNING')"


async def prepared(pair: Pair) -> None:
    connection = await asyncpg.connect(pair.primary.url)
    await create(connection)
    await connection.close()


async def ask_until_answered(link: Link) -> None:
    """As the broker does: transient errors are retried."""
    while True:
        with suppress(*CONNECTION_ERRORS):
            assert not await link.use(lambda connection: connection.fetchval("SELECT pg_is_in_recovery()"))
            return
        await asyncio.sleep(0.2)


async def until(connection: asyncpg.Connection, question: str, patience_s: float) -> float:
    """Wait until the query returns 0, and return how long that took."""
    began = time.monotonic()
    async with asyncio.timeout(patience_s):
        while await connection.fetchval(question):  # noqa: ASYNC110 - the database has no event for this
            await asyncio.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.parametrize("fault", ["crash", "hang"])
async def test_workers_and_producers_reach_the_standby_that_was_promoted(tmp_path: Path, fault: str) -> None:
    with failover_pair(synchronous=True) as pair:
        await prepared(pair)
        async with scene(
            pair.primary.url, tmp_path, f"failover, synchronous, {fault}", worker_url=pair.url, TEST_STALE_MS="60000"
        ) as cluster:
            await cluster.worker("--processes", "4")
            labels = await cluster.send("work", 40, 0.5)
            await cluster.begun(labels[:8])
            link = await Link.open(PostgresConfig(database_url=pair.url))
            assert await link.use(lambda connection: connection.fetchval("SELECT 1")) == 1
            getattr(pair.primary, fault)()
            asking = asyncio.ensure_future(ask_until_answered(link))
            await asyncio.sleep(UNTIL_PROMOTED_S)
            pair.standby.promote()
            promoted = time.monotonic()
            await asking
            producer_s = time.monotonic() - promoted
            fresh = await cluster.worker("--processes", "2")  # ready within 20 s, or this fails
            cluster.connection.terminate()
            cluster.connection = await asyncpg.connect(pair.standby.url)
            # A formerly synchronous standby may be waited for although it no longer follows.
            await cluster.connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            await cluster.connection.execute("SELECT pg_reload_conf()")
            moved = (
                "SELECT 4 - count(DISTINCT application_name) FROM pg_stat_activity"
                " WHERE application_name IN ('horsies worker claim', 'horsies worker finish', 'horsies worker beat',"
                " 'horsies worker listen')"
            )
            await until(cluster.connection, moved, MOVED_WITHIN_S)
            await until(cluster.connection, LIVING, 60)
            done_s = time.monotonic() - promoted
            print(f"\n{fault}: after the promotion the producer took {producer_s:.1f} s, the tasks {done_s:.1f} s")
            await link.close()
            assert producer_s < 10
            assert fresh.poll() is None
            audit = await cluster.audit()
            await cluster.connection.close()
            assert audit.violations == []


async def test_outcomes_that_an_asynchronous_standby_never_got_are_stored_again(tmp_path: Path) -> None:
    with failover_pair(synchronous=False) as pair:
        await prepared(pair)
        async with scene(
            pair.primary.url, tmp_path, "failover, asynchronous, 3 s behind", worker_url=pair.url, TEST_STALE_MS="60000"
        ) as cluster:
            await cluster.worker("--processes", "15")
            labels = await cluster.send("work", 15, 3.0, retried=False)
            await cluster.begun(labels)
            await asyncio.sleep(0.5)  # the standby has them RUNNING
            pair.delay_standby()
            await cluster.settled(20)
            assert not await cluster.connection.fetchval(LIVING)
            pair.primary.crash()
            pair.standby.promote()
            cluster.connection.terminate()
            cluster.connection = await asyncpg.connect(pair.standby.url)
            await until(cluster.connection, LIVING, 30)
            rows = await cluster.connection.fetch("SELECT status, error_code FROM horsies_tasks")
            assert [tuple(row) for row in rows] == [("COMPLETED", None)] * 15
            assert [len(cluster.runs()[label]) for label in labels] == [1] * 15
            told = [line for line in cluster.log(cluster.workers[0]) if "lost the commit" in str(line)]
            assert len(told) == 15
            audit = await cluster.audit()
            await cluster.connection.close()
            assert audit.violations == []


ROLES = ("worker advance", "worker listen", "send", "console", "cli")
KEEPALIVES = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


async def test_each_side_of_every_session_notices_that_the_other_is_gone() -> None:
    """All sessions are opened by Database.connect(); over a Unix socket the server has no such settings."""
    with new_servers(1) as (server,):
        database = Database(DatabaseUrl.parse(server.url), "in a test", None)
        for role in ROLES:
            async with database.connected(role) as connection:
                assert {name: await connection.fetchval(f"SHOW {name}") for name in KEEPALIVES} == KEEPALIVES
                own = connection._transport.get_extra_info("socket")
                assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000


def test_no_other_place_opens_a_session() -> None:
    """Otherwise a session might lack these settings."""
    root = Path(horsies.__file__).parents[2]
    calls = [
        str(path.relative_to(root))
        for package in ("worker/horsies", "horsies_tui")
        for path in (root / package).rglob("*.py")
        if re.search(r"asyncpg\.(connect|create_pool)\(|psycopg\.connect\(", path.read_text())
    ]
    assert calls == ["worker/horsies/store/connect.py"]


async def test_the_command_line_reaches_the_host_that_answers() -> None:
    with failover_pair(synchronous=False) as pair:
        await prepared(pair)
        pair.primary.hang()
        pair.standby.promote()
        for command in (["tasks", "ls"], ["workers", "ls"], ["status"]):
            began = time.monotonic()
            given = {**os.environ, "HORSIES_DATABASE_URL": pair.url}
            done = await asyncio.create_subprocess_exec(HORSIES, *command, env=given, stdout=subprocess.DEVNULL)
            assert await done.wait() == 0
            assert time.monotonic() - began < 8
