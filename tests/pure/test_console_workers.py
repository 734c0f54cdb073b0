"""The texts about workers on the workers screen, their order, and the filter."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given, strategies as st
from worker_scene import NOON, a_worker, ago, gone

from horsies.query import FilterError, completions, parse_workers
from horsies.query.other_keys import WORKERS
from horsies.run.worker.snapshots import Snapshots
from horsies.views import Liveness, WorkerRow
from horsies.views.row_filter import matching
from horsies.views.series import WorkerPoint
from horsies.views.workers import SNAPSHOT_EVERY_S
from horsies_tui.look.charts import Chart
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import zone_of
from horsies_tui.widgets.steady_order import SteadyOrder
from horsies_tui.workers.order import WorkerSort, by_host, in_order
from horsies_tui.workers.story import charts
from horsies_tui.workers.worker_texts import capacity, evidence, facts, megabytes, note, order, seen, summary, tone

UTC = zone_of(utc=True)
LATE = a_worker(2, liveness=Liveness.LATE, silent_s=20.0)


def told(row: WorkerRow) -> dict[str, str]:
    return {fact.label: fact.text for fact in facts(row, NOON, UTC, "W")}


def test_the_screen_knows_how_often_workers_tell_of_themselves() -> None:
    assert Snapshots.interval_s == SNAPSHOT_EVERY_S


def test_the_evidence_says_how_life_and_death_are_known() -> None:
    assert evidence(a_worker(), NOON, UTC) == "its last snapshot is 2s old; one comes every 5s"
    assert evidence(LATE, NOON, UTC).startswith("no sign of life for 20s, late after 12s; the last was its snapshot")
    assert "after 30s it counts as lost" in evidence(LATE, NOON, UTC)
    assert evidence(gone(), NOON, UTC) == (
        "no sign of life for 6m10s, lost after 30s; the last was its snapshot at 11:53:48Z"
    )


def test_one_that_only_beats_is_alive_by_its_tasks_and_that_is_said() -> None:
    row = a_worker(seen_by="beat", seen_at=ago(4), told={"at": ago(200)})
    assert evidence(row, NOON, UTC) == (
        "a heartbeat of a task that it holds was seen 4s ago, though snapshots are missing: the last is 3m20s old"
    )
    assert note(row, NOON) == "its snapshots are late, heartbeats of its tasks arrive"
    busy = a_worker(seen_by="claim", seen_at=ago(1), told={"at": ago(4)})
    assert (evidence(busy, NOON, UTC), note(busy, NOON)) == (
        "a claim was seen 1s ago, of its snapshots the last is 4s old",
        "mail pay",
    )
    mute = a_worker(seen_by="claim", snapshot=None)
    assert evidence(mute, NOON, UTC).endswith("none came yet")
    assert (mute.name, note(mute, NOON)) == ("web-1:4121", "no snapshot of it yet")
    assert told(mute)["id"] == mute.id


def test_only_those_that_left_tasks_behind_are_alarming() -> None:
    assert tone(gone(held=13)) is Tone.BAD
    assert tone(gone()) is Tone.MUTED
    assert (note(gone(held=13), NOON), note(gone(), NOON)) == ("holds 13 tasks", "held no task")
    assert note(a_worker(), NOON) == "mail pay"


def test_who_drains_says_by_whose_order_and_what_is_left_to_do() -> None:
    row = a_worker(
        liveness=Liveness.DRAINING, draining_since=ago(180), draining_by="ops@bastion", draining_reason="deploy"
    )
    assert order(row, NOON) == 'asked to drain 3m ago by ops@bastion: "deploy"'
    assert note(row, NOON) == "4 tasks to end first"
    stopping = a_worker(liveness=Liveness.DRAINING, told={"draining": True}, running=0, claimed=0)
    assert order(stopping, NOON) == "it is stopping and claims no more tasks"
    assert note(stopping, NOON) == "no task left, it is stopping"
    assert order(a_worker(), NOON) == ""


def test_the_facts_tell_load_memory_queues_and_process() -> None:
    found = told(a_worker())
    assert found["tasks"] == "3 running, 1 claimed; it has 8 processes"
    assert found["resources"] == "cpu 41 %, memory 100M (5 % of the machine), its children 300M"
    assert found["queues"] == "pay (at most 5), mail"
    assert found["process"] == "web-1 pid 4121, horsies 0.9.1, since 11:00:00Z (1h)"
    assert told(gone(held=2))["tasks"] == "1 running, 1 claimed; it had 8 processes"
    assert told(gone())["resources"].startswith("was cpu")
    settings = {
        "running_stale_threshold_ms": 300_000,
        "claimed_stale_threshold_ms": 120_000,
        "check_interval_ms": 30_000,
    }
    assert told(a_worker(told={"recovery_config": settings}))["recovery"] == (
        "runs are stale after 5m00s, claims after 2m00s, it sweeps every 30s"
    )
    assert told(gone(held=2))["actions"].startswith("recover now: W; otherwise a sweep")
    assert "actions" not in told(gone())


def test_silence_that_is_usual_is_one_word_so_that_nothing_ticks() -> None:
    assert [seen(a_worker(silent_s=s), NOON) for s in (0, 11, 13, 125)] == ["now", "now", "13s", "2m00s"]


def test_the_summary_begins_with_trouble_and_names_what_the_dead_held() -> None:
    rows = [a_worker(1), a_worker(2, told={"hostname": "web-2"}), LATE, gone(4, held=13), gone(5)]
    chips = summary(rows, UNICODE)
    assert [chip.text for chip in chips] == [
        "5 workers on 2 hosts",
        "✗ 2 lost, holding 13 tasks",
        "⚠ 1 late, holding 4 tasks",
        "♥ 2 alive",
    ]
    assert [chip.brief for chip in chips] == ["5 workers", "✗ 2 lost, holding 13 tasks", "⚠ 1 late", "♥ 2 alive"]
    assert chips[1].tone is Tone.BAD
    assert [chip.text for chip in summary([gone()], ASCII)] == ["1 worker on 1 host", "x 1 lost"]
    assert capacity(rows) == "9 tasks on 24 processes"
    assert capacity([gone()]) == ""


@pytest.mark.parametrize(
    ("amount", "text"), [(None, ""), (0.0, "0M"), (412.4, "412M"), (1100, "1.1G"), (20_480, "20G")]
)
def test_memory_is_five_places_at_most(amount: float | None, text: str) -> None:
    assert megabytes(amount) == text


def test_trouble_stands_first_and_harmless_dead_last() -> None:
    drains = a_worker(3, liveness=Liveness.DRAINING)
    rows = [gone(5), a_worker(1), drains, LATE, gone(4, held=1)]
    assert [row.id[6:10] for row in in_order(rows, WorkerSort.TROUBLE)] == ["4124", "4122", "4123", "4121", "4125"]


def test_names_are_sorted_as_people_count() -> None:
    rows = [a_worker(told={"hostname": host}) for host in ("web-10", "web-9", "db-1")]
    assert [row.name for row in in_order(rows, WorkerSort.NAME)] == ["db-1:4121", "web-9:4121", "web-10:4121"]


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        (WorkerSort.LOAD, 2),
        (WorkerSort.TASKS, 3),
        (WorkerSort.CPU, 1),
        (WorkerSort.MEMORY, 2),
        (WorkerSort.YOUNGEST, 3),
        (WorkerSort.SILENT, 4),
    ],
)
def test_each_order_brings_what_it_is_called_to_the_top(sort: WorkerSort, first: int) -> None:
    rows = [
        a_worker(1, told={"cpu_percent": 99.0}),
        a_worker(2, running=8, told={"memory_mb": 900.0}),
        a_worker(3, claimed=40, told={"started_at": ago(5)}),
        gone(4, told={"cpu_percent": 100.0, "memory_mb": 5000.0, "started_at": ago(1)}),
    ]
    assert in_order(rows, sort)[0].id == rows[first - 1].id


SOME_WORKERS = st.lists(st.integers(1, 30), unique=True).map(lambda numbers: [a_worker(number) for number in numbers])


@given(before=SOME_WORKERS, now=SOME_WORKERS)
def test_who_was_there_keeps_its_place_and_who_is_new_stands_below(
    before: list[WorkerRow], now: list[WorkerRow]
) -> None:
    order, by_name = SteadyOrder(), partial(in_order, sort=WorkerSort.NAME)
    order.arranged(before, (), by_name, 0.0, busy=False, moves=False)
    places = [row.id for row in before]
    found = [row.id for row in order.arranged(now, before, by_name, 9.0, busy=True, moves=False)]
    kept = [worker_id for worker_id in places if worker_id in found]
    assert sorted(found) == sorted(row.id for row in now)
    assert found[: len(kept)] == kept


def test_a_host_sums_up_those_of_its_workers_that_live() -> None:
    rows = [
        a_worker(1),
        a_worker(2, told={"version": "0.9.0"}),
        gone(3, held=13),
        a_worker(4, told={"hostname": "db-1"}),
        a_worker(5, snapshot=None),
    ]
    hosts = by_host(rows)
    assert [host.id for host in hosts] == ["web-1", "db-1", ""]
    web = hosts[0]
    assert (web.busy, web.claimed, web.processes, web.cpu, web.left_behind) == (6, 2, 16, 82.0, 13)
    assert web.versions == ("0.9.0", "0.9.1")
    assert (web.count(Liveness.ALIVE), web.count(Liveness.LOST)) == (2, 1)
    assert a_worker().silent(NOON - timedelta(minutes=1)) == timedelta()


def point(**fields: float) -> WorkerPoint:
    return WorkerPoint(NOON, NOON, **fields)  # type: ignore[arg-type]


def of(*points: WorkerPoint) -> dict[str, Chart]:
    return {chart.title: chart for chart in charts(points, "1h")}


def test_a_scale_holds_all_that_a_worker_can_do_and_what_it_did_beyond() -> None:
    found = of(
        point(running=1, processes=8, cpu_percent=12.0, memory_mb=100.0, children_memory_mb=50.0, claimed=0),
        point(running=2, processes=8, cpu_percent=130.0, memory_mb=100.0, claimed=20),
    )
    assert (found["busy"].top, found["cpu"].top, found["memory"].height) == (20, 130.0, 200.0)
    assert [curve.now for curve in found["busy"].curves] == ["2/8", "20"]
    assert [curve.now for curve in found["memory"].curves] == ["100M", "100M"]
    assert found["memory"].curves[0].values == (150.0, 100.0)


def test_an_idle_worker_does_not_look_busy() -> None:
    found = of(point(running=0, claimed=0, processes=8, cpu_percent=0.4))
    assert (found["busy"].top, found["cpu"].top) == (8, 100.0)
    assert found["cpu"].curves[0].now == "0%"


def test_what_was_told_long_ago_is_not_called_now() -> None:
    told, silence = point(running=3, processes=8), WorkerPoint(NOON)
    assert of(told, silence, silence)["busy"].curves[0].now == ""
    assert of(told, silence)["busy"].curves[0].now == "3/8"
    assert of(told, silence, silence)["busy"].curves[0].values == (3, None, None)


def test_a_hundred_async_tasks_in_two_processes_are_two_busy_processes() -> None:
    found = of(point(running=100, claimed=0, processes=2), point(running=None, claimed=0, processes=2))
    assert (found["busy"].top, found["busy"].height) == (2, 2)
    assert found["busy"].curves[0].values == (2, None)
    assert found["busy"].curves[0].now == "2/2"


ROWS = {
    "busy": a_worker(1, running=8, told={"cpu_percent": 97.5}),
    "idle": a_worker(
        2, id="db-2-7-0a", running=0, claimed=0, told={"hostname": "db-2", "queues": ("bulk",), "version": "0.8.0"}
    ),
    "late": a_worker(3, liveness=Liveness.LATE, silent_s=20.0),
    "dead": gone(4, held=13),
    "left": gone(5, silent_s=7200.0),
    "told": replace(a_worker(6, liveness=Liveness.DRAINING), draining_since=ago(60)),
    "mute": a_worker(7, snapshot=None, id="mute-1"),
    "large": a_worker(8, told={"children_memory_mb": 1900.0, "started_at": ago(30)}),
}


def found(text: str) -> set[str]:
    rows = matching(parse_workers(text), ROWS.values(), NOON)
    return {name for name, row in ROWS.items() if row in rows}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set(ROWS)),
        ("status:gone", {"dead", "left"}),
        ("status:silent has:tasks", {"late", "dead"}),
        ("-status:alive", {"late", "dead", "left", "told"}),
        ("status:draining", {"told"}),
        ("has:order", {"told"}),
        ("-has:tasks", {"idle", "left"}),
        ("host:db-*", {"idle"}),
        ("-host:web-1", {"idle", "mute"}),
        ("queue:pay,bulk status:alive", {"busy", "idle", "large"}),
        ("version:0.8.*", {"idle"}),
        ("pid:4121", {"busy"}),
        ("id:mute*", {"mute"}),
        ("id:web-1:4121", {"busy"}),
        ("id:web-1-4121-*", {"busy"}),
        ("id:db-2:*", {"idle"}),
        ("-id:web-1:*", {"idle", "mute"}),
        ("mute", {"mute"}),
        ("db-2", {"idle"}),
        ("-web", {"idle", "mute"}),
        ("load:>80", {"busy"}),
        ("cpu:>97", set()),
        ("cpu:>96", {"busy"}),
        ("mem:>1000", {"large"}),
        ("tasks:>10", {"dead"}),
        ("tasks:2..8 status:alive", {"mute", "large"}),
        ("up:<1m", {"large"}),
        ("silent:>1h", {"left"}),
        ("silent:>15s silent:<1m", {"late"}),
    ],
)
def test_each_key_means_what_its_help_says(text: str, names: set[str]) -> None:
    assert found(text) == names


@pytest.mark.parametrize(
    ("text", "message", "suggestion"),
    [
        ("status:dead", "status cannot be 'dead'", "died"),
        ("status:alife", "status cannot be 'alife'", "alive"),
        ("memory:>5", "there is no key 'memory'", "mem"),
        ("hots:web", "there is no key 'hots'", "host"),
        ("load:much", "'much' is not a number", None),
        ("up:5m", "5m alone is not a range", ">5m"),
        ("status:alive -status:alive", "no state is left", None),
        ("has:tasks -has:tasks", "no worker both has and lacks tasks", None),
    ],
)
def test_what_cannot_be_meant_is_told_with_the_way_out(text: str, message: str, suggestion: str | None) -> None:
    with pytest.raises(FilterError) as wrong:
        parse_workers(text)
    problem = wrong.value.problems[0]
    assert message in problem.message
    assert problem.suggestion == suggestion


def test_keys_words_and_what_exists_are_offered() -> None:
    assert [each.text for each in completions("st", 2, {}, WORKERS)][:1] == ["status:"]
    assert "gone" in [each.text for each in completions("status:g", 8, {}, WORKERS)]
    assert [each.text for each in completions("host:w", 6, {"host": ["web-1", "db"]}, WORKERS)] == ["web-1"]


def test_one_that_has_told_nothing_is_named_and_found_by_what_its_id_is_made_of() -> None:
    row = a_worker(9, snapshot=None, id="pod-a-7-3c0d4cd8")
    assert row.name == "pod-a:7"
    assert matching(parse_workers("id:pod-a:7"), [row], NOON) == [row]
    assert a_worker(9, snapshot=None, id="by-hand").name == "by-hand"


@given(st.integers(0, 500), st.integers(1, 64))
def test_no_worker_is_busier_than_it_has_processes(running: int, processes: int) -> None:
    """A process may run a hundred async tasks; the worker does not report how many it could run."""
    row = a_worker(1, running=running, told={"processes": processes})
    assert row.load is not None
    assert row.busy is not None
    assert 0 <= row.load <= 1
    assert row.busy == min(running, processes)
    assert (matching(parse_workers("load:>100"), [row], NOON)) == []
