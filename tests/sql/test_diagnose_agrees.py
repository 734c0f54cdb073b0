"""The report and the sweep agree: what the report announces is what the sweep does, for every mixture of rows."""

from __future__ import annotations

import json
from itertools import product

import asyncpg
import pytest
from diagnose_steps import CRASH_POLICY, ago, of_kind, swept, worker

from horsies.config.recovery import RecoveryConfig
from horsies.findings.diagnose import Report, diagnose
from horsies.findings.searches.in_flight import FINALIZING, STALE_CLAIM, STALE_RUN
from horsies.lifecycle.recovering import count_due, recover

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
