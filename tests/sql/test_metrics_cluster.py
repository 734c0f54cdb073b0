"""The exporter of the cluster: what it shows is what plain SQL counts, and a database that is away is no error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from database_server import url_with
from diagnose_steps import pause
from scraping import Samples, get, parsed, scrape, until, value
from view_steps import insert, snapshot

from horsies.config.contexts import DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.run.events import Events
from horsies.run.metrics import exporter as module
from horsies.run.metrics.exporter import MOST_QUEUES, Exporter
from horsies.run.metrics.http import Address

MADE_BY_UPSTREAM = Path(__file__).with_name("upstream_shape.sql").read_text("utf-8")


@asynccontextmanager
async def exporting(url: str) -> AsyncIterator[str]:
    """The address of an exporter for this database."""
    choice = DatabaseChoice(DatabaseUrl.parse(url), "of the test")
    exporter = Exporter(choice, Address("127.0.0.1", 0, "--port 0"), Events())
    await exporter.start()
    yield exporter.url
    await exporter.stop()


async def shown(url: str) -> Samples:
    async with exporting(url) as address:
        return await scrape(address)


def depth(samples: Samples, queue: str) -> list[float | None]:
    states = ("due", "later", "claimed", "running")
    return [value(samples, "horsies_queue_tasks", queue=queue, status=state) for state in states]


MAIL = {"processes": "4", "queues": "'{mail}'", "queue_max_concurrency": "'{\"mail\": 7}'"}


async def test_queues_workers_workflows_and_endings_are_shown(connection: asyncpg.Connection, database: str) -> None:
    for number in range(3):
        await insert(connection, f"d{number}", queue_name="'mail'", enqueued_at="now() - interval '90 s'")
    await insert(connection, "l", queue_name="'mail'", enqueued_at="now() + interval '1 h'")
    busy = {"queue_name": "'mail'", "claimed_by_worker_id": "'web-1'", "claimed_at": "now()"}
    await insert(connection, "r", status="'RUNNING'", started_at="now()", **busy)
    await insert(connection, "c", status="'CLAIMED'", enqueued_at="now()", **busy)
    await insert(connection, "f", status="'FAILED'", failed_at="now()", error_code="'TASK_INTERRUPTED'")
    await insert(connection, "e", status="'COMPLETED'", completed_at="now() - interval '1 min'")
    await insert(connection, "o", status="'COMPLETED'", completed_at="now() - interval '1 h'")
    await snapshot(connection, "web-1", 1, **MAIL)
    await snapshot(connection, "web-2", 20, **MAIL)
    await snapshot(connection, "web-3", 600, **MAIL)
    await pause(connection, "quiet")
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status) VALUES ('a', 'w', 'RUNNING'), ('b', 'w', 'RUNNING'),"
        " ('c', 'w', 'PAUSED'), ('d', 'w', 'COMPLETED')"
    )
    await connection.execute(
        "INSERT INTO horsies_sweep_state (sweep, ran_at, worker_id, interval_ms)"
        " VALUES ('runs 30000', now() - interval '100 s', 'w', 1), ('runs 60000', now() - interval '10 s', 'w', 1)"
    )
    samples = await shown(database)
    assert value(samples, "horsies_up") == 1
    assert value(samples, "horsies_schema_current") == 1
    assert depth(samples, "mail") == [3, 1, 1, 1]
    assert 90 <= (value(samples, "horsies_queue_oldest_due_age_seconds", queue="mail") or 0) < 120
    assert value(samples, "horsies_queue_workers", queue="mail") == 2
    assert value(samples, "horsies_queue_max_concurrency", queue="mail") == 7
    assert value(samples, "horsies_queue_paused", queue="mail") == 0
    assert value(samples, "horsies_queue_paused", queue="quiet") == 1
    states = {state: value(samples, "horsies_workers", state=state) for state in ("alive", "late", "lost", "died")}
    assert states == {"alive": 1, "late": 1, "lost": 1, "died": 0}
    assert value(samples, "horsies_cluster_processes") == 8
    assert [value(samples, "horsies_tasks_ended_5m", status=one) for one in ("completed", "failed")] == [1, 1]
    assert value(samples, "horsies_tasks_interrupted") == 1
    workflows = {one: value(samples, "horsies_workflows", status=one) for one in ("pending", "running", "paused")}
    assert workflows == {"pending": 0, "running": 2, "paused": 1}
    assert 10 <= (value(samples, "horsies_sweep_age_seconds", rule="runs") or 0) < 60


async def test_schedules_are_overdue_only_if_they_are_served_and_not_paused(
    connection: asyncpg.Connection, database: str
) -> None:
    samples = await shown(database)
    assert value(samples, "horsies_schedules") == 0
    await connection.execute(
        "INSERT INTO horsies_schedule_state (schedule_name, next_run_at) VALUES ('fine', now() + interval '1 h'),"
        " ('late', now() - interval '10 min'), ('paused', now() - interval '1 h'), ('over', now() - interval '9 d')"
    )
    await connection.execute(
        "INSERT INTO horsies_schedules (schedule_name, config_hash, definition, paused_at) VALUES"
        " ('late', 'h', '{}', NULL), ('paused', 'h', '{}', now())"
    )
    assert value(await shown(database), "horsies_schedules_overdue") == 2  # nothing tells what is over
    await connection.execute(
        "INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, seen_at) VALUES"
        " ('s1', 'web', 1, '{fine,late,paused}', '1', now()), ('s2', 'web', 2, '{fine}', '1', now() - interval '1 h')"
    )
    samples = await shown(database)
    names = ("horsies_schedules", "horsies_schedules_paused", "horsies_schedules_overdue", "horsies_schedulers")
    assert [value(samples, name) for name in names] == [4, 1, 1, 1]
    assert 600 <= (value(samples, "horsies_schedule_overdue_seconds") or 0) < 700


async def test_queues_of_any_name_are_shown_up_to_a_bound(connection: asyncpg.Connection, database: str) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, enqueued_at)"
        " SELECT 't' || n, 'demo.add', 'q\"' || n, now() FROM generate_series(1, $1) n",
        MOST_QUEUES + 50,
    )
    samples = await shown(database)
    queues = {dict(labels)["queue"] for name, labels in samples if name == "horsies_queue_tasks"}
    assert len(queues) == MOST_QUEUES + 1
    assert depth(samples, "other") == [50, 0, 0, 0]


async def test_a_database_of_upstream_and_one_without_tables_are_shown_as_they_are(
    empty_database: str,
) -> None:
    samples = await shown(empty_database)
    assert [value(samples, "horsies_up"), value(samples, "horsies_schema_current")] == [1, 0]
    maker = await asyncpg.connect(empty_database)
    await maker.execute(MADE_BY_UPSTREAM)
    waiting = await maker.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'PENDING'")
    await maker.close()
    samples = await shown(empty_database)
    assert [value(samples, "horsies_up"), value(samples, "horsies_schema_current")] == [1, 0]
    due = sum(
        number
        for (name, labels), number in samples.items()
        if name == "horsies_queue_tasks" and dict(labels)["status"] in ("due", "later")
    )
    assert due == waiting
    assert value(samples, "horsies_schedules") is None


async def test_a_role_that_may_only_read_is_enough(connection: asyncpg.Connection, database: str, role: str) -> None:
    await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    await insert(connection, "d", queue_name="'mail'", enqueued_at="now()")
    assert depth(await shown(url_with(database, role=role)), "mail") == [1, 0, 0, 0]


async def test_many_scrapers_cost_one_read(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    real = module.exported

    async def counted(conn: asyncpg.Connection) -> module.Exported:
        nonlocal reads
        reads += 1
        return await real(conn)

    monkeypatch.setattr(module, "exported", counted)
    async with exporting(database) as url:
        pages = await asyncio.gather(*(scrape(url) for _ in range(10)))
        assert all(value(page, "horsies_up") == 1 for page in pages)
        await scrape(url)
        assert reads == 1
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    async with exporting(database) as url:
        await scrape(url)
        await scrape(url)
        assert reads == 3


async def test_a_database_that_is_away_or_hangs_is_up_0_and_comes_back(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    monkeypatch.setattr(module, "_WITHIN_S", 0.5)
    async with BlackholeProxy(database) as proxy, exporting(proxy.url) as url:
        assert value(await scrape(url), "horsies_up") == 1
        proxy.silence()
        with caplog.at_level(logging.WARNING, "horsies.worker"):
            samples = await scrape(url)
            assert value(samples, "horsies_up") == 0
            assert value(samples, "horsies_schema_current") is None
            assert (await get(f"{url}/readyz"))[0] == 503
            assert await get(f"{url}/healthz") == (200, "alive\n")
        assert [record.event for record in caplog.records] == ["database unavailable"]
        proxy.restore()
        proxy.cut()
        await until(url, lambda samples: value(samples, "horsies_up") == 1)
        assert await get(f"{url}/readyz") == (200, "ready\n")


async def test_a_locked_table_is_up_0_within_the_time_limit(connection: asyncpg.Connection, database: str) -> None:
    async with exporting(database) as url, connection.transaction():
        await connection.execute("LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE")
        status, text = await get(f"{url}/metrics")
        assert status == 200
        assert value(parsed(text), "horsies_up") == 0
        assert "lock timeout" in (await get(f"{url}/readyz"))[1]
