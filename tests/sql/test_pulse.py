"""The pulse records when workers could beat; after a gap silence is excused, but not for ever."""

from __future__ import annotations

import asyncio
import json
import logging
import time

import asyncpg
import pytest
from lifecycle_steps import ME, running, statuses, waits_for_a_lock
from pulse_steps import HARMLESS_S, SPARE_S, pulse_gaps, pulse_row, silent_for
from view_steps import snapshot

from horsies.config.recovery import RecoveryConfig
from horsies.run.events import Events
from horsies.run.worker.sweeper import Recovery, StaleSweep
from horsies.store.pulse import read_pulse, write_pulse

CONFIG = RecoveryConfig(
    running_stale_threshold_ms=6_000,
    runner_heartbeat_interval_ms=2_000,
    claimed_stale_threshold_ms=6_000,
    claimer_heartbeat_interval_ms=2_000,
)
EVERY_S = 0.5


async def silent_run(conn: asyncpg.Connection, seconds: float, task_id: str = "t") -> None:
    """A run whose last beat is this old."""
    await running(conn, task_id)
    await conn.execute(
        "UPDATE horsies_tasks SET started_at = now() - $2 * interval '1 s', claimed_at = now() - $2 * interval '1 s'"
        " WHERE id = $1",
        task_id,
        seconds,
    )


async def test_the_first_pulse_of_all_says_that_nothing_is_known_of_the_time_before(
    connection: asyncpg.Connection,
) -> None:
    assert await silent_for(connection, CONFIG) == pytest.approx(6)  # without a pulse, silence alone counts
    assert await write_pulse(connection, CONFIG, EVERY_S)
    assert await pulse_gaps(connection) == [10_800]
    assert await silent_for(connection, CONFIG) > 10_000


async def test_of_all_workers_one_writes_and_the_others_only_read(
    connection: asyncpg.Connection, database: str
) -> None:
    await pulse_row(connection, beaten_s=1)
    workers = [await asyncpg.connect(database) for _ in range(8)]
    written = await asyncio.gather(*(write_pulse(each, CONFIG, EVERY_S) for each in workers))
    assert written.count(True) == 1
    before = await connection.fetchrow("SELECT xmin, ctid::text, horsies_pulse FROM horsies_pulse")
    for each in workers:
        assert not await write_pulse(each, CONFIG, 60)
        await each.close()
    assert await connection.fetchrow("SELECT xmin, ctid::text, horsies_pulse FROM horsies_pulse") == before


async def test_it_leaves_nothing_in_the_table_of_heartbeats(connection: asyncpg.Connection) -> None:
    assert await write_pulse(connection, CONFIG, EVERY_S)
    assert await connection.fetchval("SELECT count(*) FROM horsies_heartbeats") == 0


@pytest.mark.parametrize(("away_s", "gaps"), [(HARMLESS_S - 0.5, 0), (HARMLESS_S + 1, 1)])
async def test_only_a_gap_that_can_make_a_living_worker_look_dead_is_told(
    connection: asyncpg.Connection, away_s: float, gaps: int
) -> None:
    await pulse_row(connection, beaten_s=away_s)
    assert await write_pulse(connection, CONFIG, EVERY_S)
    found = await pulse_gaps(connection)
    assert len(found) == gaps
    assert found == pytest.approx([away_s] * gaps, abs=0.5)


async def test_a_gap_counts_by_the_strictest_worker_also_when_another_pulses_first_after_it(
    connection: asyncpg.Connection,
) -> None:
    patient = RecoveryConfig()  # to which a gap of less than a minute is harmless
    await pulse_row(connection)
    await write_pulse(connection, CONFIG, 0.0)
    for again in (1, 2):
        await connection.execute("UPDATE horsies_pulse SET beaten_at = now() - interval '15 s'")
        assert await write_pulse(connection, patient, EVERY_S)
        assert len(await pulse_gaps(connection)) == again
        await connection.execute(
            "UPDATE horsies_pulse SET gaps = (SELECT range_agg(tstzrange(lower(gap) - interval '20 s',"
            " upper(gap) - interval '20 s')) FROM unnest(gaps) gap)"
        )
    # The strict worker has stopped.
    await connection.execute(
        "UPDATE horsies_pulse SET beaten_at = now() - interval '15 s', least_at = now() - interval '11 min'"
    )
    assert await write_pulse(connection, patient, EVERY_S)
    assert len(await pulse_gaps(connection)) == 2


