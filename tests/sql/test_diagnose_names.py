"""Workers report their task names and version in their snapshots, and the report uses them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import asyncpg
import pytest
from diagnose_steps import insert, the_only

from horsies import AppConfig, PostgresConfig, __version__
from horsies.config.contexts import DatabaseChoice
from horsies.findings.searches.waiting import UNKNOWN_NAME
from horsies.run.settings import Identity, WorkerSettings
from horsies.run.worker.in_flight import InFlightTasks
from horsies.run.worker.snapshots import Snapshots
from horsies.store.connect import open_database
from horsies.store.dedicated_connection import DedicatedConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def snapshots(database: str, connection: asyncpg.Connection) -> AsyncIterator[Snapshots]:
    """The snapshots of a worker without children that knows two tasks."""
    started_at = await connection.fetchval("SELECT now()")
    config = AppConfig(broker=PostgresConfig(database_url=database))
    async with open_database(DatabaseChoice(config.broker.url, "given by the test")) as opened:
        lane = DedicatedConnection(opened, "worker upkeep", behind_pooler=False)
        yield Snapshots(
            config,
            WorkerSettings("shop:app"),
            Identity(),
            lane,
            SimpleNamespace(children=[], tasks=InFlightTasks()),
            SimpleNamespace(draining=False, queues=["default"]),
            started_at,
            {"demo.sum": object(), "demo.add": object()},
        )
        await lane.close()


async def test_names_are_in_the_first_snapshot_and_in_every_twelfth(
    snapshots: Snapshots, connection: asyncpg.Connection
) -> None:
    for _ in range(25):
        await snapshots.step()
    rows = await connection.fetch("SELECT task_names, horsies_version FROM horsies_worker_states ORDER BY id")
    assert {row["horsies_version"] for row in rows} == {__version__}
    told = [number for number, row in enumerate(rows) if row["task_names"] is not None]
    assert told == [0, 12, 24]
    assert rows[0]["task_names"] == ["demo.add", "demo.sum"]


async def test_a_snapshot_that_could_not_be_written_is_made_up_for(
    snapshots: Snapshots, connection: asyncpg.Connection
) -> None:
    await connection.execute("ALTER TABLE horsies_worker_states RENAME TO elsewhere")
    with pytest.raises(asyncpg.UndefinedTableError):
        await snapshots.step()
    await connection.execute("ALTER TABLE elsewhere RENAME TO horsies_worker_states")
    await snapshots.step()
    assert await connection.fetchval("SELECT task_names FROM horsies_worker_states") == ["demo.add", "demo.sum"]


async def test_the_report_knows_by_them_what_no_worker_can_run(
    snapshots: Snapshots, connection: asyncpg.Connection
) -> None:
    await snapshots.step()
    await snapshots.step()
    await insert(connection, "known", "known-too", task_name="'demo.sum'")
    await insert(connection, "unknown", task_name="'demo.minus'")
    finding = await the_only(connection, UNKNOWN_NAME)
    assert (finding.name, finding.ids) == ("demo.minus", ("unknown",))
