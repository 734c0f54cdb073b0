"""PgBouncer in both modes, with a role whose default is REPEATABLE READ: claims under caps, workflows, sends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from chaos_scene import scene
from failover_pair import new_servers
from pgbouncer import pgbouncer

from horsies.config.app import PostgresConfig
from horsies.config.url import DatabaseUrl
from horsies.doctor.examine import examine
from horsies.store.connect import Database, transaction
from horsies.store.producer_client import Link
from horsies.store.schema import create

pytestmark = pytest.mark.chaos


@pytest.fixture(scope="module")
def strict_database() -> Iterator[str]:
    """A database on a server that the pooler's account may reach, with a stricter default isolation."""
    with new_servers(1) as (server,):
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'")
        yield server.url


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_a_worker_behind_a_pooler_keeps_its_caps_whatever_the_role_has(
    strict_database: str, tmp_path: Path, mode: str
) -> None:
    connection = await asyncpg.connect(strict_database)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await create(connection)
    await connection.close()
    with pgbouncer(strict_database, mode) as pooled:
        async with scene(
            strict_database, tmp_path, f"behind PgBouncer, {mode} mode", worker_url=pooled, TEST_CAP="3"
        ) as cluster:
            await cluster.worker("--processes", "4")
            await cluster.send("work", 30, 0.1)
            await cluster.settled(40)
            audit = await cluster.audit(cap=3)
            assert audit.violations == []


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_what_a_pooler_does_not_take_at_the_start_holds_in_transactions(strict_database: str, mode: str) -> None:
    with pgbouncer(strict_database, mode) as pooled:
        target = Database(DatabaseUrl.parse(pooled), "in a test", None)
        session = await target.connect("test", settings=[("lock_timeout", "300ms")])
        async with transaction(session):
            assert await session.fetchval("SHOW lock_timeout") == "300ms"
            assert await session.fetchval("SHOW idle_in_transaction_session_timeout") == "5s"
            assert await session.fetchval("SHOW transaction_isolation") == "read committed"
        assert await session.fetchval("SHOW lock_timeout") == "0"
        await session.close()
        link = await Link.open(PostgresConfig(database_url=pooled))
        assert await link.use(lambda connection: connection.fetchval("SELECT 1")) == 1
        await link.close()


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_the_doctor_tells_the_mode_and_leaves_nothing_on_the_backends(strict_database: str, mode: str) -> None:
    connection = await asyncpg.connect(strict_database)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await create(connection)
    with pgbouncer(strict_database, mode) as pooled:
        examination = await examine(Database(DatabaseUrl.parse(pooled), "in a test", None))
        settings = await connection.fetch("SELECT query FROM pg_stat_activity WHERE query ILIKE '%listen%'")
    await connection.close()
    found = [(line.verdict.value, line.evidence) for line in examination.lines if line.check == "pooler"]
    assert found[0][0] == ("ok" if mode == "session" else "warn")
    assert found[0][1].startswith(f"in {mode} mode: ")
    assert found[1][0] == "warn"  # of the role's default isolation
    assert {line.check for line in examination.lines if line.verdict.value != "ok"} == {"pooler"}
    assert len(settings) <= 1  # this query itself