@pytest.mark.parametrize(
    ("every_s", "away_s", "recorded"),
    [(7.5, 14, False), (7.5, 17, True), (0.5, 9, False), (0.5, 12, True)],
)
async def test_an_outage_is_kept_for_ever_once_two_pulses_were_missed(
    connection: asyncpg.Connection, every_s: float, away_s: float, recorded: bool
) -> None:
    """A gap of less than a minute makes no worker look dead by default; it is an outage all the same."""
    await pulse_row(connection, beaten_s=away_s)
    began_at = await connection.fetchval("SELECT beaten_at FROM horsies_pulse")
    await write_pulse(connection, RecoveryConfig(), every_s, lives=False)  # of a command
    await write_pulse(connection, RecoveryConfig(), every_s)
    for _ in range(3):
        await write_pulse(connection, RecoveryConfig(), 0.0)
    outages = await connection.fetch("SELECT began_at, ended_at FROM horsies_outages")
    assert [row["began_at"] for row in outages] == [began_at] * recorded
    lasted_s = [(row["ended_at"] - row["began_at"]).total_seconds() for row in outages]
    assert lasted_s == pytest.approx([away_s] * recorded, abs=2)


async def test_of_many_workers_after_an_outage_one_records_it(connection: asyncpg.Connection, database: str) -> None:
    await pulse_row(connection, beaten_s=60)
    workers = [await asyncpg.connect(database) for _ in range(8)]
    await asyncio.gather(*(write_pulse(each, CONFIG, EVERY_S) for each in workers))
    assert await connection.fetchval("SELECT count(*) FROM horsies_outages") == 1
    for each in workers:
        await each.close()


@pytest.mark.parametrize("table", ["horsies_heartbeats", "horsies_tasks"])
@pytest.mark.parametrize("mode", ["SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"])
async def test_a_lock_that_stops_the_beats_stops_it_until_the_lock_is_gone(
    connection: asyncpg.Connection, other: asyncpg.Connection, mode: str, table: str
) -> None:
    await pulse_row(connection)
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE {table} IN {mode} MODE")
        beating = await waits_for_a_lock(connection, other, write_pulse(other, CONFIG, 0.0))
        assert not beating.done()
        last = await connection.fetchval("SELECT beaten_at FROM horsies_pulse")
        await connection.execute("SELECT pg_sleep(0.2)")
        released = await connection.fetchval("SELECT clock_timestamp()")
    assert await beating
    beaten_at = await connection.fetchval("SELECT beaten_at FROM horsies_pulse")
    assert beaten_at >= released > last


async def test_a_locked_pulse_holds_up_no_worker(connection: asyncpg.Connection, other: asyncpg.Connection) -> None:
    await pulse_row(connection, beaten_s=10)
    async with connection.transaction():
        await connection.execute("SELECT FROM horsies_pulse FOR UPDATE")
        async with asyncio.timeout(30):
            assert not await write_pulse(other, CONFIG, EVERY_S)


async def test_a_server_that_only_reads_takes_none(connection: asyncpg.Connection) -> None:
    await pulse_row(connection, beaten_s=10)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        async with connection.transaction(readonly=True):
            await write_pulse(connection, CONFIG, EVERY_S)


@pytest.mark.parametrize(
    ("gaps", "beaten_s", "dead_after_s"),
    [
        ([], 0, 6),
        ([(20, 5)], 0, 6),  # long enough ago
        ([(4, 2.5)], 0, 6),  # harmless
        ([(17, 2)], 0, 21),  # the 15 s do not count
        ([(17, 3.6)], 0, 6),  # over, regardless of earlier gaps
        ([(40, 25), (18, 3)], 0, 21),  # the older one ended before that
        ([(18, 6), (4.5, 1.5)], 0, 21),
        ([], 15, 21),  # no worker pulses now
        ([(16, 14), (13, 11), (10, 8), (7, 5)], 0, 6),
    ],
)
async def test_silence_counts_by_the_time_in_which_workers_could_beat(
    connection: asyncpg.Connection, gaps: list[tuple[float, float]], beaten_s: float, dead_after_s: float
) -> None:
    await pulse_row(connection, *gaps, beaten_s=beaten_s)
    assert await silent_for(connection, CONFIG) == pytest.approx(dead_after_s, abs=0.2)


