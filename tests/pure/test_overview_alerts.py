"""Alerts: each rule's evidence, the filter of its rows, and one line in place of hundreds."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from health_scene import NOON, a_finding, a_glance, a_queue, a_report, a_worker, ago, gone
from hypothesis import given, strategies as st

from horsies.doctor.examine import DATABASE
from horsies.domain.quantities import span
from horsies.findings import FindingKind, Severity
from horsies.findings.cluster import SweepState
from horsies.findings.diagnose import searches
from horsies.findings.searches.unusual import BEHIND_BUSY, RUNS_LONG
from horsies.findings.searches.waiting_tasks import PAUSED_QUEUE, QUEUE_WITHOUT_WORKER, UNKNOWN_NAME
from horsies.findings.searches.workflows import DAMAGED_WORKFLOW, PAUSED_BY_ERROR
from horsies.query import parse, parse_workers, task_conditions
from horsies.views import Clock, Count, Failures, Liveness, QueueRate
from horsies_tui.health.alerts import NO_WORKER, Alert, Level, alerts
from horsies_tui.health.alerts.failure_alerts import surges
from horsies_tui.health.glance import Glance

ALL_KINDS = [DATABASE, *(kind for search in searches() for kind in search.kinds)]


def only(glance: Glance) -> Alert:
    found = alerts(glance)
    assert len(found) == 1, found
    return found[0]


def shows(alert: Alert, text: str) -> bool:
    """Whether the rows of the alert are those of this filter."""
    return task_conditions(parse(alert.rows or "")) == task_conditions(parse(text))


def test_a_cluster_without_trouble_has_no_alert() -> None:
    assert alerts(a_glance()) == ()
    assert alerts(a_glance(report=None)) == ()


def test_a_worker_that_vanished_is_told_once_with_what_it_left_behind() -> None:
    alert = only(a_glance(a_finding(count=3), gone()))
    assert alert.level is Level.CRITICAL
    assert alert.what == "web-3 is lost, holds 13 tasks, 3 stale"
    assert alert.in_verdict == "web-3 is lost for 6m, holds 13 tasks, 3 stale"
    assert alert.evidence == "no sign of life for 6m, holds 1 running and 12 claimed"
    assert alert.lasts == "6m"
    assert shows(alert, "status:claimed,running worker:web-3")
    assert only(a_glance(a_finding(count=13), gone())).what == "web-3 is lost, 13 tasks stale"


def test_stale_tasks_of_a_living_worker_are_told_by_themselves_with_their_ids() -> None:
    alert = only(a_glance(a_finding(count=2)))
    assert (alert.level, alert.what) == (Level.DEGRADED, "2 shop.import stale on web-3")
    assert alert.evidence == "no heartbeat of its run for 6m, threshold 5m; will fail as WORKER_CRASHED"
    assert alert.rows == "id:shop.import-0,shop.import-1"


def test_an_unusual_run_is_told_with_the_figures_and_shown_by_its_id() -> None:
    alert = only(
        a_glance(
            a_finding(RUNS_LONG, "shop.report", severity=Severity.NOTE, worker_id=None, in_seconds=None,
                      evidence="runs 14m03s, usually 40s (p95 2m05s)"))
    )  # fmt: skip
    assert (alert.level, alert.what) == (Level.DEGRADED, "1 shop.report runs long")
    assert (alert.evidence, alert.rows) == ("runs 14m, usually 40s (p95 2m)", "id:shop.report-0")


def test_claims_behind_a_busy_worker_are_told_with_both_workers() -> None:
    evidence = "claimed 40s ago by web-1:7, whose 4 processes are all busy; web-2:8 has 3 free"
    waits = a_finding(BEHIND_BUSY, count=30, severity=Severity.NOTE, in_seconds=None, evidence=evidence)
    alert = only(a_glance(waits))
    assert (alert.level, alert.evidence) == (Level.DEGRADED, evidence)
    assert alert.what == "30 shop.import claimed on web-3, which is busy while another idles"
    assert alert.rows == f"id:{','.join(f'shop.import-{n}' for n in range(30))}"


def test_what_needs_a_decision_hurts_and_comes_before_what_is_handled() -> None:
    waits = a_finding(
        UNKNOWN_NAME, "shop.resize", severity=Severity.NEEDS_ACTION, worker_id=None, in_seconds=None,
        evidence="no running worker registers it", since=ago(9),
    )  # fmt: skip
    first, second = alerts(a_glance(a_finding(), waits))
    assert (first.level, first.what) == (Level.CRITICAL, "1 shop.resize unknown to all workers")
    assert second.level is Level.DEGRADED


def test_trouble_in_a_workflow_opens_the_workflow_and_in_several_the_recovery_desk() -> None:
    flow: dict[str, Any] = {"target_kind": "workflow", "worker_id": None, "queue_name": None}
    alert = only(a_glance(a_finding(PAUSED_BY_ERROR, "month_end", **flow)))
    assert (alert.workflow, alert.rows, alert.workers) == ("month_end-0", None, None)
    alert = only(a_glance(a_finding(PAUSED_BY_ERROR, "month_end", 3, **flow)))
    assert (alert.workflow, alert.rows, alert.workers) == (None, None, None)


def test_many_of_a_kind_become_one_that_opens_them_all() -> None:
    alert = only(
        a_glance(*(gone(f"web-{n}", 2) for n in range(9)), *(a_finding(worker_id=f"web-{n}") for n in range(9)))
    )
    assert alert.what == "9 workers are lost, they hold 18 tasks"
    assert parse_workers(alert.workers or "").text == "status:lost has:tasks"
    alert = only(a_glance(*(a_finding(name=f"shop.t{n}") for n in range(9))))
    assert (alert.what, alert.rows, alert.workers) == ("9 stale run, in 9 findings", None, None)


@pytest.mark.parametrize("many", [1, 6])
def test_without_any_worker_all_queues_are_one_alert(many: int) -> None:
    findings = [
        a_finding(
            QUEUE_WITHOUT_WORKER, f"q{n}", 40, severity=Severity.NEEDS_ACTION, target_kind="queue",
            in_seconds=None, queue_name=f"q{n}", worker_id=None,
        )
        for n in range(many)
    ]  # fmt: skip
    alert = only(a_glance(*findings, workers=()))
    assert alert.id == NO_WORKER
    assert alert.what == f"no worker is alive, {40 * many} due"
    assert task_conditions(parse(alert.rows or "")).exact("queue") == tuple(f"q{n}" for n in range(many))


def test_without_any_worker_what_is_due_hurts_before_the_report_says_so() -> None:
    alert = only(a_glance(queues=(a_queue(due=7),), workers=()))
    assert (alert.level, alert.what, alert.rows) == (
        Level.CRITICAL,
        "no worker is alive, 7 due",
        "status:pending,retry has:due",
    )
    assert alerts(a_glance(workers=())) == ()


def test_until_the_first_worker_has_had_time_to_start_its_absence_is_no_alert() -> None:
    finding = a_finding(
        QUEUE_WITHOUT_WORKER, "mail", 7, severity=Severity.NOTE, target_kind="queue", in_seconds=None,
        queue_name="mail", worker_id=None,
    )  # fmt: skip

    def glance(*, waits_s: float, had_workers: bool) -> Glance:
        queues = (
            a_queue(due=7, oldest_due_at=ago(waits_s)),
            a_queue("old", 1, oldest_due_at=ago(99), paused_at=ago(99)),
        )
        return a_glance(finding, queues=queues, workers=(), had_workers=had_workers)

    assert alerts(glance(waits_s=9, had_workers=False)) == ()
    for late in (glance(waits_s=11, had_workers=False), glance(waits_s=9, had_workers=True)):
        assert [alert.id for alert in alerts(late)] == [NO_WORKER]


def test_a_paused_queue_with_due_tasks_is_noted_and_shows_those_that_are_due() -> None:
    paused = a_finding(
        PAUSED_QUEUE, "mail", 15, severity=Severity.NOTE, target_kind="queue", ids=("mail",),
        in_seconds=None, worker_id=None, evidence="paused 3m00s ago by ops@bastion, 15 tasks due",
    )  # fmt: skip
    alert = only(a_glance(paused, queues=(a_queue(due=15, paused_at=ago(180), oldest_due_at=ago(900)),)))
    assert (alert.level, alert.what) == (Level.NOTE, "queue mail is paused, 15 due")
    assert shows(alert, "status:pending,retry,scheduled queue:mail has:due")


def test_a_pause_that_lasts_or_holds_back_much_grows_from_a_note_to_critical() -> None:
    """One alert, which gets worse: it stays the same line, with its start."""
    paused = a_finding(
        PAUSED_QUEUE, "mail", 823, severity=Severity.NOTE, target_kind="queue", ids=("mail",), in_seconds=None,
        worker_id=None, evidence="paused 3m00s ago by ops@bastion, 823 tasks due",
    )  # fmt: skip
    found = [only(a_glance(replace(paused, alert_severity=severity))) for severity in (None, *Severity)]
    assert [alert.level for alert in found] == [Level.NOTE, Level.NOTE, Level.DEGRADED, Level.CRITICAL]
    assert len({alert.id for alert in found}) == 1
    many = [replace(paused, name=f"q{n}", alert_severity=Severity(n % 3 + 1)) for n in range(6)]
    assert only(a_glance(*many)).level is Level.CRITICAL


def test_a_late_worker_names_its_silence() -> None:
    alert = only(a_glance(workers=(a_worker(), a_worker("web-2", Liveness.LATE, 18))))
    assert (alert.what, alert.evidence) == ("web-2:7 is late", "last snapshot 18s ago, due within 12s")
    assert parse_workers(alert.workers or "").text == "id:web-2"
    alert = only(a_glance(workers=tuple(a_worker(f"w{n}", Liveness.LATE, 18 + n) for n in range(7))))
    assert (alert.what, alert.evidence) == ("7 workers are late", "w6:7 is late: last snapshot 24s ago, due within 12s")


def test_a_worker_that_left_with_empty_hands_is_a_note_for_some_minutes() -> None:
    def left(silent_s: float, **fields: int) -> Glance:
        return a_glance(workers=(a_worker(), a_worker("web-2", Liveness.LOST, silent_s, **fields)))

    alert = only(left(60, running=0))
    assert (alert.level, alert.what) == (Level.NOTE, "web-2:7 lost 1m ago")
    assert alerts(left(3000, running=0)) == ()
    assert alerts(left(60, running=1)) == ()  # the report has it


def test_a_queue_grows_when_more_comes_than_goes() -> None:
    queue = a_queue(due=1204, oldest_due_at=ago(20))
    alert = only(a_glance(queues=(queue,), rates={"mail": QueueRate(31.0, 28.9)}))
    assert (alert.what, alert.evidence) == ("mail is growing, 1,204 due", "31.0/s in, 28.9/s out in the last 5m")
    assert alerts(a_glance(queues=(queue,), rates={"mail": QueueRate(31.0, 30.5)})) == ()


def test_a_cap_that_holds_a_queue_back_is_named_with_the_end() -> None:
    queue = a_queue(due=214, cap=8, running=8, oldest_due_at=ago(45))
    alert = only(a_glance(queues=(queue,), rates={"mail": QueueRate(0.1, 1.0)}))
    assert (alert.level, alert.what) == (Level.NOTE, "queue mail: 8 of 8 run (cap), 214 due, clear in 3m")
    assert alert.evidence == "the oldest due task waits for 45s"
    assert shows(alert, "status:pending,retry has:due queue:mail")
    alert = only(a_glance(queues=(queue,), rates={"mail": QueueRate(3.0, 1.0)}))
    assert (alert.level, alert.what) == (Level.DEGRADED, "queue mail: 8 of 8 run (cap), 214 due, growing")
    late = replace(queue, oldest_due_at=ago(400))
    alert = only(a_glance(queues=(late,)))
    assert (alert.level, alert.what) == (Level.DEGRADED, "queue mail: 8 of 8 run (cap), 214 due, not draining")
    assert alert.evidence == "the oldest due task waits for 6m, over its 5m target"
    for harmless in (replace(queue, running=7), replace(queue, due=Count(3), oldest_due_at=ago(9))):
        assert alerts(a_glance(queues=(harmless,))) == ()
    six = tuple(replace(queue, name=f"q{n}") for n in range(6))
    assert only(a_glance(queues=six)).what == "6 queues wait at their caps"


def test_the_cap_of_all_queues_is_named_for_all_that_wait() -> None:
    first, second = a_worker("web-1"), a_worker("web-2")
    capped = tuple(replace(row, snapshot=replace(row.snapshot, cluster_wide_cap=16)) for row in (first, second))
    queues = (a_queue(due=20, running=6, oldest_due_at=ago(400)), a_queue("bulk", due=5, running=10))
    alert = only(a_glance(queues=queues, workers=capped))
    assert alert.what == "16 of 16 run (cluster_wide_cap), 25 due, not draining"
    assert task_conditions(parse(alert.rows or "")).exact("queue") == ("mail", "bulk")
    assert alerts(a_glance(queues=queues, workers=(capped[0], second)))[0].what == "mail is over its 5m target"


@pytest.mark.parametrize(("children_mb", "level"), [(6_000, None), (7_500, Level.DEGRADED), (8_700, Level.CRITICAL)])
def test_workers_that_use_nearly_all_memory_of_their_machine_are_an_alert(
    children_mb: float, level: Level | None
) -> None:
    """The machine has 10 GB: the workers use 1 % each themselves."""
    workers = [a_worker("web-1-7-0a1b2c3d"), a_worker("web-2-7-0a1b2c3d")]
    rows = tuple(replace(row, snapshot=replace(row.snapshot, hostname="web-1", children_memory_mb=mb))
                 for row, mb in zip(workers, (children_mb, 300.0), strict=True))  # fmt: skip
    found = alerts(a_glance(workers=rows))
    assert [alert.level for alert in found] == ([] if level is None else [level])
    if level is Level.CRITICAL:
        assert found[0].what == "workers use 92% of the memory of web-1"
        assert found[0].evidence == "web-1:7 uses 8.6 GB, its children 8.5 GB of it, of 9.8 GB; 1 other worker there"
        assert parse_workers(found[0].workers or "").text == "id:web-1-7-0a1b2c3d,web-2-7-0a1b2c3d"


def test_a_queue_without_a_worker_is_only_in_the_report() -> None:
    queue = a_queue(due=1204, oldest_due_at=ago(900), workers=0)
    assert alerts(a_glance(queues=(queue,), rates={"mail": QueueRate(31.0, 0)})) == ()


def test_the_oldest_due_task_is_held_against_the_target_of_its_queue() -> None:
    queue = a_queue("bulk", due=1, oldest_due_at=ago(400))
    alert = only(a_glance(queues=(queue,)))
    assert (alert.what, alert.evidence) == ("bulk is over its 5m target", "the oldest due task waits for 6m")
    assert alerts(a_glance(queues=(queue,)), {"bulk": 3600}) == ()
    assert alerts(a_glance(queues=(queue,)), {"bulk": 90})[0].what == "bulk is over its 1m30s target"


def test_a_surging_error_is_named_with_what_is_usual() -> None:
    surge = Failures("RATE_LIMITED", lately=45, before=12, before_s=7200)
    alert = only(a_glance(failures=(surge, Failures(None, 3, 30, 7200))))
    assert (alert.what, alert.evidence) == ("RATE_LIMITED surges", "45 in 10m, usually 1")
    assert shows(alert, f"status:failed error:RATE_LIMITED ended:>={ago(600).isoformat()}")


def test_the_rows_of_a_surge_are_all_since_its_beginning_and_none_slides_out() -> None:
    surge = a_glance(failures=(Failures("RATE_LIMITED", lately=45, before=12, before_s=7200),))
    first = only(surge)
    assert first.failing_since == ago(600)
    later = replace(surge, now=surge.now + timedelta(minutes=40))
    (again,) = alerts(later, began={first.id: first.failing_since})
    assert (again.rows, again.failing_since) == (first.rows, first.failing_since)


def test_a_surge_counts_retries_says_since_when_and_ends_when_it_has_ended() -> None:
    storm = Failures("GATEWAY_DOWN", 249, 0, 7200, recent=90, retried=249, since=ago(200))
    alert = only(a_glance(failures=(storm,)))
    assert (alert.what, alert.evidence) == ("GATEWAY_DOWN surges", "249 in 10m, usually 0, 249 retried")
    assert (alert.since, alert.lasts) == (ago(200), "3m")
    assert shows(alert, "status:live tries:>1")
    assert alerts(a_glance(failures=(replace(storm, recent=2),))) == ()
    many = tuple(replace(storm, error_code=f"CODE_{n}", lately=9, recent=0) for n in range(5))
    assert alerts(a_glance(failures=many)) == ()


def test_failures_of_many_codes_surge_together() -> None:
    many = tuple(Failures(f"CODE_{n}", 9, 4, 7200) for n in range(5))
    alert = only(a_glance(failures=many))
    assert (alert.what, alert.evidence) == ("more fails than usual", "45 in 10m, usually 2")
    assert shows(alert, f"status:failed ended:>={ago(600).isoformat()}")


@given(st.integers(0, 10_000), st.one_of(st.none(), st.floats(0, 10_000)))
def test_a_surge_is_never_what_is_usual_nor_a_handful(lately: int, usual: float | None) -> None:
    if surges(lately, usual):
        assert lately >= 10
        assert usual is None or lately >= 5 * usual
        assert surges(lately + 1, usual)


def test_clocks_and_settings_that_differ_are_told_with_the_workers() -> None:
    alert = only(a_glance(clocks=(Clock("web-1", 12.4), Clock("web-2", -1.0), Clock("web-3", -45.0))))
    assert alert.evidence == "web-3 was 45s behind the database when it started, and 1 other worker"
    assert parse_workers(alert.workers or "").text == "id:web-1,web-3"
    alert = only(a_glance(report=a_report(settings_differ=True)))
    assert alert.what == "workers have different recovery settings"
    assert parse_workers(alert.workers or "").text == "-status:lost,died,stopped"


def test_a_sweep_that_is_not_run_is_an_alert_while_a_worker_lives() -> None:
    late = SweepState(ago(200), "web-1", 30_000, 0.0)
    alert = only(a_glance(report=a_report(sweep=late)))
    assert (alert.level, alert.evidence) == (Level.CRITICAL, "last recovery sweep 3m ago, due every 30s")
    assert alerts(a_glance(report=a_report(sweep=late, workers_alive=0))) == ()


def test_many_queues_over_their_targets_become_one_alert() -> None:
    queues = tuple(a_queue(f"q{n}", due=1, oldest_due_at=ago(900 + n)) for n in range(6))
    alert = only(a_glance(queues=queues))
    assert alert.what == "6 queues are over their targets"
    assert task_conditions(parse(alert.rows or "")).exact("queue") == tuple(f"q{n}" for n in range(6))


@given(st.lists(st.tuples(st.sampled_from(ALL_KINDS), st.integers(1, 9), st.sampled_from(Severity)), max_size=12))
def test_whatever_the_report_says_each_alert_opens_something_that_can_be_read(
    told: list[tuple[FindingKind, int, Severity]],
) -> None:
    findings = [
        a_finding(kind, f"name {n}", count, severity=severity) for n, (kind, count, severity) in enumerate(told)
    ]
    found = alerts(a_glance(*findings))
    assert len({alert.id for alert in found}) == len(found)
    assert [alert.level for alert in found] == sorted((alert.level for alert in found), reverse=True)
    for alert in found:
        parse(alert.rows or "")
        parse_workers(alert.workers or "")
    assert bool(found) is bool(findings)


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("number", [1, 5])
def test_the_words_of_each_kind_have_no_field_that_is_not_filled(kind: FindingKind, number: int) -> None:
    findings = [a_finding(kind, f"shop.t{n}", 3) for n in range(number)]
    for workers in ((a_worker(),), ()):
        alert = only(a_glance(*findings, workers=workers))
        assert re.search(r"\b(3|15|5|shop.t0)\b", alert.what)
        assert "{" not in alert.what + alert.in_verdict
        parse(alert.rows or "")
        parse_workers(alert.workers or "")


def test_no_two_kinds_have_the_same_name_or_place() -> None:
    assert len({kind.name for kind in ALL_KINDS}) == len({kind.place for kind in ALL_KINDS}) == len(ALL_KINDS)


def test_numbers_that_are_only_known_at_least_say_so() -> None:
    assert only(a_glance(a_finding(count=500, at_least=True))).what == "500+ shop.import stale on web-3"


@given(st.floats(0, 400_000))
def test_since_and_evidence_of_an_alert_say_the_same_length_of_time(silent_s: float) -> None:
    """Whenever the report was made: its evidence and the duration beside it are of that moment."""
    words = span(silent_s)
    finding = a_finding(since=ago(silent_s), evidence=f"no heartbeat of its run for {words}, threshold 5m00s")
    glance = replace(a_glance(finding), now=NOON + timedelta(seconds=4))
    alert = only(glance)
    assert alert.evidence.startswith(f"no heartbeat of its run for {alert.lasts}, threshold 5m")
    assert not re.search(r"\dm\d\ds", alert.evidence + alert.lasts)


def test_a_worker_is_named_as_the_list_of_workers_names_it() -> None:
    known = "pod-a-b-13785-3c0d4cd8"
    alert = only(a_glance(gone(known)))
    assert alert.what == "pod-a-b:13785 is lost, holds 13 tasks"
    assert task_conditions(parse(alert.rows or "")).exact("worker") == (known,)
    alert = only(a_glance(a_finding(worker_id=known)))
    assert alert.what == "1 shop.import stale on pod-a-b:13785"
    alert = only(a_glance(clocks=(Clock("web-1", 12.4),)))
    assert alert.evidence == "web-1:7 was 12s ahead of the database when it started"


def test_each_finding_has_an_alert_also_of_two_about_the_same_name() -> None:
    """Two damaged workflows of one name were two lines of the recovery report, and one alert."""
    both = [a_finding(DAMAGED_WORKFLOW, "month_end", target_kind="workflow", ids=(f"w-{n}",)) for n in range(2)]
    assert [alert.workflow for alert in alerts(a_glance(*both))] == ["w-0", "w-1"]
