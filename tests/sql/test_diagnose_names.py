"""The names and times of the recovery report: what workers report of themselves, the next sweep, lengths of time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import asyncpg
import pytest
from diagnose_steps import insert, the_only
from hypothesis import given, strategies as st

from horsies import AppConfig, PostgresConfig, __version__
from horsies.config.contexts import DatabaseChoice
from horsies.config.recovery import RecoveryConfig
from horsies.domain.quantities import clock, span
from horsies.findings.cluster import Cluster, Consumers, SweepState
from horsies.findings.searches.waiting_tasks import UNKNOWN_NAME
from horsies.run.settings import Identity, WorkerSettings
from horsies.run.worker.in_flight import InFlightTasks
from horsies.run.worker.snapshots import Snapshots
from horsies.store.connect import open_database
from horsies.store.dedicated_connection import DedicatedConnection


@pytest.fixture
async def snapshots(database: str, connection: asyncpg.Connection) -> AsyncIterator[Snapshots]:
    """The snapshots of a worker without children that knows two tasks."""
    started_at = await connection.fetchval("SELECT now()")
    config = AppConfig(broker=PostgresConfig(database_url=database))
    async with open_database(DatabaseChoice(config.broker.url, "given by the test")) as opened:
        dedicated = DedicatedConnection(opened, "worker upkeep", behind_pooler=False)
        flow = SimpleNamespace(
            app=SimpleNamespace(config=config, tasks={"demo.sum": object(), "demo.add": object()}),
            settings=WorkerSettings("shop:app"),
            identity=Identity(),
            events=None,
            rules=None,
            children=[],
            tasks=InFlightTasks(),
        )
        yield Snapshots(dedicated, flow, SimpleNamespace(draining=False, queues=["default"]), started_at)
        await dedicated.close()


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


async def test_with_a_snapshot_a_worker_samples_the_queues_but_not_with_its_last(
    snapshots: Snapshots, connection: asyncpg.Connection
) -> None:
    await insert(connection, "waits")
    snapshots.is_last = True
    await snapshots.step()
    assert await connection.fetchval("SELECT count(*) FROM horsies_queue_samples") == 0
    snapshots.is_last = False
    await snapshots.step()
    assert await connection.fetchval("SELECT waiting FROM horsies_queue_samples WHERE queue_name = ''") == 1


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


NOW = datetime(2026, 11, 18, 12, 4, 31, tzinfo=UTC)


def cluster(*consumers: Consumers, sweeps: tuple[SweepState, ...] = ()) -> Cluster:
    return Cluster(NOW, consumers, {}, RecoveryConfig(), None, settings_differ=False, sweeps=sweeps, tables=frozenset())


def group(*queues: str, names: frozenset[str] | None = None, workers: int = 1, draining: int = 0) -> Consumers:
    return Consumers(frozenset(queues), {}, None, names, workers, draining)


@given(
    next_in_s=st.integers(0, 700_000).map(lambda ms: ms / 1000),
    interval_ms=st.integers(1_000, 600_000),
    after_s=st.integers(-100_000, 100_000),
)
def test_the_sweep_that_acts_is_the_first_one_after_the_moment(
    next_in_s: float, interval_ms: int, after_s: int
) -> None:
    known = cluster(sweeps=(SweepState(NOW, "w-1", interval_ms, next_in_s),))
    seconds = known.sweep_in(NOW + timedelta(seconds=after_s))
    assert seconds is not None
    assert seconds >= max(next_in_s, after_s) - 1e-6
    assert seconds == next_in_s or seconds < after_s + interval_ms / 1000 + 1e-6
    turns = (seconds - next_in_s) / (interval_ms / 1000)
    assert turns == pytest.approx(round(turns), abs=1e-6)
    assert known.sweep_in() == next_in_s


def test_without_a_sweep_or_a_living_worker_there_is_no_time_of_the_next() -> None:
    assert cluster().sweep_in(NOW) is None
    assert cluster(sweeps=(SweepState(NOW, "w-1", 30_000, None),)).sweep_in(NOW) is None


def test_a_name_may_run_where_a_worker_reports_it_or_reports_no_names() -> None:
    known = cluster(
        group("default", "mail", names=frozenset({"a"})),
        group("mail"),
        group("bulk", names=frozenset({"a"}), workers=2, draining=2),
    )
    assert known.served() == ["default", "mail"]
    assert known.known() == {"default": frozenset({"a"})}
    may_run = {(name, queue) for name in "ab" for queue in ("default", "mail", "bulk") if known.may_run(name, queue)}
    assert may_run == {("a", "default"), ("a", "mail"), ("b", "mail")}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0.9, "0s"), (59.9, "59s"), (60, "1m00s"), (372, "6m12s"), (3600, "1h00m"), (183_600, "2d3h")],
)
def test_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_time_is_told_in_utc_whatever_its_zone() -> None:
    assert clock(NOW.astimezone()) == "2026-11-18 12:04:31Z"
