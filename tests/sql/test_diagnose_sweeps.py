"""The report on sweeps: which worker applies which rule, rules that no worker applies, and excused silence."""

from __future__ import annotations

import asyncpg
import pytest
from diagnose_steps import ago, of_kind, running, swept, the_only, worker
from pulse_steps import pulse_row

from horsies.config.recovery import RecoveryConfig
from horsies.domain.quantities import clock
from horsies.findings.diagnose import diagnose
from horsies.findings.searches.in_flight import STALE_RUN
from horsies.findings.searches.workers import RULE_NOT_APPLIED
from horsies.store.pulse import write_pulse
from horsies.store.worker_states import RUNS, sweep_name

MINUTE_S = 60


async def swept_rule(conn: asyncpg.Connection, name: str, seconds: float, by: str = "w-1") -> None:
    await conn.execute(
        "INSERT INTO horsies_sweep_state (sweep, ran_at, worker_id, interval_ms)"
        f" VALUES ($1, {ago(seconds)}, $2, 30000)",
        name,
        by,
    )


async def lived(conn: asyncpg.Connection, seconds: float) -> None:
    await conn.execute(f"UPDATE horsies_worker_states SET worker_started_at = {ago(seconds)}")


async def test_each_rule_tells_who_sweeps_it_when_and_for_how_many(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", names=["demo.add"])
    await worker(connection, "w-2", names=["demo.add"], settings={"auto_fail_stale_running": False})
    await worker(connection, "w-3", names=["demo.add"], settings={"running_stale_threshold_ms": 60_000})
    await swept(connection, 5)
    await swept_rule(connection, sweep_name(RUNS, 300_000), 10, "w-1")
    await swept_rule(connection, sweep_name(RUNS, 60_000), 20, "w-3")
    await swept_rule(connection, sweep_name(RUNS, 7_000), 20, "w-0")
    report = await diagnose(connection)
    told = {(one.rule, one.threshold_ms): (one.worker_id, one.workers, one.next_in_s) for one in report.sweeps}
    assert told == {
        ("recovery", None): ("w-1", 3, pytest.approx(25, abs=1)),
        ("runs", 300_000): ("w-1", 1, pytest.approx(20, abs=1)),
        ("runs", 60_000): ("w-3", 1, pytest.approx(10, abs=1)),
        ("runs", 7_000): ("w-0", 0, None),  # by workers that have stopped
    }
    assert report.settings_differ


async def test_a_rule_that_a_worker_has_on_and_no_sweep_applies_needs_an_operator(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, "w-1", names=["demo.add"])
    await swept(connection, 5)
    await swept_rule(connection, "claims 120000", 5)
    assert of_kind(await diagnose(connection), RULE_NOT_APPLIED) == []  # it has just started
    await lived(connection, 10 * MINUTE_S)
    finding = await the_only(connection, RULE_NOT_APPLIED)
    assert (finding.name, finding.evidence) == (
        "runs silent for 5m00s",
        "enabled by 1 living worker every 30s, swept never",
    )
    assert "stay RUNNING" in finding.prediction.action
    await swept_rule(connection, sweep_name(RUNS, 300_000), 5 * MINUTE_S)
    assert "swept last 5m00s ago" in (await the_only(connection, RULE_NOT_APPLIED)).evidence
    await connection.execute("UPDATE horsies_sweep_state SET ran_at = now()")
    assert of_kind(await diagnose(connection), RULE_NOT_APPLIED) == []


async def test_upstreams_workers_sweep_without_a_trace(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1")
    await lived(connection, 10 * MINUTE_S)
    assert (await diagnose(connection)).findings == ()


async def test_a_silent_run_is_spared_after_a_gap_and_the_report_says_why_and_until_when(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, "w-1", names=["demo.add"])
    await swept(connection, 5, interval_ms=1_000)
    await swept_rule(connection, sweep_name(RUNS, 300_000), 5)
    await running(connection, "t", seconds=600)
    await pulse_row(connection, (400, 2))
    report = await diagnose(connection)
    assert report.spared is not None
    assert report.spared.runs_until is not None
    assert (report.spared.runs_until - report.now).total_seconds() == pytest.approx(40.5, abs=0.5)
    (finding,) = of_kind(report, STALE_RUN)
    assert finding.prediction.in_seconds is not None
    assert finding.prediction.in_seconds > 40
    assert any(sentence.startswith("No worker could store a heartbeat from ") for sentence in finding.why)
    await pulse_row(connection)
    report = await diagnose(connection)
    assert report.spared is None
    (finding,) = of_kind(report, STALE_RUN)
    assert finding.prediction.in_seconds == pytest.approx(25, abs=1)


async def test_after_the_first_pulse_the_report_says_that_no_worker_had_been_here(
    connection: asyncpg.Connection,
) -> None:
    """The first pulse stores a gap of three hours: on a new database nothing happened in that time."""
    assert (await diagnose(connection)).spared is None
    await worker(connection, "w-1", names=["demo.add"])
    assert await write_pulse(connection, RecoveryConfig(), 1.0)
    spared = (await diagnose(connection)).spared
    assert spared is not None
    first = await connection.fetchval("SELECT beaten_at FROM horsies_pulse")
    assert spared.words().startswith(f"No worker had been here before {clock(first)}: until ")


async def test_after_a_gap_the_time_since_the_pulse_that_ended_it_is_no_part_of_it(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, "w-1", names=["demo.add"])
    await pulse_row(connection, (400, 2), beaten_s=2)
    spared = (await diagnose(connection)).spared
    assert spared is not None
    assert spared.words().startswith("No worker could store a heartbeat from ")


async def test_while_no_worker_pulses_the_report_says_so(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", names=["demo.add"])
    await pulse_row(connection, beaten_s=400)
    report = await diagnose(connection)
    assert report.spared is not None
    assert report.spared.gap_ended is None
    assert report.spared.gap_began is not None
    assert (report.now - report.spared.gap_began).total_seconds() == pytest.approx(400, abs=0.5)
