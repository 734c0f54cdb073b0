"""Bytes that each screen sends at rest and for a step; with `-m bench` while much changes, and its times."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import asyncpg
import pytest
from database_server import DatabaseServer
from old_tasks import fill
from pty_console import PtyConsole, percentile

from horsies.findings.why import why_pending
from horsies.views import task_detail
from horsies.views.reader_session import READER_SETTINGS

SLOW = 30_000
IDLE_B_S = 200
KEYS, ROUNDS = 60, 3


def repeated(statements: str, turns: int, pause_s: float) -> str:
    """Work that goes on in the database, committed turn by turn."""
    return (
        f"DO $$ BEGIN FOR turn IN 1..{turns} LOOP\n{statements}; COMMIT; PERFORM pg_sleep({pause_s});\nEND LOOP; END $$"
    )


# Two queues with waiting tasks, so that the cursor can move. They have waited for 15 s: after 10 s without a first
# worker a note becomes an alert, which is no part of a rest.
QUEUES = """
INSERT INTO horsies_tasks (id, task_name, queue_name, sent_at, enqueued_at)
SELECT id, name, queue, at, at FROM (SELECT now() - interval '15 s' AS at) AS moment,
       (VALUES ('m', 'shop.mail', 'mail'), ('p', 'shop.pay', 'pay')) AS waiting (id, name, queue);
"""
ARRIVALS = """
INSERT INTO horsies_tasks (id, task_name, queue_name)
SELECT gen_random_uuid(), 'shop.new_' || n, 'mail' FROM generate_series(1, 10) n
"""
# Newer than all others.
LIVE = """
CREATE TEMP TABLE live (id text PRIMARY KEY);
WITH made AS (
    INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, created_at, enqueued_at,
                               claimed_at, started_at)
    SELECT 'live-' || lpad(n::text, 6, '0'), 'shop.live_' || n % 9, 'mail', 'RUNNING', 'w-1', at, at, at, at
      FROM generate_series(1, {count}) n CROSS JOIN LATERAL (SELECT now() - n * interval '71 ms' AS at) made
    RETURNING id)
INSERT INTO live SELECT id FROM made;
"""
CHANGES = """
UPDATE horsies_tasks
   SET status = CASE status WHEN 'RUNNING' THEN 'COMPLETED' ELSE 'RUNNING' END, started_at = now(), claimed_at = now(),
       completed_at = now()
 WHERE id = ANY (ARRAY(SELECT id FROM live ORDER BY random() LIMIT {rows}))
"""
# Each of 38 tasks reports every second, as much as the worker stores; they are drawn every five seconds. The durations
# of younger ones change every second, which is another 1.1 kB/s.
BARS = """
UPDATE horsies_tasks SET started_at = now() - interval '100 s' WHERE id LIKE 'live-%';
INSERT INTO horsies_progress SELECT id, started_at, 0, 100, 'rows', 2, 1, now()
  FROM horsies_tasks WHERE id LIKE 'live-%';
"""
GROW = "UPDATE horsies_progress SET done = done + 2, reported_at = clock_timestamp()"
SNAPSHOT = """
INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues,
                                   worker_started_at, tasks_running, cpu_percent, memory_usage_mb)
"""
# Unchanged, so that no bytes are allowed for changing numbers.
THREE = f"""{SNAPSHOT} SELECT 'web-' || n || '-77-0a', 'web-' || n, 77, 8, 8, 8, '{{mail}}',
       COALESCE((SELECT min(worker_started_at) FROM horsies_worker_states), now() - interval '3 hours'), 2, 12, 100
  FROM unnest(ARRAY[1, 2, 3]) n WHERE """
HELD = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, started_at)
SELECT 'held-' || n, 'shop.mail', 'mail', 'RUNNING', 'web-1-77-0a', now(), now() FROM generate_series(1, 2) n;
"""
CREW = f"""{SNAPSHOT} SELECT 'web-' || n % 50 || '-' || n || '-0a', 'web-' || n % 50, n, 8, 8, 8, '{{mail}}',
       now() - interval '1 d', n % 8, random() * 100, 100 + random() * 20
  FROM generate_series(1, 500) n WHERE """