async def test_gaps_that_come_again_and_again_do_not_save_the_dead(connection: asyncpg.Connection) -> None:
    """3 s of each 4 s without a database, for ever: it is found after 6 s of the remaining time, and so after 24 s."""
    await pulse_row(connection, *((4.0 * number + 3.2, 4.0 * number + 0.2) for number in range(30)))
    await silent_run(connection, 20, "living")
    await silent_run(connection, 30, "dead")
    await StaleSweep.of_runs(CONFIG, Events()).do(connection)
    assert await statuses(connection) == {"living": "RUNNING", "dead": "FAILED"}


async def test_old_gaps_are_forgotten_and_the_row_stays_small(connection: asyncpg.Connection) -> None:
    many = [(20_000.0, 19_000.0), *((30.0 * number + 13, 30.0 * number + 10) for number in range(1, 150))]
    await pulse_row(connection, *many, beaten_s=9)
    assert await write_pulse(connection, CONFIG, EVERY_S)
    gaps = await pulse_gaps(connection)
    assert len(gaps) == 100
    assert max(gaps) == pytest.approx(9, abs=0.5)


async def test_a_clock_that_was_set_back_does_not_stop_it(connection: asyncpg.Connection) -> None:
    await pulse_row(connection, beaten_s=-3_600)
    assert await write_pulse(connection, CONFIG, EVERY_S)
    assert await pulse_gaps(connection) == []
    assert await silent_for(connection, CONFIG) == pytest.approx(6)
    assert await read_pulse(connection, 6_000, 2_000) is not None


@pytest.mark.parametrize(("ended_s", "status"), [(1, "RUNNING"), (SPARE_S + 0.5, "FAILED")])
async def test_the_first_sweep_after_an_outage_spares_what_runs_also_in_a_new_worker(
    connection: asyncpg.Connection, ended_s: float, status: str
) -> None:
    """The sweeper may have started a moment ago and not know of the outage."""
    await silent_run(connection, 16 + ended_s)
    await pulse_row(connection, (15 + ended_s, ended_s))
    report = await StaleSweep.of_runs(CONFIG, Events()).do(connection)
    assert await statuses(connection) == {"t": status}
    assert (report["spared_until"] is not None) is (status == "RUNNING")


@pytest.mark.parametrize(("rows", "said"), [(0, []), (1, ["sweep spares runs"])])
async def test_the_first_worker_of_a_new_database_logs_nothing_of_spared_runs(
    connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture, rows: int, said: list[str]
) -> None:
    """It has nothing to spare. After an outage the line says why a silent run is left alone, once."""
    caplog.set_level(logging.INFO)
    if rows:
        await pulse_row(connection, (15, 1))
    rule = StaleSweep.of_runs(CONFIG, Events())
    for _ in range(2):
        await rule.do(connection)
    assert [record.message.partition(" until")[0] for record in caplog.records if "spares" in record.message] == said


async def test_a_worker_that_starts_where_none_lived_waits_for_the_spare_period(connection: asyncpg.Connection) -> None:
    await silent_run(connection, 3_600)
    await pulse_row(connection, beaten_s=3_600)
    rule = StaleSweep.of_runs(CONFIG, Events())
    await rule.do(connection)
    assert await statuses(connection) == {"t": "RUNNING"}
    await connection.execute(
        "UPDATE horsies_pulse SET gaps = (SELECT range_agg(tstzrange(lower(gap) - $1 * interval '1 s',"
        " upper(gap) - $1 * interval '1 s')) FROM unnest(gaps) gap)",
        SPARE_S,
    )
    await rule.do(connection)
    assert await statuses(connection) == {"t": "FAILED"}


@pytest.mark.parametrize(("told", "status"), [(60_000, "RUNNING"), (3_000, "FAILED"), ("often", "FAILED")])
async def test_a_run_is_judged_by_the_threshold_of_its_own_worker_where_that_is_longer(
    connection: asyncpg.Connection, told: int | str, status: str
) -> None:
    """Its worker beats and stops runs by its own threshold: by a shorter one all its live runs would appear lost."""
    await silent_run(connection, 20)
    await pulse_row(connection)
    settings = json.dumps({"running_stale_threshold_ms": told, "runner_heartbeat_interval_ms": 1_000})
    await snapshot(connection, ME, recovery_config=f"'{settings}'")
    await StaleSweep.of_runs(CONFIG, Events()).do(connection)
    assert await statuses(connection) == {"t": status}


