"""The checks of `horsies doctor` that are about a whole server, on a server that is made wrong on purpose."""

from __future__ import annotations

import asyncio
import re

import asyncpg
import pytest
from doctor_steps import examined, line, lines, mend
from own_server import own_server
from until import until

from horsies.config.app import AppConfig, PostgresConfig
from horsies.doctor import CheckVerdict
from horsies.doctor.checks import connections, replication, transactions
from horsies.doctor.examine import database_findings
from horsies.findings import Severity

OK, WARN, FAIL, UNKNOWN = CheckVerdict.OK, CheckVerdict.WARN, CheckVerdict.FAIL, CheckVerdict.UNKNOWN


async def test_a_disk_that_fills_is_warned_of_before_the_server_stops(
    embedded_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = embedded_database
    gb = 1_073_741_824
    assert re.fullmatch(r"[\d.]+ .B of [\d.]+ .B free \(\d+%\) where /.+ is", (await line(url, "disk")).evidence)
    free = {
        (200, 30): OK, (200, 19): WARN, (200, 4.9): FAIL,
        (10_000, 21): OK, (10_000, 19): WARN, (10_000, 4): FAIL, (4, 1.1): OK, (4, 0.9): WARN, (4, 0.2): FAIL,
    }  # fmt: skip
    for (total, left), verdict in free.items():
        usage = (total * gb, (total - left) * gb, int(left * gb))
        monkeypatch.setattr(replication, "disk_usage", lambda _place, usage=usage: usage)
        assert (await line(url, "disk")).verdict is verdict, (total, left)
    assert "204.8 MB of 4.0 GB free (5%) where" in (await line(url, "disk")).evidence
    assert [(one.name, one.prediction.severity) for one in database_findings(await examined(url))] == [
        ("disk", Severity.NEEDS_ACTION)
    ]
    with monkeypatch.context() as other:
        other.setattr(replication, "_STARTED_WITHIN_S", -2.0)  # as of another server with this directory and port
        found = await line(url, "disk")
    assert (found.verdict, found.evidence.partition(":")[0]) == (UNKNOWN, "free space cannot be read from here")
    with monkeypatch.context() as other:
        other.setattr(replication, "_LOCAL", ())
        found = await line(url, "disk")
    assert (found.verdict, found.evidence.partition(": ")[2]) == (UNKNOWN, "the server is on another host")


@pytest.mark.chaos  # a server of its own; each check by itself: test_doctor_checks.py
async def test_a_server_that_is_wrong_in_many_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, because a server takes a second to start."""
    settings = {
        "max_connections": "20",
        "max_prepared_transactions": "2",
        "archive_mode": "on",
        "max_notify_queue_pages": "64",
    }
    async with own_server(**settings) as server:
        connection = await asyncpg.connect(server.url)
        await connections_run_out(server.url)
        await a_slot_without_a_consumer(connection, server.url, monkeypatch)
        await a_prepared_transaction(connection, server.url, monkeypatch)
        await an_archive_that_refuses(connection, server.url)
        await autovacuum_is_off(connection, server.url)
        await a_listener_stands_still(connection, server.url)
        await commits_wait(connection, server.url, monkeypatch)
        await connection.close()


async def connections_run_out(url: str) -> None:
    assert (await line(url, "connections")).verdict is OK
    large = await line(url, "connections", AppConfig(broker=PostgresConfig(database_url=url)))
    assert (large.verdict, "may open up to 61" in large.evidence) == (WARN, True)
    held = [await asyncpg.connect(url) for _ in range(12)]  # of 17; and one each of the test and the doctor
    assert (await line(url, "connections")).verdict is WARN
    held += [await asyncpg.connect(url) for _ in range(3)]
    found = await line(url, "connections")
    assert found.verdict is FAIL
    assert found.evidence.startswith("17 of 17 in use (20 less 3 reserved), 1 by us: 0 workers")
    assert found.remedy is not None
    assert found.remedy.startswith("ALTER SYSTEM SET max_connections = 50")
    for each in held:
        await each.close()


async def a_slot_without_a_consumer(connection: asyncpg.Connection, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await connection.execute("SELECT pg_create_physical_replication_slot('gone', true)")
    found = await line(url, "replication slots")
    assert found.verdict is WARN
    assert found.evidence.startswith("gone (physical) is inactive and keeps ")
    monkeypatch.setattr(replication, "MUCH_WAL", 0)
    await connection.execute("CREATE TABLE grows AS SELECT generate_series(1, 1000)")
    assert (await line(url, "replication slots")).verdict is FAIL
    await mend(connection, found)
    assert (await line(url, "replication slots")).verdict is OK


async def a_prepared_transaction(connection: asyncpg.Connection, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await connection.execute("BEGIN; CREATE TABLE half (id integer); PREPARE TRANSACTION 'it''s half'")
    assert (await line(url, "prepared transactions")).verdict is OK
    monkeypatch.setattr(transactions, "WARN_AFTER_S", 0.0)
    found = await line(url, "prepared transactions")
    assert found.verdict is WARN
    assert "of horsies was prepared 0s ago: it holds back vacuum and keeps its locks" in found.evidence
    await mend(connection, found)
    monkeypatch.undo()
    assert (await line(url, "prepared transactions")).verdict is OK


async def an_archive_that_refuses(connection: asyncpg.Connection, url: str) -> None:
    assert (await line(url, "WAL")).verdict is OK
    await configure(connection, "archive_command", "false")
    await connection.execute("SELECT pg_switch_wal()")
    await until(connection, "(SELECT failed_count > 0 FROM pg_stat_archiver)")
    found = (await lines(url, "WAL"))[0]
    assert found.verdict is FAIL
    assert re.match("archiving has failed for [0-9]s, last 0{7}", found.evidence)
    await configure(connection, "archive_command", "true")
    await until(connection, "(SELECT archived_count > 0 FROM pg_stat_archiver)")
    assert (await line(url, "WAL")).verdict is OK


async def configure(connection: asyncpg.Connection, name: str, value: str) -> None:
    await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await connection.execute("SELECT pg_reload_conf()")
    await takes_effect(connection, name, value)


async def takes_effect(connection: asyncpg.Connection, name: str, value: str) -> None:
    """A session reads the settings anew between two commands, and not within one."""
    for _ in range(1_000):
        if await connection.fetchval("SELECT current_setting($1)", name) == value:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{name} is not {value}")


async def autovacuum_is_off(connection: asyncpg.Connection, url: str) -> None:
    await configure(connection, "autovacuum", "off")
    found = await line(url, "vacuum")
    assert found.verdict is FAIL
    assert found.evidence == "autovacuum is off: dead rows stay, and every claim gets slower"
    await mend(connection, found)
    await takes_effect(connection, "autovacuum", "on")
    assert (await line(url, "vacuum")).verdict is OK


async def a_listener_stands_still(connection: asyncpg.Connection, url: str) -> None:
    stands = await asyncpg.connect(url)
    await stands.execute("LISTEN x")
    await stands.execute("BEGIN")
    verdicts = []
    for _ in range(2):
        for page in range(20):
            await connection.execute("SELECT pg_notify('x', $1)", f"{page}".rjust(7_900))
        verdicts.append((await line(url, "notification queue")).verdict)
    assert verdicts == [WARN, WARN]
    await stands.close()
    assert (await line(url, "notification queue")).verdict is OK


async def commits_wait(connection: asyncpg.Connection, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that waits for a synchronous standby, with a notification in it, lets no other notification through."""
    assert (await line(url, "notifications")).verdict is OK
    await configure(connection, "synchronous_standby_names", "gone")
    waits = await asyncpg.connect(url)
    commit = asyncio.create_task(waits.execute("CREATE TABLE written (); NOTIFY x"))
    await until(connection, "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')")
    with monkeypatch.context() as soon:
        soon.setattr(connections, "ANSWER_WITHIN_S", 0.5)
        found = await line(url, "notifications")
    assert found.verdict is FAIL
    assert "did not arrive within 0.5 s" in found.evidence
    await configure(connection, "synchronous_standby_names", "")
    await commit
    await waits.close()
    assert [each.verdict for each in await lines(url, "notifications")] == [OK]