PLANNED = """
INSERT INTO horsies_schedules (schedule_name, config_hash, definition)
SELECT 'schedule ' || lpad(n::text, 3, '0'), 'hash', '{{"pattern": {{"type": "interval", "minutes": 5}},
       "timezone": "UTC", "kind": "task", "target": "shop.report"}}' FROM generate_series(1, {count}) n;
INSERT INTO horsies_schedule_state (schedule_name, next_run_at, run_count)
SELECT schedule_name, now() + interval '3 h 40 s', 20 FROM horsies_schedules;
INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at, task_id)
SELECT schedule_name, slot, slot, schedule_name || n
  FROM horsies_schedules
 CROSS JOIN generate_series(1, 20) n CROSS JOIN LATERAL (SELECT now() - n * interval '1 h' AS slot) at;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at)
SELECT task_id, 'shop.report', 'default', CASE WHEN hashtext(task_id) % 5 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, slot,
       slot + interval '2 s' FROM horsies_schedule_runs;
INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, seen_at)
SELECT 'web-1-7-aa', 'web-1', 7, array_agg(schedule_name), '1.0.0', now() + interval '5 min' FROM horsies_schedules;
"""
SCHEDULED = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at)
SELECT schedule_name || 'run' || turn, 'shop.report', 'default', 'COMPLETED', now(), now()
  FROM horsies_schedules WHERE hashtext(schedule_name) % 50 = turn % 50;
INSERT INTO horsies_schedule_runs (schedule_name, slot, task_id)
SELECT schedule_name, clock_timestamp(), schedule_name || 'run' || turn
  FROM horsies_schedules WHERE hashtext(schedule_name) % 50 = turn % 50
"""
# Workflows of some hours ago and earlier, each with 24 nodes in six lanes.
ORDERS = """
INSERT INTO horsies_workflows (id, name, status, sent_at, created_at, updated_at, started_at)
SELECT 'w-' || lpad(n::text, 4, '0'), 'order', 'RUNNING', at, at, at, at
  FROM generate_series(1, 200) n CROSS JOIN LATERAL (SELECT now() - n * interval '71 min' AS at) made;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, status, dependencies, started_at)
SELECT w.id || '-' || n, w.id, n, 'step_' || n, 'shop.step', 'RUNNING',
       CASE n / 6 WHEN 0 THEN '{}' ELSE ARRAY[n - 6] END, w.started_at
  FROM horsies_workflows w CROSS JOIN generate_series(0, 23) n;
"""
STEPS = """
UPDATE horsies_workflow_tasks
   SET status = CASE status WHEN 'RUNNING' THEN 'COMPLETED' ELSE 'RUNNING' END, completed_at = now()
 WHERE id = ANY (ARRAY(SELECT id FROM horsies_workflow_tasks WHERE workflow_id BETWEEN 'w-0001' AND '{last}'
                        ORDER BY random() LIMIT 10));
PERFORM pg_notify('task_done', turn::text)
"""
STUCK = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)
SELECT 'i-' || n, 'shop.report_' || n, 'reports', 'FAILED', 'TASK_INTERRUPTED', now() - n * interval '71 min'
  FROM generate_series(1, 12) n;
"""
NIGHT = """
SET session_replication_role = replica;
INSERT INTO horsies_operator_actions (operation_id, acted_at, verb, target_kind, target_id, outcome, os_user, os_host,
                                      reason)
SELECT gen_random_uuid(), now() - n * interval '9 min', 'requeue', 'task', 't-' || n, 'applied', 'ops', 'bastion',
       'again'
  FROM generate_series(1, 60) n;
RESET session_replication_role;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)
SELECT 'i-' || n, 'shop.report_' || n, 'reports', 'FAILED', 'TIMEOUT', now() - n * interval '3 min'
  FROM generate_series(1, 200) n;
"""


@dataclass(frozen=True)
class Scene:
    """Rows beside 2,000 old tasks, a screen that shows them, work meanwhile, and the costs allowed."""

    screen: str
    words: tuple[str, ...]
    seed: str = ""
    work: str = ""
    most_bytes: int = 0
    """For a step of the cursor, or per second of the work."""
    most_share: float = 0.1
    """Of a core."""
    key_s: float = 0.05
    quantile: float = 0.99
    keys: str = ""
    then: tuple[str, ...] = ()
    columns: int = 120
    rows: int = 40
    rate: int | None = None

    @asynccontextmanager
    async def opened(self, connection: asyncpg.Connection, environ: dict[str, str]) -> AsyncIterator[PtyConsole]:
        await connection.execute(self.seed or "SELECT")
        size = {"columns": self.columns, "rows": self.rows}
        with PtyConsole(environ, screen=self.screen, rate=self.rate, **size) as console:
            await asyncio.to_thread(console.until, "LIVE", *self.words)
            console.type(self.keys)
            yield console


