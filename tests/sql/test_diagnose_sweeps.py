"""The report and the sweeps: what it announces is what they do; rules that no worker applies, and overdue runs."""

from __future__ import annotations

import json
from itertools import product

import asyncpg
import pytest
from diagnose_steps import CRASH_POLICY, ago, of_kind, running, swept, the_only, worker
from pulse_steps import pulse_row
from schedule_slot_steps import every, overdue, plan, scheduled

from horsies.config.app import PostgresConfig
from horsies.config.contexts import DatabaseChoice
from horsies.config.recovery import RecoveryConfig
from horsies.domain.quantities import clock
from horsies.findings import Severity
from horsies.findings.diagnose import Report, diagnose
from horsies.findings.searches.in_flight import FINALIZING, STALE_CLAIM, STALE_RUN
from horsies.findings.searches.late_schedules import NO_SCHEDULER, SCHEDULE_OVERDUE, SCHEDULER_LOST
from horsies.findings.searches.workers import RULE_NOT_APPLIED
from horsies.lifecycle.recovering import count_due, recover
from horsies.operations.pipeline import preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies.run.events import Events
from horsies.run.scheduler import ScheduleLoop
from horsies.run.settings import Identity
from horsies.store.connect import open_database
from horsies.store.dedicated_connection import DedicatedConnection
from horsies.store.pulse import write_pulse
from horsies.store.worker_states import RUNS, sweep_name

OTHER_POLICY = json.dumps({"retry_policy": {"auto_retry_for": ["TIMEOUT"], "intervals": [60], "jitter": False}})

# of each condition, one row on either side of its threshold: 300 s for a run and its mark, 120 s for a claim
STARTED = (ago(290), ago(310), "NULL")
BEATS = (None, 400, 302, 298, 5)
MARKED = ("NULL", ago(290), ago(310))
POLICIES = (f"'{CRASH_POLICY}'", f"'{OTHER_POLICY}'", "NULL", "'[[['")
TRIED = ((0, 3), (3, 3), (0, 0))
GOOD_UNTIL = ("NULL", ago(-30), ago(-3600))
CLAIMED = (ago(110), ago(130), "NULL")
CLAIM_BEATS = (None, 150, 125, 115, 5)


@pytest.fixture
async def mixture(connection: asyncpg.Connection) -> asyncpg.Connection:
    """Every combination of conditions once, each with a distinct name where that matters."""
    await worker(connection, names=["demo.add"])
    await swept(connection, 31)
    rows: list[str] = []
    beats: list[str] = []
    runs = product(STARTED, BEATS, MARKED)
    judged = [(*run, POLICIES[0], TRIED[0], GOOD_UNTIL[0]) for run in runs]
    judged += [(STARTED[1], None, marked, *rest) for marked in MARKED for rest in product(POLICIES, TRIED, GOOD_UNTIL)]
    for number, (started, beat, marked, policy, (tried, most), good_until) in enumerate(judged):
        rows.append(
            f"('run-{number}', 'RUNNING', now() - interval '1 h', {started}, {marked}, {policy}, {tried}, {most},"
            f" {good_until})"
        )
        if beat is not None:
            beats.append(f"('run-{number}', 'runner', {ago(beat)})")
    for number, (claimed, beat) in enumerate(product(CLAIMED, CLAIM_BEATS)):
        rows.append(f"('claim-{number}', 'CLAIMED', {claimed}, NULL, NULL, NULL, 0, 0, NULL)")
        if beat is not None:
            beats.append(f"('claim-{number}', 'claimer', {ago(beat)})")
    rows += [f"('late-{n}', 'PENDING', NULL, NULL, NULL, NULL, 0, 0, {ago(n)})" for n in (-60, 1, 60)]
    await connection.execute(
        "INSERT INTO horsies_tasks (id, status, claimed_at, started_at, finalizing_at, task_options, retry_count,"
        " max_retries, good_until, task_name, queue_name, claimed_by_worker_id)"
        f" SELECT rows.*, 'demo.add', 'default', 'w-1' FROM (VALUES {', '.join(rows)}) AS rows"
    )
    await connection.execute(
        "INSERT INTO horsies_heartbeats (task_id, role, sent_at, sender_id)"
        f" SELECT beats.*, 'w-1' FROM (VALUES {', '.join(beats)}) AS beats"
    )
    return connection


