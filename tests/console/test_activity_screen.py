"""The activity screen on a real database: who did what, what happened beside it, and the undo of any operation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
from feed_steps import send
from task_steps import Screen, console
from verb_steps import OPS, until

from horsies.domain.states import TargetKind
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies_tui.tasks.view import TasksView
from horsies_tui.workers.view import WorkersView
from horsies_tui.workflow.view import WorkflowView

ACTIVITY: Any = {"screen": "activity"}


async def did(conn: asyncpg.Connection, kind: TargetKind, verb: str, *ids: str, reason: str | None = None) -> str:
    """An operation of ops@bastion, done by another console."""
    outcome = await apply(conn, await preview(conn, VERBS[kind, verb], Selection.of_ids(ids)), OPS, reason)
    return str(outcome.operation_id)


async def failed(conn: asyncpg.Connection, *ids: str, ago_s: int = 60, code: str = "TIMEOUT") -> None:
    for task_id in ids:
        at = f"now() - {ago_s} * interval '1 s'"
        await send(conn, task_id, status="'FAILED'", failed_at=at, error_code=f"'{code}'", retry_count="2")


def line_with(text: str, word: str) -> str:
    return next(line for line in text.splitlines() if word in line)


async def copied(screen: Screen, key: str) -> str:
    await screen.press(key)
    await until(screen.pilot, lambda: screen.app.clipboard != "", "something is copied")
    return screen.app.clipboard


async def test_it_teaches_what_will_be_here_and_operations_stand_beside_what_happened_by_itself_newest_first(
    database: str, connection: asyncpg.Connection
) -> None:
    async with console(database, (160, 40)) as screen:
        await screen.press("7")
        await screen.sees("No operator has acted here yet", "what operators do", "0 operations", "0 changes")
        assert "7 Activity" in screen.text.splitlines()[1]
        await failed(connection, "f1", "f2", "f3", ago_s=120)
        await send(connection, "t1", queue_name="'mail'")
        await did(connection, "queue", "pause", "mail", reason="the provider is migrating")
        await did(connection, "task", "requeue", "f1", "f2", reason="it answers again")
        await screen.press("ctrl+r")
        text = await screen.sees("2 operations by 1 person", "requeue", "pause", "failed")
        rows = [line for line in text.splitlines()[5:12] if "Z " in line]
        assert ["requeue" in rows[0], "pause" in rows[1], "✗ failed" in rows[2]] == [True] * 3
        assert all(word in rows[0] for word in ("ops@bastion", "2 tasks", "2 applied", "it answers again"))
        assert all(word in rows[1] for word in ("queue mail", "applied", "the provider is migrating"))
        assert all(word in rows[2] for word in ("–", "task demo.add", "TIMEOUT"))
        role = await connection.fetchval("SELECT current_user")
        await screen.press("home")
        await screen.sees(f"ops@bastion, in the database as {role}", "horsies tasks requeue f1 f2 --reason")


async def test_an_operation_has_the_same_true_totals_on_the_list_in_its_story_and_opened(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("SET session_replication_role = replica")
    many = "SELECT $1, 'requeue', 'task', 't' || n, CASE WHEN n % 10 = 9 THEN 'refused' ELSE 'applied' END, 'ops', 'b'"
    insert = (
        "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, os_user, os_host)"
    )
    operation_id = await connection.fetchval("SELECT gen_random_uuid()")
    await connection.execute(f"{insert} {many} FROM generate_series(1, 1377) AS n", operation_id)
    async with console(database, (160, 40), **ACTIVITY) as screen:
        text = await screen.sees("1,377 tasks", "1,240 applied, 137 refused")
        assert "did requeue 1,377 tasks: 1,240 applied, 137 refused" in " ".join(text.split())
        assert "1,000" not in text
        # The operation goes on.
        await connection.execute(f"{insert} {many} FROM generate_series(1378, 1600) AS n", operation_id)
        await screen.sees("1,600 tasks", "1,440 applied, 160 refused")
        await screen.press("enter")
        await screen.sees("requeue 1,600 tasks: 1,440 applied, 160 refused", "the last 200 targets")


async def test_an_operation_opens_with_its_targets_before_and_after(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, "f1", "f2", "f3")
    frozen = await preview(connection, VERBS["task", "requeue"], Selection.of_ids(["f1", "f2", "f3"]))
    await connection.execute("UPDATE horsies_tasks SET status = 'COMPLETED' WHERE id = 'f3'")
    await apply(connection, frozen, OPS, "it answers again")
    async with console(database, **ACTIVITY) as screen:
        await screen.sees("2 applied, 1 refused")
        await screen.press("enter")
        text = await screen.sees("BEFORE → AFTER", "FAILED, try 3 → PENDING, try 3", "refused")
        assert "COMPLETED" in line_with(text, "▲ refused")
        assert "by ops" not in text.splitlines()[2]
        await screen.press("G", "enter")
        await screen.sees("demo.add", "f1", "timeline")
        await screen.press("escape")
        await screen.sees("BEFORE → AFTER")
        await screen.press("l")
        await until(
            screen.pilot, lambda: {row.id for row in screen.app.query_one(TasksView)._table.rows} >= {"f1", "f2"}
        )
        await screen.press("escape", "escape", "escape")
        await screen.sees("2 applied, 1 refused")


async def test_undo_takes_back_the_operation_under_the_cursor_and_says_so_in_its_line(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, "f1", "f2")
    await send(connection, "t1", queue_name="'mail'")
    await did(connection, "task", "requeue", "f1", "f2", reason="too early")
    await did(connection, "queue", "pause", "mail", reason="another one")
    async with console(database, **ACTIVITY) as screen:
        await screen.sees("too early", "another one", "z undo", "0 changes")
        await screen.press("down", "z")
        await screen.sees("Undo 2 tasks", "2 will be undone")
        await screen.press(*"oops", "ctrl+y")
        text = await screen.sees("2 undone", "oops", "3 operations")
        assert "undo" in line_with(text, "oops")
        await until(screen.pilot, lambda: "undone" in line_with(screen.text, "too early"), "it is undone")
        states = await connection.fetch("SELECT status FROM horsies_tasks WHERE id LIKE 'f%'")
        assert {row["status"] for row in states} == {"FAILED"}
        assert await connection.fetchval("SELECT paused_at IS NOT NULL FROM horsies_queue_state")


async def test_what_happened_between_two_and_three_is_told_though_all_of_it_was_requeued(
    database: str, connection: asyncpg.Connection
) -> None:
    now = await connection.fetchval("SELECT now()")
    night = now.replace(minute=30, second=0, microsecond=0) - timedelta(hours=3)
    for number in range(12):
        await send(connection, f"f{number}", status="'FAILED'", failed_at=f"'{night}'", error_code="'GATEWAY_DOWN'")
        await connection.execute(
            "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at, error_code)"
            " VALUES ($1, 1, 'FAILED', $2, $2, 'GATEWAY_DOWN')",
            f"f{number}",
            night,
        )
    await did(connection, "task", "requeue", *(f"f{number}" for number in range(12)))
    await connection.execute(
        "INSERT INTO horsies_outages (began_at, ended_at) VALUES ($1, $2)", night, night + timedelta(seconds=90)
    )
    hour = night.replace(minute=0)
    async with console(database, **ACTIVITY) as screen:
        await screen.filter(f"since:{hour:%H:%M} until:{hour + timedelta(hours=1):%H:%M}")
        text = await screen.sees("GATEWAY_DOWN", "outage", f"since:{hour:%Y-%m-%dT%H}:00:00Z")
        assert "×12" in line_with(text, "GATEWAY_DOWN")
        assert "requeue" not in text.split("GATEWAY_DOWN")[0].split("WHEN")[1]
        assert "database no heartbeats" in line_with(text, "outage")


async def test_the_outage_that_lasts_a_new_version_and_what_a_sweep_repaired_are_in_the_list(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO horsies_pulse (beaten_at, may_pause) VALUES (now() - interval '2 h', '15 s');"
        "INSERT INTO horsies_sweeps (worker_id, expired, repairs, workflows) VALUES ('web-1-7-abcdef', 3, 5, 2);"
        "INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker,"
        "    queues, worker_started_at, horsies_version, app_version)"
        " SELECT 'w' || n, 'web', n, 1, 1, 1, '{q}', now() - interval '1 h' / n, '0.1', '1.' || n"
        "   FROM generate_series(1, 2) n"
    )
    async with console(database, **ACTIVITY) as screen:
        text = await screen.sees("outage", "deployed", "swept")
        assert "none was stored for 7,2" in line_with(text, "outage")
        assert "new version: 1.2, horsies 0.1" in line_with(text, "deployed")
        assert "sweep web-1:7" in line_with(text, "swept")
        assert "3 expired, 5 repaired" in line_with(text, "swept")
        await screen.filter("kind:sweep")
        await screen.loses("outage")


async def test_its_command_is_copied_and_a_key_shows_operations_only_then_changes_only_then_both(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, "f1", "f2", "f3")
    await did(connection, "task", "requeue", "f1", "f2", reason="it's back")
    async with console(database, **ACTIVITY) as screen:
        await screen.sees("it's back", "✗ failed", "command", "requeue f1", "z undo")
        assert await copied(screen, "y") == "horsies tasks requeue f1 f2 --reason 'it'\"'\"'s back'"
        await screen.press("t")
        await screen.sees("kind:operation", "it's back")
        await screen.loses("✗ failed")
        await screen.press("t")
        await screen.sees("kind:change", "✗ failed")
        await screen.loses("it's back")
        # What no operator did cannot be undone, and the footer does not offer it.
        await screen.sees("TIMEOUT", "no operator did it")
        await screen.loses("z undo")
        await screen.press("z")
        await screen.sees("undo: select an operation (↑↓)")
        await screen.press("t")
        await screen.sees("it's back", "✗ failed")
        await screen.loses("/ kind:")
        await screen.resize(80, 24)
        await screen.press("g")
        text = await screen.sees("ops@bastion", "requeue", "2 tasks", "2 applied", "it's back")
        assert "7 Activity" in text.splitlines()[1]
        assert max(map(len, text.splitlines())) <= 80


async def test_a_line_opens_what_it_is_about(database: str, connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, queues, worker_started_at)"
        " VALUES ('web-3-9-ef', now() - interval '2 min', 'web-3', 9, 8, 8, 8, '{mail}', now() - interval '3 d')"
    )
    await connection.execute(
        "INSERT INTO horsies_workflows (id, name, status, completed_at)"
        " VALUES ('w1', 'month_end', 'FAILED', now() - interval '1 min')"
    )
    noon = "date_trunc('hour', now()) - interval '55 min'"
    for number in range(3):
        at = f"{noon} + {number} * interval '1 s'"
        await send(connection, f"f{number}", status="'FAILED'", failed_at=at, error_code="'TIMEOUT'")
    async with console(database, **ACTIVITY) as screen:
        await screen.sees("workflow month_end", "▲ lost", "web-3:9", "×3")
        await screen.press("enter")
        await until(screen.pilot, lambda: screen.app.stage.top.id == "workflow")
        assert screen.app.query_one(WorkflowView).display
        await screen.press("escape", "down", "enter")
        await until(screen.pilot, lambda: screen.app.stage.name_shown == "workers")
        await screen.sees("id:web-3-9-ef")
        await until(screen.pilot, lambda: len(screen.app.query_one(WorkersView)._table.rows) == 1)
        await screen.press("7", "G", "enter")
        await until(screen.pilot, lambda: screen.app.stage.name_shown == "tasks")
        await until(
            screen.pilot, lambda: {row.id for row in screen.app.query_one(TasksView)._table.rows} == {"f0", "f1", "f2"}
        )
