"""The recovery report: each kind of finding, its evidence, what will happen and what an operator can do."""

from __future__ import annotations

import asyncpg
import pytest
from diagnose_steps import (
    CRASH_POLICY,
    ago,
    beat,
    claimed,
    drain,
    insert,
    of_kind,
    pause,
    running,
    swept,
    the_only,
    worker,
)

from horsies.config.recovery import RecoveryConfig
from horsies.findings import Remedy, Severity
from horsies.findings.diagnose import diagnose
from horsies.findings.searches.crashed import CRASHED, INTERRUPTED, WORKER_DIED
from horsies.findings.searches.in_flight import FINALIZING, LEASE_RAN_OUT, STALE_CLAIM, STALE_RUN, WORKER_LOST
from horsies.findings.searches.waiting_tasks import (
    DEADLINE_PASSED,
    PAUSED_QUEUE,
    QUEUE_WITHOUT_WORKER,
    RETRY_OVERDUE,
    UNKNOWN_NAME,
)
from horsies.findings.searches.workers import RULE_NOT_APPLIED
from horsies.operations.pipeline import preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS

NAMES = ["demo.add"]
OF_TASKS_AND_WORKERS = {
    *(INTERRUPTED, CRASHED, WORKER_DIED, UNKNOWN_NAME, QUEUE_WITHOUT_WORKER, STALE_RUN, WORKER_LOST, FINALIZING),
    *(STALE_CLAIM, DEADLINE_PASSED, LEASE_RAN_OUT, PAUSED_QUEUE, RETRY_OVERDUE, RULE_NOT_APPLIED),
}


def verbs(finding) -> list[tuple[str, str]]:
    return [(remedy.verb, remedy.target_kind) for remedy in finding.remedies]


async def test_an_empty_database_has_nothing_to_report(connection: asyncpg.Connection) -> None:
    report = await diagnose(connection)
    assert report.findings == ()
    assert (report.workers_alive, report.sweep, report.settings) == (0, None, RecoveryConfig())


