"""The texts of the task list before there are rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from horsies_tui.feed.status import LinkState, LinkStatus
from horsies_tui.task.export import file_end
from horsies_tui.tasks.snapshot import TaskSnapshot
from horsies_tui.tasks.words import empty_words

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
        (CONNECTING, 4, ["No answer yet from db01/app", "@ chooses another database"]),
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
