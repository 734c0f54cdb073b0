"""The progress of running tasks on the screens: a bar with rate and time left, and no pretence when it is old."""

from __future__ import annotations

import asyncpg
from flow_steps import flows
from task_steps import console

RUNNING = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, worker_hostname, claimed_at,
                           started_at, is_workflow_task)
SELECT name, name, 'default', 'RUNNING', 'web-1', 'web-1', now() - age, now() - age, name LIKE 'node%'
  FROM (VALUES ('import_rows', interval '30 s'), ('hung_import', '10 min'), ('count_lines', '30 s'),
               ('silent', '4 min'), ('node_a', '30 s'))
       AS made (name, age);
INSERT INTO horsies_heartbeats (task_id, sender_id, role) SELECT id, 'web-1', 'runner' FROM horsies_tasks;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_at, started_at, completed_at)
SELECT 'old' || n, 'silent', 'default', 'COMPLETED', now() - interval '1 h', now() - interval '1 h',
       now() - interval '1 h' + interval '70 s'
  FROM generate_series(1, 20) n;
INSERT INTO horsies_workflows (id, name, status, started_at) VALUES ('flow-1', 'month_end', 'RUNNING', now());
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, status, task_id, started_at)
VALUES ('n0', 'flow-1', 0, 'import_uk', 'node_a', 'RUNNING', 'node_a', now()),
       ('n1', 'flow-1', 1, 'report', 'report', 'PENDING', NULL, NULL);
"""


REPORT = """
INSERT INTO horsies_progress (task_id, started_at, done, total, unit, rate, gap_s, reported_at)
SELECT id, started_at, $2, $3, 'rows', $4, CASE WHEN $5::float8 > 0 THEN 1 ELSE 100 END, now() - $5 * interval '1 s'
  FROM horsies_tasks WHERE id = $1
    ON CONFLICT (task_id, started_at) DO UPDATE SET done = EXCLUDED.done, reported_at = EXCLUDED.reported_at
"""


async def scene(connection: asyncpg.Connection) -> None:
    await connection.execute(RUNNING)
    await connection.execute(REPORT, "import_rows", 3_400, 10_000, 120, 0)
    await connection.execute(REPORT, "hung_import", 7, 10, 0.5, 240)
    await connection.execute(REPORT, "count_lines", 1_234, None, 50, 0)
    await connection.execute(REPORT, "node_a", 5, 10, 0.1, 0)


async def test_the_list_shows_bars_and_says_how_old_a_report_is(database: str, connection: asyncpg.Connection) -> None:
    await scene(connection)
    async with console(database, (160, 24), filter="status:running") as screen:
        await screen.press("v")
        text = await screen.sees("━━────── 34 %", "50s left", "70 % 4m", "1,234 rows", "usually 1m10s")
        hung = next(line for line in text.splitlines() if "hung_import" in line)
        assert "70 %" in hung
        assert "left" not in hung
    async with console(database, (80, 24), filter="status:running") as screen:
        await screen.sees("34 %", "1,234 rows")
    async with console(database, (120, 24), filter="status:running", ascii=True) as screen:
        await screen.sees("==...... 34 %")


async def test_a_task_shows_its_bar_as_it_grows_or_the_usual_duration(
    database: str, connection: asyncpg.Connection
) -> None:
    await scene(connection)
    async with console(database, task_id="import_rows") as screen:
        await screen.sees("progress", "34 % 3,400/10,000 rows 120/s")
        await connection.execute(REPORT, "import_rows", 9_000, 10_000, 120, 0)
        await screen.sees("90 % 9,000/10,000 rows 120/s")
    async with console(database, task_id="silent") as screen:
        await screen.sees("of usually 1m10s, 95 % of 20 runs within 1m10s")


async def test_a_node_and_its_workflow_count_it(database: str, connection: asyncpg.Connection) -> None:
    await scene(connection)
    async with flows(database) as screen:
        await screen.sees("━━━┅┅─────")
        await screen.press("enter")
        await screen.sees("25 %", "import_uk 50 %", "50 % 5/10 rows")
        await screen.press("g")
        await screen.sees("critical path", "50 %")
