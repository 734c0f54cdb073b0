"""One worker sweeps at a time, none is special, and a lost one is replaced after one interval at most."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from lifecycle_steps import running, statuses

from horsies.config.recovery import RecoveryConfig
from horsies.run.events import Events
from horsies.run.settings import Identity
from horsies.run.worker.sweeper import Election, PeriodicJob, Recovery, Retention, rules_of
from horsies.store.worker_states import elect, write_report

MINUTE_MS = 60_000


async def age(conn: asyncpg.Connection, seconds: float) -> None:
    await conn.execute("UPDATE horsies_sweep_state SET ran_at = ran_at - $1 * interval '1 s'", seconds)


async def state(conn: asyncpg.Connection, sweep: str = "recovery") -> asyncpg.Record:
    return await conn.fetchrow("SELECT * FROM horsies_sweep_state WHERE sweep = $1", sweep)


async def test_the_first_to_ask_is_elected_and_others_learn_when_it_is_due(
    connection: asyncpg.Connection,
) -> None:
    assert await elect(connection, "recovery", "a", MINUTE_MS) is None
    row = await state(connection)
    assert (row["worker_id"], row["interval_ms"], row["report"]) == ("a", MINUTE_MS, None)
    assert await elect(connection, "recovery", "b", MINUTE_MS) == pytest.approx(60, abs=1)
    assert await elect(connection, "recovery", "a", MINUTE_MS) == pytest.approx(60, abs=1)
    assert await state(connection) == row


async def test_the_first_worker_to_ask_after_the_interval_is_elected_next(connection: asyncpg.Connection) -> None:
    await elect(connection, "recovery", "a", MINUTE_MS)
    await age(connection, 45)
    assert await elect(connection, "recovery", "b", MINUTE_MS) == pytest.approx(15, abs=1)
    await age(connection, 15)
    assert await elect(connection, "recovery", "b", MINUTE_MS) is None
    assert (await state(connection))["worker_id"] == "b"
    assert await elect(connection, "recovery", "a", MINUTE_MS) == pytest.approx(60, abs=1)


async def test_a_shorter_interval_of_one_worker_is_kept_by_that_worker(connection: asyncpg.Connection) -> None:
    await elect(connection, "recovery", "slow", 10 * MINUTE_MS)
    await age(connection, 61)
    assert await elect(connection, "recovery", "quick", MINUTE_MS) is None


async def test_sweeps_of_different_kinds_have_nothing_to_do_with_each_other(connection: asyncpg.Connection) -> None:
    assert await elect(connection, "recovery", "a", MINUTE_MS) is None
    assert await elect(connection, "retention", "b", MINUTE_MS) is None


async def test_a_clock_that_was_set_back_does_not_stop_the_sweeps(connection: asyncpg.Connection) -> None:
    await elect(connection, "recovery", "a", MINUTE_MS)
    await age(connection, -3_600)
    assert await elect(connection, "recovery", "b", MINUTE_MS) is None
    assert await elect(connection, "recovery", "a", MINUTE_MS) == pytest.approx(60, abs=1)


@pytest.mark.parametrize("before", ["no worker has swept yet", "it is due again"])
async def test_of_many_who_ask_at_once_one_is_elected(
    database: str, connection: asyncpg.Connection, before: str
) -> None:
    if before == "it is due again":
        await elect(connection, "recovery", "old", MINUTE_MS)
        await age(connection, 60)
    workers = [await asyncpg.connect(database) for _ in range(8)]
    asked = await asyncio.gather(
        *(elect(each, "recovery", f"w{number}", MINUTE_MS) for number, each in enumerate(workers))
    )
    assert asked.count(None) == 1
    for each in workers:
        await each.close()


async def test_who_comes_second_while_the_first_has_not_committed_does_not_sweep(
    database: str, connection: asyncpg.Connection
) -> None:
    await elect(connection, "recovery", "old", MINUTE_MS)
    await age(connection, 60)
    first, second = await asyncpg.connect(database), await asyncpg.connect(database)
    async with first.transaction():
        assert await elect(first, "recovery", "first", MINUTE_MS) is None
        waiting = asyncio.create_task(elect(second, "recovery", "second", MINUTE_MS))
        while not await connection.fetchval("SELECT pg_blocking_pids($1) <> '{}'", second.get_server_pid()):
            assert not waiting.done()
    assert await waiting is not None
    assert (await state(connection))["worker_id"] == "first"
    await first.close()
    await second.close()


async def test_asking_too_early_writes_nothing(connection: asyncpg.Connection) -> None:
    await elect(connection, "recovery", "a", MINUTE_MS)
    before = await connection.fetchrow("SELECT xmax, ctid::text FROM horsies_sweep_state")
    await elect(connection, "recovery", "b", MINUTE_MS)
    assert await connection.fetchrow("SELECT xmax, ctid::text FROM horsies_sweep_state") == before


async def test_a_report_is_written_by_the_elected_worker(connection: asyncpg.Connection) -> None:
    await elect(connection, "recovery", "a", MINUTE_MS)
    await write_report(connection, "recovery", "a", {"failed": 3})
    await write_report(connection, "recovery", "b", {"failed": 4})
    assert json.loads((await state(connection))["report"]) == {"failed": 3}


class OneConnection:
    """A dedicated connection without a worker."""

    def __init__(self, database: str) -> None:
        self._database = database
        self.opened = 0
        self.connection: asyncpg.Connection | None = None

    async def ready(self) -> asyncpg.Connection:
        if self.connection is None or self.connection.is_closed():
            self.connection = await asyncpg.connect(self._database)
            self.opened += 1
        return self.connection

    def acquire(self) -> Any:
        return self

    async def __aenter__(self) -> asyncpg.Connection:
        return await self.ready()

    async def __aexit__(self, *_: object) -> None:
        """Kept."""

    async def close(self) -> None:
        if self.connection is not None:
            await self.connection.close()


class Counted:
    """A job that can be set to fail."""

    def __init__(self, name: str = "recovery", interval_ms: int = MINUTE_MS) -> None:
        self.name = name
        self.interval_ms = interval_ms
        self.done = 0
        self.fails = False

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        if self.fails:
            raise ConnectionResetError("gone")
        self.done += 1
        return {"done": self.done}


def election(made: list[OneConnection], *jobs: PeriodicJob) -> Election:
    upkeep, dedicated = made
    return Election("recovery", jobs, Identity(), upkeep, dedicated)  # type: ignore[arg-type]


@pytest.fixture
async def made(database: str) -> AsyncIterator[list[OneConnection]]:
    opened = [OneConnection(database) for _ in range(4)]
    yield opened
    for dedicated in opened:
        await dedicated.close()


async def test_each_worker_looks_again_when_the_chore_is_due_by_the_table(
    connection: asyncpg.Connection, made: list[OneConnection]
) -> None:
    first, second = Counted(), Counted()
    one, two = election(made[:2], first), election(made[2:], second)
    await one.step()
    assert one.interval_s == pytest.approx(60, abs=1)
    await age(connection, 40)
    await two.step()
    assert (first.done, second.done) == (1, 0)
    assert 19 <= two.interval_s <= 21.5
    await age(connection, 20)
    await two.step()
    assert (first.done, second.done) == (1, 1)
    assert json.loads((await state(connection))["report"]) == {"done": 1}


async def test_a_worker_holds_the_extra_connection_only_while_it_is_elected(made: list[OneConnection]) -> None:
    counting = election(made[:2], Counted())
    await counting.step()
    await counting.step()
    assert made[1].opened == 1
    assert made[1].connection is not None
    assert made[1].connection.is_closed()


async def test_a_sweep_that_failed_goes_on_at_the_next_try_and_not_an_interval_later(made: list[OneConnection]) -> None:
    job = Counted()
    job.fails = True
    counting = election(made[:2], job)
    with pytest.raises(ConnectionResetError):
        await counting.step()
    job.fails = False
    await counting.step()
    assert job.done == 1
    await counting.step()
    assert job.done == 1


async def test_a_rule_is_applied_at_the_shortest_interval_of_the_workers_that_have_it_on(
    connection: asyncpg.Connection, made: list[OneConnection]
) -> None:
    """A worker without the rule, and with a shorter interval, once won the election each time: no worker applied it."""
    off = RecoveryConfig(auto_fail_stale_running=False, auto_requeue_stale_claimed=False, check_interval_ms=10_000)
    on = RecoveryConfig(check_interval_ms=MINUTE_MS)
    without = Election("recovery", rules_of(off, Events()), Identity(), made[0], made[1])  # type: ignore[arg-type]
    having = Election("recovery", rules_of(on, Events()), Identity(), made[2], made[3])  # type: ignore[arg-type]
    swept = {"recovery": 0, "runs 300000": 0, "claims 120000": 0}
    for _ in range(12):
        await without.step()
        await having.step()
        for row in await connection.fetch(
            "SELECT sweep FROM horsies_sweep_state WHERE ran_at > now() - interval '5 s'"
        ):
            swept[row["sweep"]] += 1
        await age(connection, 10)
    assert swept == {"recovery": 12, "runs 300000": 2, "claims 120000": 2}


async def test_workers_with_different_thresholds_take_turns(
    connection: asyncpg.Connection, made: list[OneConnection]
) -> None:
    """With one job for both, the one with the shorter interval ran it each time."""
    patient = RecoveryConfig(check_interval_ms=10_000)
    strict = RecoveryConfig(check_interval_ms=MINUTE_MS, running_stale_threshold_ms=MINUTE_MS)
    one = Election("recovery", rules_of(patient, Events()), Identity(), made[0], made[1])  # type: ignore[arg-type]
    other = Election("recovery", rules_of(strict, Events()), Identity(), made[2], made[3])  # type: ignore[arg-type]
    await running(connection, "t")
    await connection.execute(
        "UPDATE horsies_tasks SET claimed_at = now() - interval '2 min', started_at = now() - interval '2 min'"
    )
    await connection.execute("INSERT INTO horsies_pulse VALUES (true, now(), '{}')")
    await one.step()
    assert await statuses(connection) == {"t": "RUNNING"}
    await other.step()
    assert await statuses(connection) == {"t": "FAILED"}


async def test_a_rule_that_fails_keeps_no_other_from_being_applied(made: list[OneConnection]) -> None:
    broken, whole = Counted("runs 1"), Counted()
    broken.fails = True
    counting = election(made[:2], broken, whole)
    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            await counting.step()
    assert whole.done == 1


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (
            Recovery(RecoveryConfig(), Events()),
            (
                "swept",
                {
                    "rule": "recovery",
                    "requeued": 0,
                    "retried": 0,
                    "failed": 0,
                    "expired": 1,
                    "repairs": 0,
                    "workflows": 0,
                },
            ),
        ),
        (
            Retention(RecoveryConfig(terminal_record_retention_hours=None), Events()),
            (
                "pruned",
                {
                    "heartbeats": 1,
                    "worker_states": 0,
                    "queue_samples": 0,
                    "schedulers": 0,
                    "sweep_state": 0,
                    "worker_losses": 0,
                    "sweeps": 0,
                    "outages": 0,
                    "operator_actions": 0,
                    "complete": True,
                },
            ),
        ),
    ],
    ids=["recovery", "retention"],
)
async def test_a_sweep_tells_in_one_line_what_it_did_and_at_debug_that_there_was_nothing(
    connection: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
    job: PeriodicJob,
    said: tuple[str, dict[str, Any]],
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, good_until) VALUES ('t', 'x', 'default', now());"
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ('t', 'w', 'runner', now() - interval '25 h')"
    )
    caplog.set_level("DEBUG", logger="horsies.worker")
    await job.do(connection)
    await job.do(connection)
    event, counts = said
    nothing = {name: 0 if type(value) is int else value for name, value in counts.items()}
    assert [(one.levelname, vars(one)["event"], vars(one)["fields"]) for one in caplog.records] == [
        ("INFO", event, counts),
        ("DEBUG", event, nothing),
    ]
