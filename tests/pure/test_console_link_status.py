"""The status of the link, its clock, what a database lacks; which alerts are new, and the title of the terminal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from health_scene import NOON, a_queue, a_report, a_worker, gone
from hypothesis import given, strategies as st
from textual.app import App

from horsies.domain.errors import HorsiesError
from horsies.store.schema.state import SchemaKind, SchemaState
from horsies.views import Failures
from horsies.views.reader_session import Replay, Tables
from horsies_tui.feed.clock import DatabaseClock
from horsies_tui.feed.freshness import StandbyLag
from horsies_tui.feed.status import FeedFailure, LinkState, LinkStatus, lacks, sentence
from horsies_tui.health.alerts import Alert, Level
from horsies_tui.health.glance import Glance
from horsies_tui.health.watch import FORGOTTEN_AFTER, AlertWatch
from horsies_tui.look.glyphs import glyphs
from horsies_tui.settings import ConsoleSettings
from horsies_tui.shell.attention import Attention, title_of

NOW = datetime(2026, 11, 18, 12, 4, 31, tzinfo=UTC)
STATUS = LinkStatus(
    state=LinkState.LIVE,
    detail="",
    since=NOW - timedelta(minutes=5),
    last_data_at=NOW - timedelta(seconds=0.4),
    next_try_at=None,
    poll_s=2.0,
    latency_s=0.01,
    clock_offset_s=0.0,
    database_label="db01/app",
    context_name="prod",
    context_colour="red",
    production=True,
    read_only=False,
    actor="ops@bastion",
    server_version="18.1",
    lacks=(),
)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (STATUS, "LIVE 0.4s"),
        (replace(STATUS, last_data_at=at(-12.7)), "LIVE 13s"),
        (replace(STATUS, last_data_at=at(1)), "LIVE 0.0s"),
        (replace(STATUS, read_only=True), "LIVE 0.4s READ-ONLY"),
        (replace(STATUS, state=LinkState.POLL), "POLL 2s"),
        (replace(STATUS, state=LinkState.POLL, poll_s=0.5), "POLL 0.5s"),
        (replace(STATUS, state=LinkState.FAILED, failing=(FeedFailure("tasks", "why", at(-38)),)), "tasks FAILED 38s"),
        (replace(STATUS, state=LinkState.SLOW, latency_s=2.03), "SLOW 2s"),
        (replace(STATUS, state=LinkState.OLD, failing=(FeedFailure("tasks", "why", at(-12), late=True),)), "OLD 12s"),
        (replace(STATUS, state=LinkState.STALE, last_data_at=at(-38), next_try_at=at(4.2)), "STALE 38s, retry in 4s"),
        (replace(STATUS, state=LinkState.STALE, last_data_at=at(-125)), "STALE 2m05s, connecting"),
        (replace(STATUS, state=LinkState.STALE, last_data_at=at(-7325)), "STALE 2h02m, connecting"),
        (replace(STATUS, state=LinkState.DOWN, last_data_at=None, next_try_at=at(-1)), "DOWN, retry in 0s"),
        (replace(STATUS, state=LinkState.CONNECTING, last_data_at=None, since=at(-4)), "CONNECTING 4s"),
    ],
)
def test_the_words_say_no_more_than_is_known(status: LinkStatus, words: str) -> None:
    assert status.words(NOW) == words


def at_one_moment(clock: DatabaseClock) -> tuple[datetime, float]:
    """Both times of the clock: asked again if the machine has run something else in between."""
    while True:
        before = clock.monotonic()
        now = clock.now()
        if clock.monotonic() - before < 0.005:
            return now, before


@given(ahead_s=st.floats(-1e6, 1e6), trips=st.lists(st.tuples(st.floats(0, 3), st.floats(0, 1)), min_size=1))
def test_the_clock_comes_as_near_to_the_database_as_its_answers_prove(
    ahead_s: float, trips: list[tuple[float, float]]
) -> None:
    clock = DatabaseClock()
    now, zero = at_one_moment(clock)
    started, asked = now + timedelta(seconds=ahead_s), zero
    for took, share in trips:
        told = started + timedelta(seconds=asked - zero + took * share)
        clock.learn(told, asked, asked + took)
        asked += took
    now, passed = at_one_moment(clock)
    error = (now - started).total_seconds() - (passed - zero)
    assert abs(error) <= min(took for took, _ in trips) + 0.01


def test_a_sentence_is_one_line_with_the_way_out() -> None:
    assert sentence(HorsiesError("it is gone", help_text="start it")) == "it is gone; start it"
    assert sentence(OSError("first line\nsecond line")) == "first line"
    assert sentence(ConnectionResetError()) == "ConnectionResetError"


def state(kind: SchemaKind, version: int) -> SchemaState:
    return SchemaState(kind, "public", version, "problem", "`horsies db upgrade` mends it")


@pytest.mark.parametrize(
    ("found", "here", "said"),
    [
        (state(SchemaKind.CURRENT, 6), Tables(True, True, True, True, True, NOW), ()),
        (state(SchemaKind.READ_ONLY, 6), Tables(True, True, True, True, True, NOW), ()),
        (
            state(SchemaKind.EMPTY, 0),
            Tables(False, False, False, False, False, NOW),
            ("problem; `horsies db upgrade` mends it",),
        ),
        (
            state(SchemaKind.OLDER, 4),
            Tables(True, True, False, False, False, NOW),
            ("workers cannot be drained", "problem; `horsies db upgrade` mends it"),
        ),
        (
            state(SchemaKind.UPSTREAM, 0),
            Tables(True, True, True, False, False, NOW),
            (
                "no indexes to page by: large tables are slow",
                "problem; `horsies db upgrade` mends it",
            ),
        ),
    ],
)
def test_what_a_database_lacks_is_said_with_the_command_last(
    found: SchemaState, here: Tables, said: tuple[str, ...]
) -> None:
    assert lacks(found, here) == said


def test_a_standby_lags_once_it_lacks_what_had_arrived_a_second_ago() -> None:
    def here(received: int, replayed: int, age_s: float, **more: bool) -> Replay:
        found = {"paused": False, "receives": True, **more}
        return Replay(received, replayed, NOW - timedelta(seconds=age_s), now=NOW, **found)

    lag = StandbyLag()
    # An idle primary: its last transaction is old, and there is nothing newer. Nor is it late by less than a second.
    for seen in (here(100, 100, 3_600), here(200, 100, 3_600), here(300, 200, 0.5), here(300, 300, 20)):
        lag.learn(seen)
        assert lag.since is None
    lag.learn(here(400, 300, 2))
    lag.learn(here(500, 300, 4))
    assert lag.since == NOW - timedelta(seconds=4)
    assert "replays later" in lag.why
    lag.learn(here(500, 300, 5, paused=True))
    assert "paused" in lag.why
    lag.learn(here(500, 500, 0))
    assert lag.since is None
    lag.learn(here(500, 500, 4, receives=False))
    assert "receives nothing from its primary" in lag.why
    lag.learn(None)
    assert lag.since is None


WORSE, BAD = Alert("a", Level.CRITICAL, "a", ""), Alert("b", Level.DEGRADED, "b", "")


def surging(*codes: str, minutes: float = 0) -> Glance:
    """Failures surge with these codes."""
    surges = tuple(Failures(code, 100, 0, 600.0) for code in codes)
    now = NOON + minutes * FORGOTTEN_AFTER / 5
    return Glance(now, (a_worker(),), (a_queue(),), failures=surges)


def news(*glances: Glance) -> list[bool]:
    watch, report = AlertWatch({}), a_report()
    return [watch.judge(glance, report) for glance in glances]


def test_what_is_there_at_the_first_look_is_not_new_and_what_comes_is_once() -> None:
    assert news(surging("A"), surging("A", "B", minutes=1), surging("A", "B", minutes=2)) == [False, True, False]


def test_an_alert_that_comes_back_is_new_only_after_a_while() -> None:
    assert news(surging("A"), surging(minutes=1), surging("A", minutes=2)) == [False, False, False]
    assert news(surging("A"), surging(minutes=1), surging("A", minutes=7)) == [False, False, True]


def test_alerts_that_are_no_longer_merged_are_not_new() -> None:
    watch, workers = AlertWatch({}), [f"web-{number}" for number in range(1, 6)]
    shown = []
    for minutes, many in enumerate((0, 4, 5, 4)):
        found = a_report(*(gone(worker) for worker in workers[:many]))
        shown.append((watch.judge(surging(minutes=minutes), found), len(watch.alerts or ())))
    assert shown == [(False, 0), (True, 4), (True, 1), (False, 4)]


def test_nothing_is_judged_before_both_parts_are_read() -> None:
    watch = AlertWatch({})
    assert watch.judge(None, a_report()) is watch.judge(surging("A"), None) is False
    assert watch.alerts is None


@pytest.mark.parametrize(
    ("alerts", "title"),
    [
        (None, "horsies prod ● connecting"),
        ((), "horsies prod ● Healthy"),
        ((BAD,), "horsies prod ● Degraded, 1 alert"),
        ((WORSE, BAD), "horsies prod ● Critical, 2 alerts"),
    ],
)
def test_the_title_names_the_database_and_its_verdict(alerts: tuple[Alert, ...] | None, title: str) -> None:
    assert title_of(STATUS, alerts, glyphs(ascii_only=False)) == title
    assert title_of(STATUS, alerts, glyphs(ascii_only=True)) == title.replace("●", "*")


def test_the_title_of_a_lost_connection_says_so_and_no_name_acts_on_the_terminal() -> None:
    down = replace(STATUS, state=LinkState.STALE, detail="cannot connect", context_name=None, database_label="a\x1b]b")
    assert title_of(down, (WORSE,), glyphs(ascii_only=False)) == "horsies a ]b ● no connection"
    assert len(title_of(replace(STATUS, context_name="x" * 500), (), glyphs(ascii_only=False))) == 80


@pytest.mark.parametrize("on", [False, True])
def test_the_bell_and_the_title_are_as_the_config_file_says(on: bool) -> None:
    """Without a driver nothing is written; tests/terminal/test_attention.py has the bytes."""

    class Quiet(App[None]):
        rang = 0

        def bell(self) -> None:
            self.rang += 1

    def session(glance: Glance) -> Any:
        read = SimpleNamespace(snapshot=SimpleNamespace(glance=glance, report=a_report()))
        return SimpleNamespace(is_open=True, watch=read, recovery=read)

    app, settings = Quiet(), ConsoleSettings(bell=on, title=on)
    attention = Attention(app, settings, glyphs(ascii_only=False), {"TERM": "xterm"})
    one = session(surging("A"))
    attention.look(one, STATUS)
    one.watch.snapshot.glance = surging("A", "B", minutes=1)
    attention.look(one, STATUS)
    attention.look(session(surging("A", "B", "C", minutes=2)), STATUS)
    assert app.rang == on, "alerts of another database are not new"
    assert attention.title == ("horsies prod ● Degraded, 3 alerts" if on else "")