TASKS = ("shop.", "FOLLOW")
OVERVIEW = Scene("overview", ("busy", "all queues"), QUEUES, most_bytes=2_000)
WORKFLOWS = Scene("workflows", ("order",), ORDERS, most_bytes=1_000)
AT_REST = {
    "overview": OVERVIEW,
    "tasks": Scene("tasks", TASKS, most_bytes=1_000),
    # Of the snapshots, which come in turns, the age of the newest ticks.
    "workers": Scene("workers", ("3 alive",), f"{HELD}{THREE} true", repeated(f"{THREE} n = turn % 3 + 1", 60, 5 / 3)),
    "workflows": WORKFLOWS,
    "graph": replace(WORKFLOWS, keys="\r", most_bytes=0),
    "recovery": Scene("recovery", ("12 need action", "R requeue"), STUCK, most_bytes=3_000),
    # The next runs and the last ones are hours away.
    "schedules": Scene("schedules", ("8 scheduled",), PLANNED.format(count=8)),
    "activity": Scene("activity", ("60 operations", "200 changes"), NIGHT, most_bytes=3_000),
    "story": Scene("tasks", (*TASKS, "timeline", "links"), columns=200, rows=60, rate=SLOW, most_bytes=3_000),
}
STORMS = {
    "100 changes": Scene("tasks", TASKS, LIVE.format(count=38), repeated(CHANGES.format(rows=10), 300, 0.1), 20_000),
    "1000 changes": Scene(
        "tasks", TASKS, LIVE.format(count=500), repeated(CHANGES.format(rows=100), 300, 0.1), 20_000, most_share=0.25
    ),
    # Each quarter of a second all lines are different: the terminal cannot scroll by itself.
    "arrivals": Scene("tasks", TASKS, work=repeated(ARRIVALS, 300, 0.1), most_bytes=20_000, then=("shop.new_",)),
    "bars": Scene("tasks", (" 0 %",), LIVE.format(count=38) + BARS, repeated(GROW, 60, 1), 2_500),
    "overview": replace(OVERVIEW, work=repeated(ARRIVALS, 300, 0.1), most_bytes=5_000),
    "workers": Scene(
        *("workers", ("500 workers on 50 hosts", "its last snapshot is"), f"{CREW} true"),
        *(repeated(f"{CREW} n / 10 = turn % 50", 100, 0.1), 5_000),
        most_share=0.15,
        quantile=0.9,
    ),
    "schedules": Scene(
        *("schedules", ("300 scheduled", "past runs"), PLANNED.format(count=300), repeated(SCHEDULED, 100, 0.1), 5_000),
        most_share=0.15,
        quantile=0.9,
    ),
    "workflows": replace(WORKFLOWS, work=repeated(STEPS.format(last="w-0030"), 300, 0.1), most_bytes=20_000),
    "graph": replace(WORKFLOWS, keys="\r", work=repeated(STEPS.format(last="w-0001"), 300, 0.1), most_bytes=20_000),
}


def told(what: str, value: str, budget: str) -> None:
    print(f"{what:52} {value:>14}   budget {budget}")


@asynccontextmanager
async def running(connection: asyncpg.Connection, work: str) -> AsyncIterator[None]:
    storm = asyncio.create_task(connection.execute(work or "SELECT"))
    try:
        yield
    finally:
        storm.cancel()
        await asyncio.wait([storm])


def bytes_per_s(console: PtyConsole, seconds: float) -> float:
    before, began = console.received, time.perf_counter()
    console.pass_time(seconds)
    return (console.received - before) / (time.perf_counter() - began)


def at_rest(console: PtyConsole) -> float:
    """Bytes per second in the best of up to three spans: once a minute more of a screen changes."""
    console.until_so(lambda: console.screen.title != "", "the title, which is part of the start")
    console.pass_time(2.0)
    spans: list[float] = []
    while len(spans) < 3 and min(spans, default=IDLE_B_S) >= IDLE_B_S:
        spans.append(bytes_per_s(console, 5.0))
    return min(spans)


