"""A killed worker after the sweep, as the overview, the workers screen and the recovery screen show it."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from task_steps import console
from verb_steps import until

from horsies.config.recovery import RecoveryConfig
from horsies.lifecycle.recovering import recover
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verbs import VERBS
from horsies_tui.recovery.view import RecoveryView
from horsies_tui.tasks.view import TasksView

WEB_3 = "web-3-88-aa11"
TASKS = {*(f"r-{n}" for n in range(5)), *(f"c-{n}" for n in range(10))}
SNAPSHOT = (
    "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
    " max_claim_per_worker, queues, worker_started_at, draining)"
    " VALUES ($1, now() - interval '400 s', $2, 88, 8, 8, 8, '{mail}', now() - interval '1 h', $3)"
)


@pytest.fixture
async def death(connection: asyncpg.Connection) -> str:
    """Web-3 was killed with 5 running and 10 claimed tasks, which a sweep took; web-4 was stopped."""
    await connection.execute(SNAPSHOT, WEB_3, "web-3", False)
    await connection.execute(SNAPSHOT, "web-4-88-bb22", "web-4", True)
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed, claimed_by_worker_id, claimed_at,"
        " started_at)"
        " SELECT id, 'shop.mail', 'mail', CASE left(id, 1) WHEN 'r' THEN 'RUNNING' ELSE 'CLAIMED' END, true, $1,"
        "        now() - interval '420 s', CASE left(id, 1) WHEN 'r' THEN now() - interval '420 s' END"
        "   FROM unnest($2::text[]) AS new (id)",
        WEB_3,
        sorted(TASKS),
    )
    # Another death of the same kind, already acknowledged.
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at, claimed_by_worker_id)"
        " VALUES ('old', 'shop.mail', 'mail', 'FAILED', 'WORKER_CRASHED', now() - interval '1 day', $1)",
        WEB_3,
    )
    await connection.execute(
        "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)"
        " VALUES (gen_random_uuid(), 'rerun', 'task', 'old', 'applied')"
    )
    await recover(connection, RecoveryConfig())
    at = await connection.fetchval("SELECT snapshot_at FROM horsies_worker_states WHERE worker_id = $1", WEB_3)
    return f"died {at:%H:%M}Z with 5 running, 10 claimed: 5 failed, 10 returned"


def listed(screen: Any) -> set[str]:
    return {row.id for view in screen.app.query(TasksView) for row in view._table.rows}


async def test_the_overview_tells_of_it_and_leads_to_exactly_its_tasks(database: str, death: str) -> None:
    async with console(database, screen="overview", size=(200, 50)) as screen:
        text = await screen.sees("web-3:88 died with 15 tasks", death, "web-4:88 stopped", "unacknowledged")
        assert "web-3:88 lost" not in text
        assert "Healthy" not in text
        await screen.press("tab")
        alerts = screen.app.query_one("#alerts")
        await until(screen.pilot, lambda: alerts.has_focus)
        for _ in range(len(alerts.rows)):
            if "died" in alerts.cursor_row.what:
                break
            await screen.press("down")
        await screen.press("enter")
        await until(screen.pilot, lambda: listed(screen) == TASKS)


async def test_the_desk_tells_of_it_until_it_is_acknowledged(
    database: str, connection: asyncpg.Connection, death: str
) -> None:
    async with console(database, screen="recovery", size=(200, 50)) as screen:
        await screen.sees("worker died", "web-3:88", "crashed", "×5", "A acknowledge")
        await screen.press("end", "A")
        await screen.sees("Acknowledge 1 worker", death)
        await screen.press("escape")
        seen = await preview(connection, VERBS["worker", "acknowledge"], Selection.of_ids([WEB_3]))
        await apply(connection, seen, Actor("ops", "bastion"), None)
        await until(screen.pilot, lambda: "crashed" not in screen.text and "worker died" not in screen.text)
    async with console(database, screen="workers", size=(200, 50)) as screen:
        await screen.sees("died", "acknowledged by ops@bastion")


async def test_a_crashed_line_is_acknowledged_alone_and_undone_alone(
    database: str, connection: asyncpg.Connection, death: str
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at, claimed_by_worker_id)"
        " VALUES ('p-1', 'shop.pdf', 'mail', 'FAILED', 'WORKER_CRASHED', now(), $1)",
        WEB_3,
    )
    reported = {"crashed shop.mail", "crashed shop.pdf", f"worker died {WEB_3}"}

    def lines(screen: Any) -> set[str]:
        return {row.finding.what for row in screen.app.query_one(RecoveryView)._table.rows} & reported

    async with console(database, screen="recovery", size=(200, 50)) as screen:
        await until(screen.pilot, lambda: lines(screen) == reported)
        table = screen.app.query_one(RecoveryView)._table
        for _ in table.rows:
            if table.cursor_row.finding.what == "crashed shop.mail":
                break
            await screen.press("down")
        await screen.press("space", "down", "space", "A")
        await screen.sees("acknowledge does not apply to these 2 lines together; R requeue, E rerun")
        await screen.press("space", "up", "A")
        await screen.sees("Acknowledge 1 worker", "5 tasks failed as it died: 5 shop.mail", "--task shop.mail")
        assert death not in screen.text
        await screen.press("ctrl+y")
        await until(screen.pilot, lambda: lines(screen) == reported - {"crashed shop.mail"})
        await screen.press("z")
        await screen.sees("acknowledge of 5 tasks")
        await screen.press("ctrl+y")
        await until(screen.pilot, lambda: lines(screen) == reported)
        # Retention deletes snapshots after a week.
        await connection.execute("DELETE FROM horsies_worker_states")
        await screen.press("ctrl+r")
        await until(screen.pilot, lambda: lines(screen) == reported - {f"worker died {WEB_3}"})
        await screen.press("home")
        for _ in table.rows:
            if table.cursor_row.finding.what == "crashed shop.mail":
                break
            await screen.press("down")
        await screen.press("A")
        await screen.sees("Acknowledge 1 worker", "5 tasks failed as it died: 5 shop.mail")
