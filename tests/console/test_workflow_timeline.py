"""The timeline of a workflow on a real database: in place of the graph, live, with sub-workflows that unfold in it."""

from __future__ import annotations

import asyncpg
from flow_steps import CHILD, MONTH_END, Flows, flows, month_end, node, workflow
from verb_steps import until

from horsies_tui.workflow.gantt_view import GanttView


async def timeline(screen: Flows) -> GanttView:
    """Open the only workflow of the list, and its timeline."""
    await screen.sees("month_end")
    await screen.press("enter")
    await screen.sees("open_books", "of 7 done")
    await screen.press("g")
    await screen.sees("critical path", "waits for a retry")
    return screen.app.query_one(GanttView)


def line_of(screen: Flows, label: str) -> str:
    """The line of this node in the timeline."""
    return next(line for line in screen.text.splitlines() if f" {label} " in line and line[:12].strip(" ◆▸▾"))


async def test_g_shows_a_bar_for_each_node_at_every_size_whose_story_follows_the_cursor_and_the_graph_again(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    async with flows(database) as screen:
        gantt = await timeline(screen)
        assert "█" in line_of(screen, "open_books")
        assert line_of(screen, "import_uk").rstrip().endswith("10m")
        assert line_of(screen, "reconcile").rstrip().endswith("skipped")
        assert line_of(screen, "notify").rstrip().endswith("pending")
        assert [line_of(screen, name)[0] for name in ("open_books", "import_eu", "import_uk")] == ["◆", " ", "◆"]
        for size in ((200, 60), (100, 30), (80, 24)):
            await screen.resize(*size)
            assert max(map(len, (await screen.sees("critical path")).splitlines())) <= size[0]
            assert "█" in line_of(screen, "import_us")
        await screen.resize(120, 40)
        assert gantt.row is not None
        assert gantt.row.node.label == screen.node == "import_us"  # the graph opens on what failed
        await screen.press("end")
        await until(screen.pilot, lambda: screen.node == "notify")
        await screen.sees("── notify")
        await screen.press("tab")
        await until(screen.pilot, lambda: screen.story.has_focus)
        await screen.press("escape")
        await until(screen.pilot, lambda: gantt.has_focus)
        await screen.press("g")
        await screen.sees("─ ✓ import_eu ")
        await screen.loses("critical path")
        assert screen.graph.has_focus
        assert screen.node == "notify"


async def test_a_sub_workflow_unfolds_in_place_also_where_the_timeline_is_frozen(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    async with flows(database) as screen:
        gantt = await timeline(screen)
        await screen.press("home", "down", "down", "down")
        assert gantt.row is not None
        assert gantt.row.node.label == "import_uk"
        await screen.press("enter")
        await screen.sees(" fetch ", " load ")
        rows = [row.node.label for row in gantt._rows]
        assert rows[3:6] == ["import_uk", "fetch", "load"]
        await screen.press("down")
        assert gantt.row.workflow_id == CHILD
        await connection.execute(
            "UPDATE horsies_workflow_tasks SET status = 'COMPLETED', completed_at = now() WHERE workflow_id = $1", CHILD
        )
        await connection.execute("SELECT pg_notify('task_done', 'x')")
        await until(screen.pilot, lambda: gantt._rows[5].node.status == "COMPLETED", "load has ended")
        await screen.press("up", "left")
        await screen.loses(" fetch ")
        await screen.press("p", "right")
        await screen.sees(" fetch ", "FROZEN")


async def test_each_run_of_a_node_is_a_bar_and_the_wait_for_its_retry_a_line(
    database: str, connection: asyncpg.Connection
) -> None:
    await workflow(connection, MONTH_END, "month_end")
    task = "019a7c2e-0000-7000-8000-0000000a0b0c"
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, retry_count, is_workflow_task)"
        " VALUES ($1, 'shop.pay', 'default', 'RUNNING', now() - interval '2 min', 1, true)",
        task,
    )
    await connection.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at)"
        " VALUES ($1, 1, 'FAILED', true, now() - interval '10 min', now() - interval '6 min')",
        task,
    )
    await node(connection, MONTH_END, 0, "pay", "RUNNING", task_id=f"'{task}'", started_at="now() - interval '2 min'")
    async with flows(database) as screen:
        await screen.sees("month_end")
        await screen.press("enter")
        await screen.sees("pay")
        await screen.press("g")
        await screen.sees("critical path: 1 of 1 node", " ×2")
        line = line_of(screen, "pay")
        assert " 6m" in line
        assert "█┄" in line
        assert "┄█" in line
        await screen.press("enter")
        await screen.sees("shop.pay", task)
        await screen.press("escape")
        await screen.sees("critical path")
