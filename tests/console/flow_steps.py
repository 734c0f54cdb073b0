"""Steps for tests of the workflow screens: stored workflows of a shop, and the console on them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from task_screen_steps import ERROR, ONE, failed
from task_steps import Screen

from horsies.config.contexts import ConfigFile, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies_tui.settings import ConsoleOptions
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.story.view import StoryView
from horsies_tui.workflow.graph_view import GraphView
from horsies_tui.workflow.view import WorkflowView

MONTH_END = "019a7c2e-aaaa-7000-8000-00000000e0d1"
CHILD = "019a7c2e-bbbb-7000-8000-00000000c41d"
DONE = json.dumps({"__task_result__": True, "ok": {"rows": 41}, "err": None})
MINUTES_AGO = "now() - interval '10 min'"


class Flows(Screen):
    """The console on the list or the graph of workflows."""

    @property
    def view(self) -> Any:
        return self.app.query_one(WorkflowView)

    @property
    def graph(self) -> GraphView:
        return self.app.query_one(GraphView)

    @property
    def story(self) -> StoryView:
        return self.app.query_one(WorkflowView).query_one(StoryView)

    @property
    def node(self) -> str:
        """The label of the node under the cursor."""
        return self.view._node_views[self.graph.cursor].label


@asynccontextmanager
async def flows(url: str, size: tuple[int, int] = (120, 40), **options: Any) -> AsyncIterator[Flows]:
    config = ConfigFile(Path("config.toml"), {}, None, mask_arguments=("*token",))
    choice = DatabaseChoice(DatabaseUrl.parse(url), "for the test")
    app = ConsoleApp(ConsoleOptions(choice, config, **{"screen": "workflows", **options}))
    async with app.run_test(size=size) as pilot:
        yield Flows(pilot)


async def workflow(conn: asyncpg.Connection, workflow_id: str, name: str, **columns: str) -> None:
    given = {
        "id": f"'{workflow_id}'",
        "name": f"'{name}'",
        "status": "'RUNNING'",
        "on_error": "'fail'",
        "depth": "0",
        "root_workflow_id": f"'{workflow_id}'",
        "sent_at": MINUTES_AGO,
        "created_at": MINUTES_AGO,
        "updated_at": MINUTES_AGO,
        "started_at": MINUTES_AGO,
        **columns,
    }
    await conn.execute(f"INSERT INTO horsies_workflows ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def node(
    conn: asyncpg.Connection, workflow_id: str, index: int, name: str, status: str, *needs: int, **columns: str
) -> None:
    ran = {"started_at": MINUTES_AGO} if status in ("RUNNING", "COMPLETED", "FAILED") else {}
    ended = {"completed_at": "now() - interval '9 min'"} if status in ("COMPLETED", "FAILED") else {}
    given = {
        "id": f"'{workflow_id[:8]}-{index:04}-{workflow_id[-8:]}'",
        "workflow_id": f"'{workflow_id}'",
        "task_index": str(index),
        "node_id": f"'{name}'",
        "task_name": f"'shop.{name}'",
        "task_args": "'[]'",
        "task_kwargs": "'{}'",
        "queue_name": "'default'",
        "priority": "100",
        "dependencies": f"ARRAY[{', '.join(map(str, needs))}]::int[]",
        "allow_failed_deps": "false",
        "join_type": "'all'",
        "status": f"'{status}'",
        "is_subworkflow": "false",
        "created_at": MINUTES_AGO,
        **ran,
        **ended,
        **columns,
    }
    await conn.execute(f"INSERT INTO horsies_workflow_tasks ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def month_end(conn: asyncpg.Connection) -> None:
    """Seven steps: one import has failed, one runs, one is a sub-workflow; the steps after them wait."""
    await workflow(conn, MONTH_END, "month_end", on_error="'pause'")
    await workflow(
        conn,
        CHILD,
        "import_uk",
        depth="1",
        root_workflow_id=f"'{MONTH_END}'",
        parent_workflow_id=f"'{MONTH_END}'",
        parent_task_index="3",
    )
    await failed(conn, ONE, task_name="'shop.import_us'", is_workflow_task="true")
    kwargs = """'{"path": "s3://shop/uk.csv", "api_token": "hunter2"}'"""
    await node(conn, MONTH_END, 0, "open_books", "COMPLETED", result=f"'{DONE}'", task_kwargs=kwargs)
    await node(conn, MONTH_END, 1, "import_eu", "COMPLETED", 0, result=f"'{DONE}'")
    await node(conn, MONTH_END, 2, "import_us", "FAILED", 0, task_id=f"'{ONE}'", result=f"'{ERROR}'")
    await node(
        conn,
        MONTH_END,
        3,
        "import_uk",
        "RUNNING",
        0,
        is_subworkflow="true",
        sub_workflow_id=f"'{CHILD}'",
        sub_workflow_name="'import_uk'",
        sub_definition_key="'shop.import_uk.v1'",
    )
    await node(conn, MONTH_END, 4, "reconcile", "SKIPPED", 1, 2, 3, args_from="""'{"books": 0}'""")
    await node(conn, MONTH_END, 5, "report", "PENDING", 4, join_type="'any'")
    await node(conn, MONTH_END, 6, "notify", "PENDING", 5, 0)
    await node(conn, CHILD, 0, "fetch", "COMPLETED", result=f"'{DONE}'")
    await node(conn, CHILD, 1, "load", "RUNNING", 0)


async def wide(conn: asyncpg.Connection, workflow_id: str, count: int) -> None:
    """One step, `count` parallel steps, and one that joins them."""
    await workflow(conn, workflow_id, "wide")
    await node(conn, workflow_id, 0, "split", "COMPLETED")
    await conn.execute(
        """INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, task_args, task_kwargs,
               queue_name, priority, dependencies, allow_failed_deps, join_type, status, is_subworkflow, created_at,
               started_at)
           SELECT gen_random_uuid(), $1, n, 'part_' || n, 'shop.part', '[]', '{}', 'default', 100, ARRAY[0], false,
                  'all', CASE WHEN n % 50 = 7 THEN 'FAILED' WHEN n < $2 / 2 THEN 'COMPLETED' ELSE 'RUNNING' END,
                  false, now(), now()
             FROM generate_series(1, $2) n""",
        workflow_id,
        count,
    )
    await node(conn, workflow_id, count + 1, "join", "PENDING", *range(1, count + 1))
