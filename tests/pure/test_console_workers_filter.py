"""The filter of the workers screen: matches and errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from worker_scene import NOON, a_worker, ago, gone

from horsies.query import FilterError, completions, parse_workers
from horsies.query.other_keys import WORKERS
from horsies.views import Liveness
from horsies.views.row_filter import matching

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
