"""What the console shows is true, or is shown as old with its cause, whatever happens to the database.

The checker of `truth_steps.py` compares the figures on the screen with those that SQL finds on another connection: one
that is older than its pace and 3 s must not look current.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from database_server import url_with
from failover_pair import failover_pair
from truth_steps import SCREENS, SENT, checked, happens

from horsies.store.embedded import EmbeddedServer
from horsies.store.schema import create
from horsies_tui.feed import clock

pytestmark = [pytest.mark.chaos, pytest.mark.parametrize("screen", SCREENS)]

MODES: Final = (
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
)
LOCK: Final = "LOCK TABLE {} IN {} MODE"
TABLES: Final = "SELECT relname FROM pg_class WHERE relname LIKE 'horsies\\_%' AND relkind = 'r' ORDER BY relname"
WAITS: Final = """
SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
                WHERE NOT granted AND application_name LIKE 'horsies console%')
"""
SILENT: Final = ("the server does not answer", "no answer from", "the connection was lost")
FULL: Final = ("has no free connection", "too many connections")


@pytest.fixture
async def psql(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database, server_settings={"application_name": "psql"})
    yield connected
    await connected.close()


@pytest.mark.parametrize("mode", MODES)
async def test_a_table_is_locked(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection, screen: str, mode: str
) -> None:
    """Only what keeps the console from reading makes its figures old, and then its session is named."""
    async with checked(database, screen, database) as checker:
        for row in await connection.fetch(TABLES):
            async with psql.transaction():
                await psql.execute(LOCK.format(row["relname"], mode))
                stops_reads = mode == "ACCESS EXCLUSIVE"
                waits = await happens(lambda: connection.fetchval(WAITS), 6.0 if stops_reads else 1.0)
                assert stops_reads or not waits
                if waits:
                    await checker.names(f"blocked by pid {psql.get_server_pid()} psql")
            await checker.is_current()


async def test_a_table_is_locked_for_three_seconds_again_and_again(
    database: str, psql: asyncpg.Connection, screen: str
) -> None:
    async with checked(database, screen, database) as checker:
        for _ in range(4):
            async with psql.transaction():
                await psql.execute(LOCK.format("horsies_tasks", "ACCESS EXCLUSIVE"))
                await psql.execute(SENT)
                await psql.execute("SELECT pg_sleep(3)")
            await asyncio.sleep(1.0)
        assert checker.marked_old


async def test_the_role_has_timeouts_of_its_own(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection, role: str, screen: str
) -> None:
    """They end reads before the console does, and a lock is the cause all the same."""
    await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        await connection.execute(f"ALTER ROLE {role} SET {name} = '100ms'")
    async with checked(url_with(database, role=role), screen, database) as checker:
        async with psql.transaction():
            await psql.execute(LOCK.format("horsies_tasks", "ACCESS EXCLUSIVE"))
            await checker.names(f"blocked by pid {psql.get_server_pid()} psql")
            await checker.goes_on(6.0)
        await checker.is_current()


@pytest.mark.parametrize("delay_s", [0.02, 0.1, 0.3])
async def test_every_read_is_slow(database: str, screen: str, delay_s: float) -> None:
    async with BlackholeProxy(database) as proxy, checked(proxy.url, screen, database) as checker:
        proxy.delay_s = delay_s
        await checker.goes_on(20.0)
        proxy.delay_s = 0.0


async def test_no_connection_is_left_to_ask_for_the_cause(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection, role: str, screen: str
) -> None:
    await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    async with checked(url_with(database, role=role), screen, database) as checker:
        await connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
        async with psql.transaction():
            await psql.execute(LOCK.format("horsies_tasks", "ACCESS EXCLUSIVE"))
            await checker.names(*FULL)
        await checker.is_current()
        # The same without the connections that there were.
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'horsies console%'"
        )
        await checker.names(*FULL)
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


async def test_the_server_is_frozen(embedded_server: EmbeddedServer, embedded_database: str, screen: str) -> None:
    """Its sessions and its postmaster stop, as in a virtual machine that is moved; the writer's session goes on."""
    async with checked(embedded_database, screen, embedded_database) as checker:
        observer = await asyncpg.connect(embedded_database)
        sessions = await observer.fetch(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'horsies console%'"
        )
        postmaster = int((embedded_server.place.data / "postmaster.pid").read_text().splitlines()[0])
        with frozen([*(row["pid"] for row in sessions), postmaster]):
            await checker.names(*SILENT)
            await checker.goes_on(5.0)
        await observer.close()


async def test_the_network_falls_silent(database: str, screen: str) -> None:
    async with BlackholeProxy(database) as proxy, checked(proxy.url, screen, database) as checker:
        proxy.silence()
        await checker.names(*SILENT)
        await checker.goes_on(5.0)
        proxy.restore()


STANDBY: Final = {
    "its replay is paused": ("SELECT pg_wal_replay_pause()", "SELECT pg_wal_replay_resume()"),
    "it replays later": (
        "ALTER SYSTEM SET recovery_min_apply_delay = '8s'",
        "ALTER SYSTEM SET recovery_min_apply_delay = '0'",
    ),
    "it receives nothing": ("ALTER SYSTEM SET primary_conninfo = ''", "ALTER SYSTEM SET primary_conninfo = '{}'"),
}
"""What makes it lag, and its end, for which the setting of before is filled in."""


@pytest.mark.parametrize("lag", STANDBY)
async def test_a_standby_lags(screen: str, lag: str) -> None:
    """The console reads a standby, which answers at once, with what was true on its primary some time ago."""
    with failover_pair(synchronous=False) as pair:
        primary, standby = await asyncpg.connect(pair.primary.url), await asyncpg.connect(pair.standby.url)
        await create(primary)
        source = (await standby.fetchval("SHOW primary_conninfo")).replace("'", "''")
        begins, ends = (change.format(source) for change in STANDBY[lag])
        async with checked(pair.standby.url, screen, pair.primary.url) as checker:
            await standby.execute(begins)
            await standby.execute("SELECT pg_reload_conf()")
            await checker.names("standby")
            await checker.goes_on(5.0)
            await standby.execute(ends)
            await standby.execute("SELECT pg_reload_conf()")
        await primary.close()
        await standby.close()


@pytest.mark.parametrize("jump", [timedelta(hours=3), timedelta(days=-2)])
async def test_the_clock_of_the_consoles_machine_jumps(
    database: str, screen: str, jump: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Jumped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + jump

    async with checked(database, screen, database) as checker:
        monkeypatch.setattr(clock, "datetime", Jumped)
        await checker.goes_on(8.0)
        shown = checker.text.splitlines()[0].split()[-1]
        assert any(f"{datetime.now(UTC) - timedelta(seconds=ago):%H:%M:%SZ}" == shown for ago in range(-5, 30))
