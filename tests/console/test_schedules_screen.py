"""The schedules screen on a real database: the list, the story of one schedule, and what operators do."""

from __future__ import annotations

import asyncpg
import pytest
from schedule_scene import AT_HALF_PAST_TWO, add_run, add_schedule, add_scheduler, definition
from schedule_steps import schedules
from verb_steps import until

from horsies_tui.task.view import DetailView
from horsies_tui.tasks.view import TasksView

BERLIN = "Europe/Berlin"


@pytest.fixture
async def shop(connection: asyncpg.Connection) -> asyncpg.Connection:
    """Three schedules: a calm one that has run and failed, an overdue one, and one that is paused."""
    await add_schedule(connection, "nightly", definition(AT_HALF_PAST_TWO, timezone=BERLIN), next_s=7_500, runs=41)
    await add_run(connection, "nightly", 700, "FAILED", error_code="'TIMEOUT'", failed_at="now() - interval '698 s'")
    await add_run(connection, "nightly", 600, "COMPLETED", took_s=62)
    await add_schedule(connection, "labels", definition(target="shop.labels"), next_s=-400)
    await add_schedule(connection, "mails", definition(target="shop.mail"), next_s=-5)
    await connection.execute(
        "UPDATE horsies_schedules SET paused_at = now() - interval '12 min', paused_by = 'eva@db', reason = 'too many'"
        " WHERE schedule_name = 'mails'"
    )
    await connection.execute(
        "UPDATE horsies_schedule_state SET next_run_at = (date_trunc('day', now() AT TIME ZONE $1)"
        " + interval '1 day 2 h 30 min') AT TIME ZONE $1 WHERE schedule_name = 'nightly'",
        BERLIN,
    )
    await add_scheduler(connection, "nightly", "labels", "mails")
    return connection


@pytest.mark.usefixtures("shop")
async def test_schedules_are_listed_the_worst_first_each_with_its_story_and_past_runs_lead_to_their_tasks(
    database: str,
) -> None:
    async with schedules(database) as screen:
        await screen.sees("3 schedules", "1 overdue", "1 paused", "1 scheduled", "1 scheduler, web-1:7")
        assert screen.names == ["labels", "mails", "nightly"]
        labels, mails, nightly = (screen.line(f" {name} ") for name in screen.names)
        assert "▲ overdue" in labels
        assert "6m late" in labels
        assert "due for 6m" in labels
        assert 'paused 12m ago by eva@db: "too many"' in mails
        assert "daily 02:30 Europe/Berlin" in nightly
        assert "✗✓ " in nightly
        assert "1m02s" in nightly
        # The story below the list follows the cursor, and `enter` opens it alone.
        await screen.sees("── labels", "next runs", "past runs", "it has not run yet")
        await screen.press("G")
        await screen.sees("── nightly", "1 of 2 failed", BERLIN)
        await screen.press("enter")
        await screen.loses("3 schedules")
        text = await screen.sees("── nightly", "duration", "outcome", "TIMEOUT")
        assert sum("02:30+0" in line for line in text.splitlines()) == 10
        await screen.press("left_square_bracket")
        await screen.sees("── mails", "it is paused: none of these is sent")
        await screen.press("left_square_bracket", "left_square_bracket")
        await screen.sees("this is the first schedule of the list", "── labels")
        await screen.press("escape")
        await screen.sees("3 schedules")
        # `enter` on a past run opens its task, and the keys of its row go to the next run.
        await screen.press("G")
        await screen.sees("── nightly", "outcome")
        await screen.press("enter")
        await screen.loses("3 schedules")
        await screen.press("tab", "tab", "j", "j", "enter")
        await until(screen.pilot, lambda: isinstance(screen.app.stage.top, DetailView), "opens the task")
        await screen.sees("nightly-600")
        await screen.press("right_square_bracket")
        await screen.sees("nightly-700", "TIMEOUT")
        await screen.press("right_square_bracket")
        await screen.sees("this is the last row of the list")
        await screen.press("escape")
        await screen.sees("── nightly", "outcome")
        await screen.press("g", "j", "j", "j", "enter")
        await until(screen.pilot, lambda: isinstance(screen.app.stage.top, TasksView), "shows its tasks")
        await screen.sees("name:shop.report")
        await screen.press("escape", "escape")
        await screen.sees("── nightly", "outcome")


async def test_a_schedule_is_paused_resumed_skipped_and_run_by_key_and_the_last_is_undone(
    database: str, shop: asyncpg.Connection
) -> None:
    async with schedules(database) as screen:
        await screen.sees("3 schedules")
        await screen.press("G")
        await screen.sees("P pause", "R run now")
        assert "U resume" not in screen.text
        await screen.press("P")
        await screen.sees("Pause", "1 will be paused", "horsies schedules pause nightly")
        await screen.press(*"moving", "ctrl+y")
        await screen.sees("1 paused", "U resume")
        row = await shop.fetchrow("SELECT * FROM horsies_schedules WHERE schedule_name = 'nightly'")
        assert (row["paused_at"] is not None, row["paused_by"], row["reason"]) == (True, "ops@bastion", "moving")
        await screen.sees('ago by ops@bastion: "moving"')
        await screen.press("z")
        await screen.sees("Undo", "ctrl+y")
        await screen.press("ctrl+y")
        await screen.loses('ago by ops@bastion: "moving"')
        assert await shop.fetchval("SELECT paused_at FROM horsies_schedules WHERE schedule_name = 'nightly'") is None
        await screen.press("S")
        await screen.sees("ctrl+y", "horsies schedules skip nightly")
        await screen.press("ctrl+y")
        await screen.sees("its next run is skipped by order of ops@bastion")
        await screen.press("R")
        await screen.sees("ctrl+y", "horsies schedules run-now nightly")
        await screen.press("ctrl+y")
        await screen.sees("1 sent now")
        sent = await shop.fetchval("SELECT task_id FROM horsies_schedule_runs WHERE ordered_by = 'ops@bastion'")
        assert await shop.fetchval("SELECT status FROM horsies_tasks WHERE id = $1", sent) == "PENDING"
        await screen.sees("by ops@bastion")


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.usefixtures("shop")
async def test_in_a_small_terminal_all_fits_and_in_ascii_nothing_else_is_used(database: str, ascii_only: bool) -> None:
    async with schedules(database, size=(80, 24), ascii=ascii_only) as screen:
        text = await screen.sees("3 schedules", "1 overdue", "due for 6m", "labels")
        assert max(map(len, text.splitlines())) <= 80
        assert text.isascii() or not ascii_only
        assert "6 Schedules" in text.splitlines()[1]
        await screen.press("question_mark")
        await screen.sees("Schedules", "Run it now, in addition")
