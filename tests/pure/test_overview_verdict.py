"""The verdict: one line with the worst alerts, and no alarm if there are none."""

from __future__ import annotations

from health_scene import a_finding, a_glance, a_queue, a_report, a_worker, ago, gone

from horsies.findings import Severity
from horsies.findings.searches.interrupted import INTERRUPTED
from horsies.views import Liveness, QueueRate
from horsies_tui.health.alerts import Level, alerts
from horsies_tui.health.glance import Glance
from horsies_tui.health.verdict import Verdict, verdict


def judged(glance: Glance) -> Verdict:
    return verdict(glance, alerts(glance))


def said(glance: Glance) -> str:
    found = judged(glance)
    return found.lead + found.words


def test_all_is_well_with_workers_their_load_and_what_is_due() -> None:
    assert said(a_glance()) == "Healthy: 2 workers, 50% busy, nothing waits."
    queues = (a_queue(due=3), a_queue("bulk", due=600))
    glance = a_glance(queues=queues, rates={"mail": QueueRate(1, 9), "bulk": QueueRate(0, 1)})
    assert said(glance) == "Healthy: 2 workers, 50% busy, 603 waiting; bulk clear in 10m."
    assert judged(glance).alert is None


def test_a_vanished_worker_comes_first_and_the_slowest_queue_last() -> None:
    interrupted = a_finding(
        INTERRUPTED, "build_report", 2, severity=Severity.NEEDS_ACTION, since=ago(9000), worker_id=None
    )
    glance = a_glance(
        interrupted, gone(), a_finding(count=3),
        queues=(a_queue(due=1440, oldest_due_at=ago(30)),), rates={"mail": QueueRate(28, 30)},
    )  # fmt: skip
    found = judged(glance)
    assert found.lead + found.words == (
        "Critical: web-3 is lost for 6m, holds 13 tasks, 3 stale; 2 build_report interrupted; mail clear in 12m."
    )
    assert found.level is Level.CRITICAL
    assert found.alert == alerts(glance)[0]


def test_what_does_not_fit_is_counted() -> None:
    findings = [a_finding(name=f"t{n}", worker_id=None) for n in range(4)]
    assert said(a_glance(*findings)) == "Degraded: 1 t0 stale; 1 t1 stale; 2 more alerts below."


def test_where_the_line_is_short_less_is_said_and_nothing_is_cut_that_need_not_be() -> None:
    queues = (a_queue(due=1440, oldest_due_at=ago(30)),)
    glance = a_glance(gone(), *(a_finding(name=f"t{n}", worker_id=None) for n in range(2)), queues=queues,
                      rates={"mail": QueueRate(28, 30)})  # fmt: skip
    found = {room: verdict(glance, alerts(glance), room).words for room in (200, 100, 80, 60, 9)}
    assert found[200].endswith("13 tasks; 1 t0 stale; 1 more alert below; mail clear in 12m.")
    assert found[100] == "web-3 is lost for 6m, holds 13 tasks; 1 t0 stale; 1 more alert below; mail clear in 12m."
    assert found[80] == "web-3 is lost for 6m, holds 13 tasks; 2 more alerts below."
    assert found[60] == found[9] == "web-3 is lost for 6m, holds 13 tasks."


def test_notes_alone_leave_all_well() -> None:
    glance = a_glance(workers=(a_worker(), a_worker("web-2", Liveness.LOST, 60, running=0)))
    assert said(glance) == "Healthy: 1 worker, 50% busy, nothing waits."


def test_without_workers_and_work_nothing_is_said_to_be_well() -> None:
    found = judged(a_glance(workers=(), report=a_report(workers_alive=0, sweep=None)))
    assert (found.lead, found.words) == ("", "No worker is alive; nothing waits.")
    first = judged(a_glance(workers=(), had_workers=False, queues=(a_queue(due=3),)))
    assert (first.lead, first.words) == ("", "No worker yet; 3 waiting.")