async def test_what_is_as_it_should_be_is_not_in_the_report(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await swept(connection, 10)
    await running(connection, "fresh", seconds=100)
    await running(connection, "long", seconds=9000)
    await beat(connection, "long", 200)
    await claimed(connection, "claimed", seconds=60)
    await insert(connection, "waits", "waits-too")
    await insert(connection, "later", enqueued_at=ago(-600), task_name="'demo.unknown'")
    await insert(connection, "done", status="'COMPLETED'", completed_at=ago(5))
    await insert(connection, "failed", status="'FAILED'", failed_at=ago(5), error_code="'BROKE'")
    assert (await diagnose(connection)).findings == ()


async def test_a_stale_run_says_since_when_by_what_threshold_and_when_the_sweep_fails_it(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, names=NAMES)
    await swept(connection, 12)
    await running(connection, "r-1", seconds=900)
    await beat(connection, "r-1", 372)
    finding = await the_only(connection, STALE_RUN)
    assert (finding.target_kind, finding.name, finding.ids, finding.count) == ("task", "demo.add", ("r-1",), 1)
    assert finding.what == "stale run demo.add"
    assert finding.evidence == "no heartbeat of its run for 6m12s, threshold 5m00s"
    assert finding.prediction.action == "fail as WORKER_CRASHED"
    assert finding.prediction.in_seconds == pytest.approx(18, abs=2)
    assert finding.prediction.severity is Severity.HANDLED
    assert verbs(finding) == [("requeue", "task"), ("fail", "task")]
    assert "It is not retried: no retry policy." in finding.why


async def test_beats_of_an_earlier_attempt_and_of_another_role_do_not_count(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await running(connection, "second", seconds=200)
    await beat(connection, "second", 900)
    await running(connection, "silent", seconds=900)
    await beat(connection, "silent", 5, role="claimer")
    assert (await the_only(connection, STALE_RUN)).ids == ("silent",)


async def test_runs_of_one_name_and_worker_to_which_different_things_will_happen_are_two_lines(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, names=NAMES)
    again = {"task_options": f"'{CRASH_POLICY}'", "max_retries": "3"}
    await running(connection, "r-1", "r-2", seconds=900, **again)
    await running(connection, "r-3", seconds=900, retry_count="3", **again)
    lines = of_kind(await diagnose(connection), STALE_RUN)
    told = {line.prediction.action: (line.count, line.at_least, set(line.ids)) for line in lines}
    assert told == {
        "retry after 1m00s": (2, False, {"r-1", "r-2"}),
        "fail as WORKER_CRASHED": (1, False, {"r-3"}),
    }


async def test_stale_claims_of_one_name_are_one_line(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await swept(connection, 12)
    await claimed(connection, *(f"c-{n:02}" for n in range(12)), seconds=124)
    finding = await the_only(connection, STALE_CLAIM)
    assert (finding.count, len(finding.ids), finding.at_least) == (12, 12, False)
    assert finding.evidence == "no heartbeat of its claim for 2m04s, threshold 2m00s"
    assert finding.prediction.action == "requeue"
    assert finding.prediction.in_seconds == pytest.approx(18, abs=2)
    assert verbs(finding) == [("release", "task"), ("cancel", "task")]


async def test_more_rows_than_are_read_are_counted_and_hide_no_other_name(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await claimed(connection, *(f"c-{n:04}" for n in range(700)), seconds=400)
    await claimed(connection, "other", seconds=200, task_name="'demo.other'")
    lines = {line.name: line for line in of_kind(await diagnose(connection), STALE_CLAIM)}
    assert lines["demo.other"].ids == ("other",)
    assert (lines["demo.add"].count, len(lines["demo.add"].ids)) == (700, 499)


async def test_a_claim_whose_lease_ran_out_is_claimed_again_by_a_worker_that_knows_the_task(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, names=NAMES)
    await claimed(connection, "c-1", seconds=100, claim_expires_at=ago(40))
    finding = await the_only(connection, LEASE_RAN_OUT)
    assert finding.evidence == "its lease expired 40s ago"
    assert (finding.prediction.action, finding.prediction.severity) == (
        "claim it again when a worker has room",
        Severity.HANDLED,
    )


async def test_a_lease_that_ran_out_in_a_paused_queue_waits_until_the_claim_is_stale(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, names=NAMES)
    await pause(connection, "default")
    await swept(connection, 10)
    await claimed(connection, "c-1", seconds=100, claim_expires_at=ago(40))
    await beat(connection, "c-1", 85, role="claimer")
    finding = await the_only(connection, LEASE_RAN_OUT)
    assert finding.prediction.action == "requeue once it is stale"
    # stale in 35 s; sweeps come in 20 s and 50 s
    assert finding.prediction.in_seconds == pytest.approx(50, abs=2)


async def test_an_outcome_that_waits_to_be_stored_is_spared_until_its_mark_is_old(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, names=NAMES)
    await swept(connection, 10)
    await running(connection, "r-1", seconds=900, finalizing_at=ago(200))
    report = await diagnose(connection)
    assert of_kind(report, STALE_RUN) == []
    (finding,) = of_kind(report, FINALIZING)
    assert finding.evidence == "user code ended 3m20s ago, its outcome is not stored"
    assert finding.prediction.action == "fail as WORKER_CRASHED"
    # the mark is old in 100 s; sweeps come in 20, 50, 80 and 110 s
    assert finding.prediction.in_seconds == pytest.approx(110, abs=2)


async def test_a_run_that_still_beats_long_after_its_user_code_ended_needs_an_operator(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, names=NAMES)
    await running(connection, "r-1", seconds=900, finalizing_at=ago(600))
    await beat(connection, "r-1", 5)
    finding = await the_only(connection, FINALIZING)
    assert (finding.prediction.action, finding.prediction.severity) == (
        "nothing: it still beats",
        Severity.NEEDS_ACTION,
    )


async def test_past_good_until_is_expired_by_the_next_sweep(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await swept(connection, 12)
    await insert(connection, "p-1", "p-2", good_until=ago(95))
    finding = await the_only(connection, DEADLINE_PASSED)
    assert (finding.count, set(finding.ids), finding.prediction.action) == (2, {"p-1", "p-2"}, "expire")
    assert finding.evidence == "its deadline passed 1m35s ago and it has not started"
    assert finding.prediction.in_seconds == pytest.approx(18, abs=2)


async def test_interrupted_tasks_wait_for_a_decision_and_come_first(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await running(connection, "r-1", seconds=900)
    await insert(
        connection, "i-1", "i-2", status="'FAILED'", error_code="'TASK_INTERRUPTED'", failed_at=ago(2520),
        worker_hostname="'web-2'", task_name="'demo.report'",
    )  # fmt: skip
    report = await diagnose(connection)
    first = report.findings[0]
    assert (first.kind, first.name, first.count) == (INTERRUPTED, "demo.report", 2)
    assert first.evidence == "stopped past its grace on web-2"
    assert (first.prediction.action, first.prediction.in_seconds) == ("waits for you", None)
    assert (report.count(Severity.NEEDS_ACTION), report.count(Severity.HANDLED)) == (1, 1)


async def test_a_name_that_no_worker_registers_is_unknown(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", names=["demo.add"])
    await worker(connection, "w-2", names=["demo.sum"])
    await insert(connection, "u-1", "u-2", task_name="'resize_v2'", enqueued_at=ago(540))
    await insert(connection, "k-1", task_name="'demo.sum'")
    finding = await the_only(connection, UNKNOWN_NAME)
    assert (finding.name, finding.count, set(finding.ids)) == ("resize_v2", 2, {"u-1", "u-2"})
    assert (finding.evidence, finding.prediction.action) == (
        "no running worker registers it",
        "nothing: waits for code",
    )
    assert finding.prediction.severity is Severity.NEEDS_ACTION


async def test_a_name_counts_as_known_where_its_queue_has_a_worker_that_does_not_tell(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, "w-1", names=["demo.add"], queues=["default", "mail"])
    await worker(connection, "upstream", queues=["default"])
    await insert(connection, "u-1", task_name="'resize_v2'")
    await insert(connection, "u-2", task_name="'resize_v2'", queue_name="'mail'")
    finding = await the_only(connection, UNKNOWN_NAME)
    assert (finding.queue_name, finding.ids) == ("mail", ("u-2",))


async def test_names_are_taken_from_the_last_snapshot_that_has_them(connection: asyncpg.Connection) -> None:
    await worker(connection, seconds=40, names=["demo.add"])
    await worker(connection, seconds=2)
    await insert(connection, "k-1")
    await insert(connection, "u-1", task_name="'resize_v2'")
    assert (await the_only(connection, UNKNOWN_NAME)).name == "resize_v2"


async def test_a_queue_without_a_worker_is_one_line_for_all_of_its_tasks(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await insert(connection, "m-1", "m-2", queue_name="'mail'", enqueued_at=ago(70))
    await insert(connection, "m-3", queue_name="'mail'", task_name="'demo.other'")
    await insert(connection, "later", queue_name="'mail'", enqueued_at=ago(-70))
    finding = await the_only(connection, QUEUE_WITHOUT_WORKER)
    assert (finding.target_kind, finding.name, finding.count) == ("queue", "mail", 3)
    assert finding.evidence == "no living worker serves it, 3 tasks due"
    assert dict(verbs(finding)) == {"cancel": "task", "fail": "task"}
    assert set(finding.remedies[0].ids) == {"m-1", "m-2", "m-3"}


@pytest.mark.parametrize(
    ("trace", "waits_s", "severity"),
    [
        ("nothing", 2, Severity.NOTE),
        ("nothing", 11, Severity.NEEDS_ACTION),
        ("a snapshot", 2, Severity.NEEDS_ACTION),
        ("an attempt", 2, Severity.NEEDS_ACTION),
        ("a claim", 2, Severity.NEEDS_ACTION),
    ],
)
async def test_a_cluster_in_which_no_worker_has_ever_been_has_some_seconds_until_that_is_urgent(
    connection: asyncpg.Connection, trace: str, waits_s: float, severity: Severity
) -> None:
    await insert(connection, "p-1", enqueued_at=ago(waits_s))
    if trace == "a snapshot":
        await worker(connection, seconds=600)
    elif trace == "an attempt":
        await connection.execute(
            "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
            " VALUES ('p-1', 1, 'FAILED', now(), now())"
        )
    elif trace == "a claim":
        await insert(connection, "c-1", status="'CLAIMED'", claimed_by_worker_id="'w'", claimed_at="now()")
    found = [one for one in (await diagnose(connection)).findings if one.kind is QUEUE_WITHOUT_WORKER]
    assert [(one.prediction.severity, one.count) for one in found] == [(severity, 1)]


async def test_a_queue_whose_workers_all_drain_has_none(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", names=NAMES)
    await worker(connection, "w-2", names=NAMES)
    await drain(connection, "w-1")
    await insert(connection, "p-1")
    assert (await diagnose(connection)).findings == ()
    await drain(connection, "w-2")
    finding = await the_only(connection, QUEUE_WITHOUT_WORKER)
    assert finding.evidence == "its 2 workers drain, 1 task due"


async def test_a_paused_queue_with_due_tasks_says_who_paused_it(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await pause(connection, "default", reason="bank holiday")
    await pause(connection, "empty")
    await insert(connection, "p-1", "p-2")
    finding = await the_only(connection, PAUSED_QUEUE)
    assert (finding.name, finding.count, finding.prediction.severity) == ("default", 2, Severity.NOTE)
    assert finding.evidence == "paused 3m00s ago by ops@bastion, 2 tasks due"
    assert verbs(finding) == [("resume", "queue")]
    assert finding.why == ("Reason given: bank holiday",)


@pytest.mark.parametrize(
    ("minutes", "due", "severity", "alert"),
    [
        (3, 2, Severity.NOTE, Severity.NOTE),
        (6, 2, Severity.NOTE, Severity.HANDLED),
        (3, 120, Severity.NOTE, Severity.HANDLED),
        (16, 823, Severity.NEEDS_ACTION, Severity.NEEDS_ACTION),
        (61, 2, Severity.NEEDS_ACTION, Severity.NEEDS_ACTION),
    ],
)
async def test_a_pause_gets_worse_with_its_age_and_with_what_is_due(
    connection: asyncpg.Connection, minutes: int, due: int, severity: Severity, alert: Severity
) -> None:
    await worker(connection, names=NAMES)
    await pause(connection, "default")
    await connection.execute("UPDATE horsies_queue_state SET paused_at = now() - $1 * interval '1 min'", minutes)
    await insert(connection, *(f"p-{n}" for n in range(due)))
    finding = await the_only(connection, PAUSED_QUEUE)
    assert (finding.prediction.severity, finding.alert_severity) == (severity, alert)


async def test_a_crash_names_the_child_and_how_it_ended(connection: asyncpg.Connection) -> None:
    dead = {"status": "'FAILED'", "error_code": "'WORKER_CRASHED'", "failed_at": ago(5), "worker_pid": "4711"}
    await insert(
        connection, "x-1", **dead, claimed_by_worker_id="'web-1-7-0a1b2c3d'",
        failed_reason="'the child process that ran this task ended: killed by SIGKILL: out of memory'",
    )  # fmt: skip
    finding = await the_only(connection, CRASHED)
    where = "failed as WORKER_CRASHED on web-1:7"
    assert finding.evidence == f"{where} child 4711, killed by SIGKILL: out of memory"
    await connection.execute("UPDATE horsies_tasks SET failed_reason = 'worker web-1:7 gave no sign of life'")
    assert (await the_only(connection, CRASHED)).evidence == where


async def test_of_very_many_that_wait_the_first_thousand_are_counted(connection: asyncpg.Connection) -> None:
    await insert(connection, *(f"p-{n:04}" for n in range(1_200)), queue_name="'mail'")
    finding = await the_only(connection, QUEUE_WITHOUT_WORKER)
    assert (finding.count, finding.at_least) == (1_000, True)
    assert finding.evidence == "no living worker serves it, at least 1,000 tasks due"
    assert len(finding.remedies[0].ids) == 500


async def test_a_retry_that_is_long_due_is_noted(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await insert(connection, "late", enqueued_at=ago(150), next_retry_at=ago(150), retry_count="1")
    await insert(connection, "just", enqueued_at=ago(20), next_retry_at=ago(20), retry_count="1")
    finding = await the_only(connection, RETRY_OVERDUE)
    assert (finding.ids, finding.evidence, finding.prediction.severity) == (
        ("late",),
        "its retry was due 2m30s ago",
        Severity.NOTE,
    )


async def test_a_worker_that_vanished_is_told_with_what_it_holds(connection: asyncpg.Connection) -> None:
    await worker(connection, "alive", names=NAMES)
    await worker(connection, "dead", seconds=90, names=NAMES)
    await swept(connection, 10)
    await running(connection, "r-1", seconds=100, worker="dead")
    await claimed(connection, "c-1", "c-2", seconds=95, worker="dead")
    await running(connection, "mine", seconds=100, worker="alive")
    finding = await the_only(connection, WORKER_LOST)
    assert (finding.target_kind, finding.name, finding.count) == ("worker", "dead", 3)
    assert finding.evidence == "no sign of life for 1m30s, holds 1 running and 2 claimed"
    assert finding.prediction.action == "requeue 2 claimed, retry or fail 1 running"
    # the claims are stale in 25 s; sweeps come in 20 and 50 s
    assert finding.prediction.in_seconds == pytest.approx(50, abs=2)
    assert verbs(finding) == [("recover", "worker")]


async def test_a_worker_that_beats_or_claims_is_not_gone_though_its_snapshots_are_late(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, "beats", seconds=90)
    await running(connection, "r-1", seconds=100, worker="beats")
    await beat(connection, "r-1", 20)
    await running(connection, "r-2", seconds=5, worker="new")
    assert of_kind(await diagnose(connection), WORKER_LOST) == []


async def test_the_stale_tasks_of_a_worker_that_is_gone_may_be_recovered_with_it(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, "alive", names=NAMES)
    await worker(connection, "dead", seconds=900)
    await running(connection, "r-1", seconds=910, worker="dead")
    finding = await the_only(connection, STALE_RUN)
    assert finding.evidence.endswith(", its worker is lost")
    assert verbs(finding)[-1] == ("recover", "worker")
    assert finding.remedies[-1].ids == ("dead",)


async def test_without_a_living_worker_nothing_will_happen_by_itself(connection: asyncpg.Connection) -> None:
    await worker(connection, seconds=900)
    await swept(connection, 900)
    await running(connection, "r-1", seconds=910)
    await claimed(connection, "c-1", seconds=910)
    await insert(connection, "p-1", good_until=ago(5))
    report = await diagnose(connection)
    assert report.sweep is not None
    assert report.sweep.next_in_s is None
    assert {finding.prediction.in_seconds for finding in report.findings} == {None}
    assert {finding.prediction.action for finding in report.findings} == {"nothing: no worker is alive to sweep"}
    assert {finding.prediction.severity for finding in report.findings} == {Severity.NEEDS_ACTION}


async def test_thresholds_are_those_of_the_newest_snapshot(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", seconds=3, settings={"running_stale_threshold_ms": 600_000})
    await running(connection, "r-1", seconds=400)
    report = await diagnose(connection)
    assert (report.settings.running_stale_threshold_ms, report.settings_from) == (600_000, "w-1")
    assert of_kind(report, STALE_RUN) == []
    assert not report.settings_differ
    await worker(connection, "w-2", seconds=1, settings={"running_stale_threshold_ms": 300_000})
    report = await diagnose(connection)
    assert report.settings_from == "w-2"
    assert report.settings_differ
    assert len(of_kind(report, STALE_RUN)) == 1


async def test_settings_that_were_given_go_before_those_of_workers(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", settings={"running_stale_threshold_ms": 600_000})
    await running(connection, "r-1", seconds=400)
    report = await diagnose(connection, RecoveryConfig(running_stale_threshold_ms=300_000))
    assert len(of_kind(report, STALE_RUN)) == 1
    assert report.settings_from is None


@pytest.mark.parametrize("stored", ['"no object"', "[]", '{"check_interval_ms": "soon"}', '{"unknown": 1}'])
async def test_settings_that_cannot_be_read_are_the_defaults(connection: asyncpg.Connection, stored: str) -> None:
    await worker(connection)
    await connection.execute("UPDATE horsies_worker_states SET recovery_config = $1", stored)
    assert (await diagnose(connection)).settings == RecoveryConfig()


async def test_a_sweep_that_is_due_comes_at_once(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await swept(connection, 31)
    await claimed(connection, "c-1", seconds=900)
    assert (await the_only(connection, STALE_CLAIM)).prediction.in_seconds == 0


async def test_before_the_first_sweep_there_is_no_time_of_the_next(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await claimed(connection, "c-1", seconds=900)
    finding = await the_only(connection, STALE_CLAIM)
    assert (finding.prediction.action, finding.prediction.in_seconds, finding.prediction.severity) == (
        "requeue",
        None,
        Severity.HANDLED,
    )


async def test_rows_without_an_owner_a_time_or_readable_options_do_not_hide_the_rest(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, names=NAMES)
    await insert(connection, "bare", status="'RUNNING'", updated_at=ago(900), task_options="'no json'")
    await insert(connection, "empty", status="'CLAIMED'", updated_at=ago(900))
    found = {finding.kind: finding.ids for finding in (await diagnose(connection)).findings}
    assert found == {STALE_RUN: ("bare",), STALE_CLAIM: ("empty",)}


async def refusals(conn: asyncpg.Connection, remedy: Remedy) -> tuple[object, ...]:
    """The targets that the verb would refuse, by its own preview."""
    match remedy.target_kind:
        case "task":
            return (await preview(conn, VERBS["task", remedy.verb], Selection.of_ids(remedy.ids))).refused
        case "worker":
            return (await preview(conn, VERBS["worker", remedy.verb], Selection.of_ids(remedy.ids))).refused
        case _:
            return (await preview(conn, VERBS["queue", remedy.verb], Selection.of_ids(remedy.ids))).refused


async def test_every_verb_that_is_offered_would_be_accepted(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES, queues=["default", "still"])
    await connection.execute("UPDATE horsies_worker_states SET worker_started_at = now() - interval '1 h'")
    await worker(connection, "dead", seconds=90)
    await pause(connection, "still")
    await running(connection, "r-1", seconds=900)
    await running(connection, "r-2", seconds=900, finalizing_at=ago(100))
    await claimed(connection, "c-1", seconds=900)
    await claimed(connection, "c-2", seconds=90, worker="dead", claim_expires_at=ago(30))
    await insert(connection, "p-1", good_until=ago(9))
    await insert(connection, "p-2", queue_name="'nobody'")
    await insert(connection, "p-3", queue_name="'still'")
    await insert(connection, "p-4", enqueued_at=ago(99), next_retry_at=ago(99), retry_count="1")
    await insert(connection, "u-1", task_name="'resize_v2'")
    await insert(connection, "i-1", status="'FAILED'", error_code="'TASK_INTERRUPTED'", failed_at=ago(5))
    await insert(
        connection, "x-1", status="'FAILED'", error_code="'WORKER_CRASHED'", failed_at=ago(5),
        claimed_by_worker_id="'died'",
    )  # fmt: skip
    await worker(connection, "died", seconds=90)
    await connection.execute("INSERT INTO horsies_worker_losses (worker_id, failed) VALUES ('died', '{x-1}')")
    report = await diagnose(connection)
    assert {finding.kind for finding in report.findings} == OF_TASKS_AND_WORKERS
    for finding in report.findings:
        assert finding.remedies or finding.kind is RULE_NOT_APPLIED  # the workers' log names the remedy
        for remedy in finding.remedies:
            assert await refusals(connection, remedy) == (), (finding.kind, remedy.verb)
