"""The screen of a task, also of a real worker: sections, folds, search, copying, links, looks."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from forked_commands import Command
from task_screen_steps import ONE, THREE, TWO, Detail, failed, opened
from verb_steps import until

from horsies.domain.ids import new_task_id
from horsies_tui.clipboard import through_tmux

SIZES = [(200, 60), (160, 50), (120, 40), (100, 30), (80, 24)]
"""From the largest: what stood there before is too wide for the next."""


async def test_the_whole_story_is_there_at_every_size_keys_go_from_part_to_part_and_a_traceback_unfolds_and_folds(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection)
    async with opened(database, ONE) as detail:
        await detail.sees("timeline")
        parts = []
        for _ in range(4):
            assert detail.story.place is not None
            parts.append(detail.story.place.section)
            await detail.press("tab")
        assert parts == ["timeline", "heartbeats", "arguments", "outcome"]
        await detail.press("shift+tab", "shift+tab")
        assert detail.story.place.section == "arguments"
        await detail.press("right")
        assert detail.story.place.section == "outcome"
        await detail.press("left")
        assert detail.story.place.section == "arguments"
        for size in SIZES:
            await detail.resize(*size)
            await _tells_all(detail, size[0])
        await detail.go_to("traceback")
        await detail.press("enter")
        await detail.sees("Traceback:")
        await detail.press("down", "down", "left")
        assert "traceback" in detail.line
        await detail.press("left")
        await until(detail.pilot, lambda: "(38 lines)" in detail.line, "folded")


async def _tells_all(detail: Detail, width: int) -> None:
    await detail.press("home")
    await detail.sees("FAILED  CARD_DECLINED", "shop.charge_card", ONE, "2 of 2 tries", "timeline")
    assert all(len(line) <= width for line in detail.text.splitlines())
    seen = set()
    await detail.press("home")
    while True:
        seen |= set(detail.text.splitlines())
        before = detail.story.place
        await detail.press("pagedown")
        if detail.story.place == before:
            break
    told = "\n".join(seen)
    for words in (
        "ran 3m20s  on web-3",
        "WORKER_CRASHED",
        "retry after",
        "attempt 2, runner web-1:4120",
        "♥♥♥♥",
        "stale after 5m00s",
        '"the bank says no"',
        "(38 lines) ValueError: no",
        '"s3://shop/a.csv"',
        'api_token "***"',
        "operator actions",
        "worker    web-1",
        "shop.charge_card with CARD_DECLINED",
    ):
        assert words in told, words
    assert "hunter2" not in told


async def test_the_last_output_of_failed_attempts_is_shown_and_unfolds(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection)
    keep = "UPDATE horsies_task_attempts SET output = $1 WHERE attempt = $2"
    await connection.execute(keep, "\n".join(["\x1b[31mred\x1b[0m", *(f"line {at}" for at in range(2, 41))]), 2)
    await connection.execute(keep, "killed soon", 1)
    async with opened(database, ONE, (120, 60)) as detail:
        text = await detail.sees("last output", "▸ try 2  … 34 earlier lines left out", "line 35", "line 40")
        assert "line 34" not in text
        await detail.sees("▸ try 1  … 1 line left out", "operator actions")
        assert "killed soon" not in text
        await detail.go_to("try 1")
        await detail.press("enter")
        await detail.sees("▾ try 1", "killed soon")
        await detail.go_to("try 2")
        await detail.press("enter")
        await detail.sees("▾ try 2", "line 34")
        assert "left out" not in detail.text
        await detail.go_to("red")
        assert "\x1b" not in detail.line


async def test_a_search_finds_what_is_folded_and_not_what_is_masked_and_goes_on_when_the_task_changes(
    database: str, connection: asyncpg.Connection
) -> None:
    rows = json.dumps({"rows": [{"sku": f"item-{n}"} for n in range(1_000)], "api_token": "hunter2"})
    await failed(connection, kwargs=f"'{rows}'")
    async with opened(database, ONE) as detail:
        await detail.sees("timeline")
        await detail.press("n")
        await detail.sees("nothing to repeat; / starts a search")
        await detail.press("slash", *"hunter2", "enter")
        await detail.sees("hunter2 not found")
        await detail.press("slash", "ctrl+u", *"ITEM-99", "enter")
        await detail.sees("ITEM-99: 1 of 11")
        assert "item-99" in detail.line
        await detail.press("n")
        await detail.sees("ITEM-99: 2 of 11")
        assert "item-990" in detail.line
        await detail.press("N", "N")
        await detail.sees("ITEM-99: 11 of 11")
        assert "item-999" in detail.line
        await detail.press("escape")
        await detail.loses("of 11")
        await detail.sees(ONE)
        await detail.press("slash", "ctrl+u", *"frame", "enter")
        await detail.sees("frame: 1 of 36")
        await detail.press("n")
        await connection.execute('UPDATE horsies_tasks SET result = \'{"ok": "frame"}\' WHERE id = $1', ONE)
        await detail.press("ctrl+r")
        await detail.sees("frame: 1 of 1")
        await detail.press("n")
        assert "frame" in detail.line


async def test_links_are_followed_esc_comes_back_and_brackets_walk_through_the_list(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, THREE, created_at="now() - interval '1 min'")
    await failed(connection, TWO, created_at="now() - interval '30 s'")
    await failed(connection, ONE, rerun_of=f"'{TWO}'", created_at="now()")
    async with opened(database, None) as detail:
        await detail.sees("shop.charge_card")
        await detail.press("enter")
        await detail.sees(ONE, "timeline")
        for task_id in (TWO, THREE):
            await detail.press("right_square_bracket")
            await detail.sees(task_id)
        await detail.press("right_square_bracket")
        await detail.sees("this is the last row of the list")
        await detail.press("left_square_bracket", "left_square_bracket")
        await detail.sees("rerun of")
        await detail.go_to("rerun of")
        await detail.press("enter")
        await detail.sees("rerun as")
        assert f" {TWO} " in detail.text.splitlines()[2]
        await detail.press("escape")
        await detail.sees("rerun of")
        await detail.go_to("worker ")
        await detail.press("enter")
        await detail.sees("id:web-1", "3 Workers")


async def test_it_is_live_while_it_is_open(database: str, connection: asyncpg.Connection) -> None:
    await failed(connection, status="'RUNNING'", failed_at="NULL", error_code="NULL", result="NULL", started_at="now()")
    await connection.execute("DELETE FROM horsies_task_attempts WHERE attempt = 2")
    async with opened(database, ONE) as detail:
        await detail.sees("▶ RUNNING", "s on web-1 child 4120")
        age = _age(detail)
        await until(detail.pilot, lambda: _age(detail) > age, "an age that grows")
        await detail.go_to("path")
        await connection.execute(
            "UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now(),"
            ' result = \'{"__task_result__": true, "ok": {"rows": 3}, "err": null}\' WHERE id = $1',
            ONE,
        )
        await detail.sees("✓ COMPLETED", "rows 3")
        assert "path" in detail.line


def _age(detail: Detail) -> int:
    found = re.search(r"▶ RUNNING (\d+)s", detail.text)
    assert found is not None
    return int(found[1])


async def test_times_are_shown_in_utc_or_local(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        await failed(connection)
        async with opened(database, ONE) as detail:
            await detail.sees("timeline")
            await detail.press("u")
            await detail.sees("+0530")
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_y_copies_the_task_as_json_and_capital_y_the_value(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    await failed(connection)
    async with opened(database, ONE) as detail:
        await detail.sees("timeline")
        written: list[str] = []
        assert detail.app._driver is not None
        detail.app._driver.write = written.append
        await detail.press("y")
        await detail.sees("of JSON")
        copied = detail.app.clipboard
        assert json.loads(copied)["task"]["id"] == ONE
        assert json.loads(copied)["kwargs"]["api_token"] == "***"
        plain = next(raw for raw in written if raw.startswith("\x1b]52;c;"))
        assert base64.b64decode(plain[7:-1]).decode() == copied
        assert through_tmux(plain) in written
        await detail.go_to("path")
        await detail.press("Y")
        await detail.sees("15 B sent to the terminal (OSC 52)")
        assert detail.app.clipboard == "s3://shop/a.csv"
        await detail.go_to("kwargs")
        await detail.press("Y")
        await until(detail.pilot, lambda: "api_token" in detail.app.clipboard, "copied")
        assert json.loads(detail.app.clipboard) == {"path": "s3://shop/a.csv", "api_token": "***"}


async def test_what_is_too_long_for_a_clipboard_is_written_to_a_file(
    database: str, connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await failed(connection, kwargs="json_build_object('text', repeat('x', 300000), 'api_token', 'hunter2')::text")
    async with opened(database, ONE) as detail:
        await detail.sees("only the beginning of 300 kB; y copies all")
        await detail.press("y")
        await detail.sees("too large for the terminal's clipboard", "writes horsies-task-1cd6ba9a.json")
        await detail.press("enter")
        await detail.sees("wrote 30")
        written = json.loads((tmp_path / "horsies-task-1cd6ba9a.json").read_text())
        assert len(written["kwargs"]["text"]) == 300_000
        assert written["kwargs"]["api_token"] == "***"
        await detail.press("y")
        await detail.sees("exists; choose another name")


APPS = Path(__file__).parent.parent / "process"


@pytest.fixture(params=[{"processes": "2", "prefetch": "0"}], ids=[""])
def hanging(request: pytest.FixtureRequest, database: str) -> Iterator[None]:
    """A worker for tasks that hang."""
    process = Command(
        ["worker", "hang_app:app", "--processes", request.param["processes"]],
        env={**os.environ, "HORSIES_DATABASE_URL": database, "HANG_APP_PREFETCH": request.param["prefetch"]},
        cwd=APPS,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    yield
    process.kill()
    process.wait()


async def test_an_operator_looks_into_a_running_task_and_nothing_is_asked_after_that(
    database: str, connection: asyncpg.Connection, hanging: None
) -> None:
    task_id, other = new_task_id(), new_task_id()
    await connection.executemany(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, args, enqueue_sha)"
        " VALUES ($1, $2, 'default', $3, 'by-hand')",
        [(task_id, "wait_for_a_lock", '["s3cret"]'), (other, "hold_the_gil", "[0]")],
    )
    async with opened(database, task_id) as detail:
        await detail.sees("▶ RUNNING")
        await detail.press("S")
        assert "C code seems to hold the GIL" not in detail.text
        await detail.sees(f"stack of {task_id}", "process/hang_app.py", "settle", "with lock:", "unchanged for")
        await detail.sees("wait_for_a_lock runs for", ", in settle")
        assert await connection.fetchval("SELECT count(*) FROM horsies_looks") == 1
        await detail.press("escape")
        await detail.loses("with lock:")
        await detail.press("O")
        await detail.sees(f"output of {task_id}", "begun", "1 line; following")
        await detail.press("escape")
        await detail.loses("; following")
    async with opened(database, other) as detail:
        await detail.sees("▶ RUNNING")
        await detail.press("S")
        await detail.sees("C code seems to hold the GIL: only the thread of the task is shown")
        await detail.sees("sleep(3_600)", "hold_the_gil runs for")
        await detail.press("escape")
        await detail.loses("hold_the_gil runs for")
        async with asyncio.timeout(30):
            while await connection.fetchval("SELECT count(*) FROM horsies_looks"):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
    verbs = await connection.fetch(
        "SELECT verb, after_state ->> 'kind' AS kind FROM horsies_operator_actions ORDER BY id"
    )
    assert [tuple(row) for row in verbs] == [("look", "stack"), ("look", "output"), ("look", "stack")]
