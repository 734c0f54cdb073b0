"""Which alerts are new, and the title that the terminal gets."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from health_scene import NOON, a_queue, a_report, a_worker, gone
from test_console_link_status import STATUS
from textual.app import App

from horsies.views import Failures
from horsies_tui.feed.status import LinkState
from horsies_tui.health.alerts import Alert, Level
from horsies_tui.health.glance import Glance
from horsies_tui.health.watch import FORGOTTEN_AFTER, AlertWatch
from horsies_tui.look.glyphs import glyphs
from horsies_tui.settings import ConsoleSettings
from horsies_tui.shell.attention import Attention, has_title, title_of

WORSE, BAD = Alert("a", Level.CRITICAL, "a", ""), Alert("b", Level.DEGRADED, "b", "")


def a_glance(*codes: str, minutes: float = 0) -> Glance:
    """Failures surge with these codes."""
    surges = tuple(Failures(code, 100, 0, 600.0) for code in codes)
    now = NOON + minutes * FORGOTTEN_AFTER / 5
    return Glance(now, (a_worker(),), (a_queue(),), failures=surges)


def news(*glances: Glance) -> list[bool]:
    watch, report = AlertWatch({}), a_report()
    return [watch.judge(glance, report) for glance in glances]


def test_what_is_there_at_the_first_look_is_not_new_and_what_comes_is_once() -> None:
    assert news(a_glance("A"), a_glance("A", "B", minutes=1), a_glance("A", "B", minutes=2)) == [False, True, False]


def test_an_alert_that_comes_back_is_new_only_after_a_while() -> None:
    assert news(a_glance("A"), a_glance(minutes=1), a_glance("A", minutes=2)) == [False, False, False]
    assert news(a_glance("A"), a_glance(minutes=1), a_glance("A", minutes=7)) == [False, False, True]


def test_alerts_that_are_no_longer_merged_are_not_new() -> None:
    watch, workers = AlertWatch({}), [f"web-{number}" for number in range(1, 6)]
    shown = []
    for minutes, many in enumerate((0, 4, 5, 4)):
        found = a_report(*(gone(worker) for worker in workers[:many]))
        shown.append((watch.judge(a_glance(minutes=minutes), found), len(watch.alerts or ())))
    assert shown == [(False, 0), (True, 4), (True, 1), (False, 4)]


def test_nothing_is_judged_before_both_parts_are_read() -> None:
    watch = AlertWatch({})
    assert watch.judge(None, a_report()) is watch.judge(a_glance("A"), None) is False
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


@pytest.mark.parametrize(
    ("term", "has"), [("xterm-256color", True), ("tmux", True), ("linux", False), ("vt220", False)]
)
def test_terminals_without_a_window_get_no_title(term: str, has: bool) -> None:
    assert has_title({"TERM": term}) is has


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
    one = session(a_glance("A"))
    attention.look(one, STATUS)
    one.watch.snapshot.glance = a_glance("A", "B", minutes=1)
    attention.look(one, STATUS)
    attention.look(session(a_glance("A", "B", "C", minutes=2)), STATUS)
    assert app.rang == on, "alerts of another database are not new"
    assert attention.title == ("horsies prod ● Degraded, 3 alerts" if on else "")