def announced(report: Report) -> dict[str, str]:
    """What the next sweep will do to which task, by the report."""
    return {
        task_id: "retry" if finding.prediction.action.startswith("retry") else finding.prediction.action
        for finding in report.findings
        for task_id in finding.ids
        if finding.target_kind == "task" and finding.prediction.in_seconds == 0
    }


async def done(conn: asyncpg.Connection) -> dict[str, str]:
    """What the sweep has done to which task, by the rows."""
    rows = await conn.fetch(
        "SELECT id, CASE WHEN status = 'EXPIRED' THEN 'expire' WHEN status = 'FAILED' THEN 'fail as WORKER_CRASHED'"
        " WHEN retry_count > before THEN 'retry' WHEN status = 'PENDING' THEN 'requeue' END"
        " FROM horsies_tasks JOIN unchanged USING (id) WHERE status <> was"
    )
    return {row[0]: row[1] for row in rows}


async def remember(conn: asyncpg.Connection) -> None:
    await conn.execute(
        "CREATE TEMP TABLE unchanged AS SELECT id, status AS was, retry_count AS before FROM horsies_tasks"
    )


async def test_the_next_sweep_does_what_the_report_announces_and_nothing_else(mixture: asyncpg.Connection) -> None:
    await remember(mixture)
    will = announced(await diagnose(mixture))
    assert set(will.values()) == {"retry", "fail as WORKER_CRASHED", "requeue", "expire"}
    await recover(mixture, RecoveryConfig())
    assert await done(mixture) == will


async def test_what_is_spared_now_is_handled_as_announced_when_its_mark_is_old(mixture: asyncpg.Connection) -> None:
    await recover(mixture, RecoveryConfig())
    await remember(mixture)
    spared = [line for line in of_kind(await diagnose(mixture), FINALIZING) if line.prediction.in_seconds]
    will = {task_id: line.prediction.action.split(" after ")[0] for line in spared for task_id in line.ids}
    assert set(will.values()) == {"retry", "fail as WORKER_CRASHED"}
    # As if thirty seconds had passed for the marks: the thresholds of the rows are far away either way.
    await mixture.execute("UPDATE horsies_tasks SET finalizing_at = finalizing_at - interval '30 s'")
    await recover(mixture, RecoveryConfig())
    assert await done(mixture) == will


async def test_where_recovery_is_off_neither_acts(mixture: asyncpg.Connection) -> None:
    off = RecoveryConfig(auto_fail_stale_running=False, auto_requeue_stale_claimed=False)
    await remember(mixture)
    report = await diagnose(mixture, off)
    assert set(announced(report).values()) == {"expire"}
    stale = [*of_kind(report, STALE_RUN), *of_kind(report, STALE_CLAIM)]
    switches = {"auto_fail_stale_running", "auto_requeue_stale_claimed"}
    assert {finding.prediction.action for finding in stale} == {f"nothing: {name} is off" for name in switches}
    await recover(mixture, off)
    assert await done(mixture) == announced(report)


async def test_after_a_sweep_there_is_nothing_left_that_the_next_one_would_do(mixture: asyncpg.Connection) -> None:
    await recover(mixture, RecoveryConfig())
    assert announced(await diagnose(mixture)) == {}


async def test_after_an_outage_only_what_was_silent_for_long_before_it_is_announced_and_done(
    mixture: asyncpg.Connection,
) -> None:
    """330 s in which no worker could beat, until 20 s ago: living workers have 22 s more to beat again."""
    await mixture.execute(
        f"INSERT INTO horsies_pulse (beaten_at, gaps) VALUES (now(), tstzmultirange(tstzrange({ago(350)}, {ago(20)})))"
    )
    await remember(mixture)
    report = await diagnose(mixture)
    will = announced(report)
    spared = [line for line in of_kind(report, STALE_RUN) if line.prediction.in_seconds != 0]
    assert {"retry", "expire"} <= set(will.values())
    assert sum(line.count for line in spared) > 10
    for line in spared:
        assert line.prediction.in_seconds == pytest.approx(29, abs=2)  # the first sweep after that
        assert "that time does not count as silence" in line.why[-2]
    counted = await count_due(mixture, RecoveryConfig())
    await recover(mixture, RecoveryConfig())
    assert await done(mixture) == will
    assert sum(counted.values()) == len(will)


