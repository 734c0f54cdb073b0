"""The texts of the task list before there are rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from horsies.query import parse
from horsies.views import Count, Sort, TaskCounts
from horsies_tui.feed.status import LinkState, LinkStatus
from horsies_tui.look.glyphs import UNICODE
from horsies_tui.task.export import file_end
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot
from horsies_tui.tasks.task_list_texts import empty_words, tally

NOW = datetime(2026, 11, 18, 3, 0, tzinfo=UTC)
CONNECTING = LinkStatus(
    state=LinkState.CONNECTING,
    detail="",
    since=NOW,
    last_data_at=None,
    next_try_at=None,
    poll_s=2.0,
    latency_s=None,
    clock_offset_s=0.0,
    database_label="db01/app",
    context_name=None,
    context_colour=None,
    production=False,
    read_only=False,
    actor="ops@bastion",
    server_version=None,
    lacks=(),
)


@pytest.mark.parametrize(
    ("task_id", "end"),
    [
        ("019a7c2e-9999-7000-8000-0000feedf00d", "feedf00d"),
        ("order/../..", "er______"),
        ("\x1b]0;t\x07[/x]", "0_t___x_"),
        ("t1", "t1"),
    ],
)
def test_the_end_of_an_id_is_no_path(task_id: str, end: str) -> None:
    assert file_end(task_id) == end


@pytest.mark.parametrize(
    ("status", "after_s", "words"),
    [
        (CONNECTING, 1, ["Connecting to db01/app"]),
        (CONNECTING, 4, ["No answer yet from db01/app", "@ opens another database"]),
        (
            replace(CONNECTING, state=LinkState.DOWN, detail="nothing answers at db01:5432"),
            12,
            ["Not connected to db01/app.", "nothing answers at db01:5432"],
        ),
    ],
)
def test_without_a_connection_it_says_to_which_database_and_why(
    status: LinkStatus, after_s: int, words: list[str]
) -> None:
    said = empty_words(TaskSnapshot(), status, NOW + timedelta(seconds=after_s))
    assert [word for word in words if word not in said] == []


def test_a_refusal_that_says_what_is_missing_says_it_once() -> None:
    lack = "schema public has no horsies tables; `horsies db init` creates them"
    status = replace(CONNECTING, state=LinkState.LIVE, last_data_at=NOW, lacks=(lack,))
    said = empty_words(TaskSnapshot(error=lack), status, NOW)
    assert said.count("horsies db init") == 1


@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.RUNNING])
@pytest.mark.parametrize("searched", ["", "searched back to 2026-11-17 12:04Z"])
def test_the_count_and_the_empty_list_below_it_agree(sort: Sort, searched: str) -> None:
    """`5 match` stood above `No task matches`: the count was older than the rows, or of other rows than the order's."""
    need = TaskNeed(parse("queue:mail"), sort)
    found = TaskCounts({"PENDING": Count(5)}, None, None)
    whole = {"at_start": True, "at_end": not searched, "searched": searched, "now": NOW, "loading": False}
    snapshot = TaskSnapshot(counts=found, filter_text="queue:mail", sort=sort, **whole)
    counts = tally(snapshot, need, UNICODE, UTC, frozen=False, up=True).counts
    said = empty_words(snapshot, replace(CONNECTING, state=LinkState.LIVE), NOW)
    assert counts is not None
    assert ("No task matches" in said) is (counts.total.number == 0)
    assert counts.total.number == 0 or "5 match" in said