def bytes_of_a_step(console: PtyConsole) -> float:
    """With what follows it; the median of five."""
    found = []
    for _ in range(5):
        console.type("j")
        found.append(console.pass_time(0.4))
    return statistics.median(found)


async def rests(server: DatabaseServer, environ: dict[str, str], name: str) -> None:
    scene = AT_REST[name]
    with server.database() as url:
        connection = await asyncpg.connect(url)
        await fill(connection, 2_000)
        environ = {**environ, "HORSIES_DATABASE_URL": url}
        async with scene.opened(connection, environ) as console, running(connection, scene.work):
            idle = await asyncio.to_thread(at_rest, console)
            step = await asyncio.to_thread(bytes_of_a_step, console) if scene.most_bytes else 0
        await connection.close()
    told(f"{name}, idle", f"{idle:.0f} B/s", f"< {IDLE_B_S} B/s")
    told(f"{name}, a step", f"{step:.0f} B", f"< {scene.most_bytes} B")
    assert idle < IDLE_B_S, name
    assert step <= scene.most_bytes, name


@pytest.mark.parametrize("names", [tuple(AT_REST)[at : at + 3] for at in range(0, len(AT_REST), 3)], ids=" ".join)
async def test_a_screen_at_rest_sends_its_clock_and_a_step_what_differs(
    server: DatabaseServer, environ: dict[str, str], names: tuple[str, ...]
) -> None:
    """Three at the same time: each takes ten seconds, in which it hardly works."""
    async with asyncio.TaskGroup() as screens:
        for name in names:
            screens.create_task(rests(server, environ, name))


@pytest.mark.bench
@pytest.mark.parametrize("name", STORMS)
async def test_a_screen_sends_little_while_much_changes(
    connection: asyncpg.Connection, quiet: dict[str, str], name: str
) -> None:
    scene = STORMS[name]
    async with scene.opened(connection, quiet) as console, running(connection, scene.work):
        await asyncio.to_thread(console.pass_time, 0.5)
        sent = await asyncio.to_thread(bytes_per_s, console, 10.0 if name == "bars" else 3.0)
        await asyncio.to_thread(console.until, *scene.then)
    told(f"{name}, while it changes", f"{sent / 1000:.1f} kB/s", f"< {scene.most_bytes / 1000} kB/s")
    assert sent < scene.most_bytes


async def test_a_cell_that_changes_sends_only_itself(connection: asyncpg.Connection, quiet: dict[str, str]) -> None:
    async with AT_REST["tasks"].opened(connection, quiet) as console:
        await asyncio.to_thread(at_rest, console)
        before = console.received
        await connection.execute("UPDATE horsies_tasks SET error_code = 'CHANGED' WHERE task_name = 'shop.task_7'")
        console.type("\x12")
        await asyncio.to_thread(console.until, "CHANGED")
        sent = console.received - before
    told("one cell, and the clock", f"{sent} B", "< 400 B")
    assert sent < 400


async def test_a_slow_link_does_not_fall_behind_a_key_that_is_held_down(quiet: dict[str, str]) -> None:
    """A page is 12 kB, four tenths of a second: pages that would be outdated when they arrive are not drawn."""

    def hold_down(console: PtyConsole) -> int:
        console.until_ready()
        before = console.received
        for _ in range(45):
            console.type("\x1b[6~")
            console.pass_time(1 / 30)
        console.type("?")
        console.until("Actions (each")
        return console.received - before

    with PtyConsole(quiet, rate=SLOW) as console:
        sent = await asyncio.to_thread(hold_down, console)
    told("30 kB/s: 45 times page down, and the help", f"{sent / 1000:.0f} kB", "< 240 kB, of 540")
    assert sent < 240_000


def latencies(console: PtyConsole, keys: int = KEYS) -> list[float]:
    """The times of single keys, down and up in turn, each pressed when the previous one is painted."""
    found = []
    for number in range(keys):
        found.append(console.key_to_paint("j" if number % 2 == 0 else "k", 1 if number % 2 == 0 else -1))
        console.pass_time(0.013)
    return found


def best_latency(console: PtyConsole, quantile: float, most_s: float) -> float:
    """The best of up to ROUNDS rounds, or of all of them: a delay in each is the console's, one in one the machine's.

    The 99th percentile of one round is its slowest key; that of three is better known, as it leaves out one of 180.
    """
    every: list[float] = []
    best = math.inf
    for _ in range(ROUNDS):
        one = latencies(console)
        every += one
        best = min(best, percentile(one, quantile), percentile(every, quantile))
        if best < most_s:
            break
    return best