async def test_runs_of_a_worker_with_a_longer_threshold_are_announced_by_that_one(mixture: asyncpg.Connection) -> None:
    """A run that was silent for 302 s waits until it is silent for 306 s; one of 310 s is recovered now."""
    own = json.dumps({"running_stale_threshold_ms": 306_000, "runner_heartbeat_interval_ms": 30_000})
    await mixture.execute("UPDATE horsies_worker_states SET recovery_config = $1", own)
    await remember(mixture)
    report = await diagnose(mixture, RecoveryConfig())
    will = announced(report)
    later = [line for line in of_kind(report, STALE_RUN) if line.prediction.in_seconds != 0]
    assert later
    assert [line.prediction.in_seconds for line in later] == pytest.approx([29] * len(later), abs=2)
    await recover(mixture, RecoveryConfig())
    assert await done(mixture) == will


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


async def scheduler(conn: asyncpg.Connection, *names: str, seconds: float = 5) -> None:
    await conn.execute(
        "INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, seen_at)"
        " VALUES ($1, 'web-1', 7, $2, '1', now() - $3 * interval '1 s')",
        f"s-{seconds}",
        list(names),
        seconds,
    )


async def test_a_run_that_is_overdue_tells_when_it_ran_last_and_who_serves_it(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a"), every("b")))
    await scheduler(connection, "a", "b")
    await overdue(connection, 30)
    assert (await diagnose(connection)).findings == ()
    await overdue(connection, 2 * MINUTE_S)
    finding = await the_only(connection, SCHEDULE_OVERDUE)
    assert (finding.name, finding.target_kind, finding.ids, finding.count) == ("a", "schedule", ("a",), 1)
    assert finding.evidence == "its run was due 2m00s ago, never ran; served by web-1:7"
    assert finding.prediction.severity is Severity.NEEDS_ACTION
    assert "`schedule not sent`" in finding.why[0]
    await connection.execute("UPDATE horsies_schedule_state SET last_run_at = now() - interval '1 h'")
    assert "last run 1h00m ago" in (await the_only(connection, SCHEDULE_OVERDUE)).evidence


async def test_each_remedy_of_an_overdue_schedule_applies_and_a_pause_ends_the_finding(
    connection: asyncpg.Connection,
) -> None:
    await plan(connection, scheduled(every("a"), every("b")))
    await scheduler(connection, "b")
    await overdue(connection, 5 * MINUTE_S)
    finding = await the_only(connection, SCHEDULE_OVERDUE)
    assert "served by no running scheduler" in finding.evidence
    assert "pause it to end this finding" in finding.why[-1]
    assert [remedy.verb for remedy in finding.remedies] == ["run-now", "pause"]
    for remedy in finding.remedies:
        found = await preview(connection, VERBS[remedy.target_kind, remedy.verb], Selection.of_ids(remedy.ids))
        assert [target.id for target in found.eligible] == ["a"]
    await connection.execute("UPDATE horsies_schedules SET paused_at = now()")
    assert (await diagnose(connection)).findings == ()


async def test_without_a_scheduler_there_is_one_finding_that_names_the_command(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a"), every("b")))
    finding = await the_only(connection, NO_SCHEDULER)
    assert (finding.count, finding.prediction.severity) == (2, Severity.NOTE)
    assert finding.evidence.startswith("2 schedules planned, next run ")
    assert finding.evidence.endswith("; none was seen within a day")
    assert "`horsies scheduler shop.tasks:app`" in finding.why[0]
    await scheduler(connection, "a", "b", seconds=3 * MINUTE_S)
    await overdue(connection, 2 * MINUTE_S)
    finding = await the_only(connection, NO_SCHEDULER)
    assert finding.prediction.severity is Severity.NEEDS_ACTION
    assert finding.evidence == (
        "2 schedules planned, 1 run overdue; the last, pid 7 on web-1, was seen 3m00s ago and did not stop"
    )
    assert of_kind(await diagnose(connection), SCHEDULE_OVERDUE) == []
    await scheduler(connection, "a", "b")
    assert of_kind(await diagnose(connection), NO_SCHEDULER) == []


async def test_a_scheduler_that_fell_silent_is_found_with_its_host_and_what_it_leaves(
    connection: asyncpg.Connection,
) -> None:
    await plan(connection, scheduled(every("a"), every("b"), every("c")))
    await scheduler(connection, "a", "b", "c", seconds=11)
    assert (await diagnose(connection)).findings == ()
    await connection.execute("UPDATE horsies_schedulers SET seen_at = now() - interval '14 s'")
    finding = await the_only(connection, SCHEDULER_LOST)
    assert (finding.name, finding.count, finding.ids) == ("web-1:7", 3, ("a", "b", "c"))
    assert finding.evidence == "no sign of life from pid 7 on web-1 for 14s; no other scheduler has 3 of its schedules"
    assert finding.prediction.severity is Severity.NEEDS_ACTION
    await connection.execute("UPDATE horsies_schedules SET paused_at = now() WHERE schedule_name = 'c'")
    await scheduler(connection, "a")
    assert (await the_only(connection, SCHEDULER_LOST)).ids == ("b",)
    await scheduler(connection, "a", "b", seconds=4)
    finding = await the_only(connection, SCHEDULER_LOST)
    assert (finding.count, finding.prediction.severity) == (0, Severity.NOTE)
    assert finding.evidence.endswith("another scheduler has all of its schedules")
    await connection.execute(
        "UPDATE horsies_schedulers SET seen_at = now() - interval '11 min' WHERE scheduler_id = 's-11'"
    )
    assert (await diagnose(connection)).findings == ()


@pytest.mark.parametrize(("every_s", "lives_s", "lost_s"), [(1, 8, 10), (40, 47, 49)])
async def test_a_scheduler_is_lost_after_the_silence_that_it_announced(
    database: str, connection: asyncpg.Connection, every_s: float, lives_s: int, lost_s: int
) -> None:
    """One that steps once a second is found within 15 s: the report is read every 5 s."""
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    async with open_database(DatabaseChoice(PostgresConfig(database_url=database).url, "given by the test")) as opened:
        dedicated = DedicatedConnection(opened, "scheduler", behind_pooler=False)
        await ScheduleLoop([*schedules.values()], dedicated, Events(), Identity(), every_s).step()
        await dedicated.close()
    silent = "UPDATE horsies_schedulers SET seen_at = now() - $1 * interval '1 s'"
    await connection.execute(silent, float(lives_s))
    assert (await diagnose(connection)).findings == ()
    await connection.execute(silent, float(lost_s))
    assert (await the_only(connection, SCHEDULER_LOST)).ids == ("a",)


async def test_a_scheduler_that_looks_once_a_minute_may_be_two_minutes_late(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a")))
    await scheduler(connection, "a")
    await connection.execute(
        "UPDATE horsies_schedules SET definition = definition || '{\"check_interval_seconds\": 60.0}'"
    )
    await overdue(connection, 110)
    assert (await diagnose(connection)).findings == ()
    await overdue(connection, 130)
    await the_only(connection, SCHEDULE_OVERDUE)


async def test_nothing_is_said_without_schedules_or_without_our_tables(connection: asyncpg.Connection) -> None:
    assert (await diagnose(connection)).findings == ()
    await plan(connection, scheduled(every("a")))
    await connection.execute("UPDATE horsies_schedules SET paused_at = now()")
    assert (await diagnose(connection)).findings == ()
    await overdue(connection, 5 * MINUTE_S)
    await connection.execute("DROP TABLE horsies_schedules, horsies_schedulers, horsies_schedule_runs")
    assert (await diagnose(connection)).findings == ()