async def test_claims_are_spared_in_the_same_way_and_what_waits_expires_meanwhile(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, good_until)"
        " VALUES ('c', 'x', 'default', 'CLAIMED', 'w', now() - interval '17 s', NULL),"
        " ('p', 'x', 'default', 'PENDING', NULL, NULL, now())"
    )
    await pulse_row(connection, (16, 1))
    await StaleSweep.of_claims(CONFIG, Events()).do(connection)
    await Recovery(CONFIG, Events()).do(connection)
    assert await statuses(connection) == {"c": "CLAIMED", "p": "EXPIRED"}
    await pulse_row(connection)
    await StaleSweep.of_claims(CONFIG, Events()).do(connection)
    assert await statuses(connection) == {"c": "PENDING", "p": "EXPIRED"}


async def test_a_command_that_sweeps_asks_once_and_comes_back_after_the_spare_period(
    connection: asyncpg.Connection,
) -> None:
    """Without living workers there is no pulse: by gaps alone the command would have to be repeated for ever."""
    await pulse_row(connection, beaten_s=60)
    assert await write_pulse(connection, CONFIG, EVERY_S, lives=False)
    assert not await write_pulse(connection, CONFIG, EVERY_S, lives=False)
    pulse = await read_pulse(connection, 6_000, 2_000)
    assert pulse is not None
    assert pulse.is_silent
    assert pulse.spared_until is not None
    assert (pulse.spared_until - pulse.now).total_seconds() == pytest.approx(SPARE_S, abs=0.5)
    assert await silent_for(connection, CONFIG) > 60
    await connection.execute(
        "UPDATE horsies_pulse SET asked_at = GREATEST(asked_at - $1 * interval '1 s', pg_postmaster_start_time())",
        SPARE_S,
    )
    await connection.execute("SELECT pg_sleep_until(horsies_spared_until(6000, 2000))")
    assert await silent_for(connection, CONFIG) == pytest.approx(6)
    assert await write_pulse(connection, CONFIG, EVERY_S)  # a worker starts, and records the gap
    assert await silent_for(connection, CONFIG) > 60


async def test_a_command_changes_nothing_while_workers_pulse(connection: asyncpg.Connection) -> None:
    await pulse_row(connection, beaten_s=1)
    assert not await write_pulse(connection, CONFIG, EVERY_S, lives=False)
    assert await connection.fetchval("SELECT asked_at FROM horsies_pulse") is None


@pytest.mark.parametrize(
    "row",
    [
        "(beaten_at) VALUES ('infinity')",
        "(beaten_at) VALUES ('4000-01-01 BC')",
        "(beaten_at, asked_at) VALUES (now(), '-infinity')",
        "(beaten_at, gaps) VALUES (now(), tstzmultirange(tstzrange(NULL, now())))",
    ],
)
async def test_a_pulse_that_no_sweep_could_compute_with_is_refused(connection: asyncpg.Connection, row: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(f"INSERT INTO horsies_pulse {row}")


@pytest.mark.alone(on_one_server=True)  # a transaction in another database of the server keeps old row versions
async def test_each_pulse_is_one_version_of_a_row_in_the_same_page(connection: asyncpg.Connection) -> None:
    for _ in range(300):
        assert await write_pulse(connection, CONFIG, 0.0)
    await connection.execute("SELECT pg_stat_force_next_flush()")
    hot = await connection.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd, pg_relation_size('horsies_pulse') AS size"
        " FROM pg_stat_user_tables WHERE relname = 'horsies_pulse'"
    )
    assert (hot["n_tup_upd"], hot["size"]) == (299, 8_192)
    assert hot["n_tup_hot_upd"] == 299


@pytest.mark.bench
@pytest.mark.alone
async def test_a_look_at_a_fresh_pulse_costs_less_than_a_millisecond(connection: asyncpg.Connection) -> None:
    """200 workers read the pulse four times in an interval of their beats."""
    await pulse_row(connection)

    async def took() -> float:
        begin = time.perf_counter()
        await write_pulse(connection, CONFIG, 60)
        return time.perf_counter() - begin

    assert min([await took() for _ in range(50)]) < 0.001