MEASURED = {
    **{f"{name}, at rest": scene for name, scene in AT_REST.items() if scene.most_bytes},
    **{f"{name}, while it changes": scene for name, scene in STORMS.items() if name != "graph"},
    "1000 changes, 30 kB/s": replace(STORMS["1000 changes"], rate=SLOW, key_s=0.1, most_share=1.0),
    "overview, 30 kB/s": replace(STORMS["overview"], rate=SLOW, key_s=0.1, most_share=1.0),
}


@pytest.mark.bench
@pytest.mark.alone
@pytest.mark.parametrize("name", MEASURED)
async def test_a_key_is_painted_at_once_and_the_processor_rests(
    connection: asyncpg.Connection, quiet: dict[str, str], name: str
) -> None:
    scene = MEASURED[name]
    async with scene.opened(connection, quiet) as console:
        await asyncio.to_thread(console.key_to_paint, "j", 1)  # the first screen may still be on its way
        await asyncio.to_thread(console.key_to_paint, "k", -1)
        async with running(connection, scene.work):
            await asyncio.to_thread(console.pass_time, 0.5)
            cpu, began = console.cpu_s, time.perf_counter()
            await asyncio.to_thread(console.pass_time, 3.0)
            share = (console.cpu_s - cpu) / (time.perf_counter() - began)
            took = await asyncio.to_thread(best_latency, console, scene.quantile, scene.key_s)
    told(f"{name}", f"{share:.1%} of a core", f"< {scene.most_share:.0%}")
    told(f"{name}, key → paint", f"{took * 1000:.0f} ms", f"< {scene.key_s * 1000:.0f} ms at p{scene.quantile:.0%}")
    assert share < scene.most_share
    assert took < scene.key_s


@pytest.mark.bench
@pytest.mark.alone
@pytest.mark.parametrize(("screen", "word"), [("tasks", "shop.task_"), ("overview", "all queues")])
async def test_first_rows_come_within_800_ms_of_exec(
    connection: asyncpg.Connection, quiet: dict[str, str], screen: str, word: str
) -> None:
    """The machine may be busy: the first of up to six starts that is quick enough counts."""
    await connection.execute(QUEUES)
    taken: list[float] = []
    while len(taken) < 6 and min(taken, default=1.0) >= 0.8:
        with PtyConsole(quiet, screen=screen, installed=True) as console:
            taken.append(await asyncio.to_thread(console.until, word))
    told(f"first rows of {screen} after exec", f"{min(taken) * 1000:.0f} ms", "< 800 ms")
    assert min(taken) < 0.8


BIG = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at, started_at, claimed_at, args)
SELECT 'big-' || n, 'shop.big', 'mail', 'COMPLETED', now(), now(), now(),
       '["' || (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 160000) i) || '"]'
  FROM generate_series(1, 3) n
"""


@pytest.mark.bench
@pytest.mark.alone
async def test_a_step_takes_less_than_20_ms_of_the_database(database: str, connection: asyncpg.Connection) -> None:
    """Also for a task with 5 MB of arguments, a task that waits, and one that is gone."""
    await fill(connection, 5_000)
    await connection.execute("INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('w-1', 'shop.w', 'mail')")
    await connection.execute(BIG)
    await connection.execute("ANALYZE horsies_tasks")
    for name, value in READER_SETTINGS:
        await connection.execute(f"SET {name} = {value}")
    ended = [row["id"] for row in await connection.fetch("SELECT id FROM horsies_tasks WHERE id LIKE '0%' LIMIT 15")]
    for what, ids in {
        "ended": ended,
        "waits": ["w-1"] * 10,
        "5 MB": ["big-1", "big-2", "big-3"],
        "gone": ["no"],
    }.items():
        taken = []
        for task_id in ids:
            began = time.perf_counter()
            await task_detail(connection, task_id, exact=True)
            if what == "waits":
                await why_pending(connection, task_id)
            taken.append(time.perf_counter() - began)
        told(f"a story, {what}, median", f"{statistics.median(taken) * 1000:.1f} ms", "< 20 ms")
        assert statistics.median(taken) < 0.02
