"""The incidents of a night, as data: how each one begins, the keys of an operator, and the words that name its cause.

The console is open on the overview of a healthy cluster. Measured are the seconds from the moment that the database has
the incident until its cause is on the screen.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from database_server import new_role, url_with
from feed_steps import send
from flow_steps import MONTH_END, month_end, node, workflow
from schedule_scene import add_schedule, add_scheduler, definition
from task_steps import Screen, console
from typer.testing import CliRunner
from verb_steps import until
from worker_steps import hold, tell

from horsies.cli.main import app
from horsies.doctor.checks import transactions
from horsies_tui.feed.report import EXAMINED_AFTER_S
from horsies_tui.shell.app import ConsoleApp

pytestmark = pytest.mark.chaos

PAGE: Final = "HORSIES_INCIDENT_TABLE"
"""Names the page whose table the measured seconds are written into."""
HEAD: Final = """\
# Incidents

How long it takes until the cause of an incident is on the screen. The console is open on the overview of a healthy
cluster and has just read its recovery report, so the next one is 5 s away. Keys are pressed as soon as what leads to
them is shown. Rows of `horsies doctor` are read half a minute after the console has started, and then every
minute. Written by `{page}=docs/incidents.md pytest -m chaos -n 0 tests/console/test_incidents.py`
on {day} ({machine}).

| incident | keys | seconds |
|---|---|---|"""
SOON_S: Final = 15.0
"""For hangs, locks and slow databases."""


PATIENCE_S: Final = 15.0 + EXAMINED_AFTER_S
"""For all others: a console that was just opened waits before the doctor examines the server."""


@dataclass
class Night:
    """The cluster, and what an incident may do to it."""

    url: str
    conn: asyncpg.Connection
    proxy: BlackholeProxy
    role: str
    psql: asyncpg.Connection

    async def sql(self, statements: str) -> None:
        await self.conn.execute(statements)

    async def running(self, task_id: str, name: str, seconds: float, **columns: str) -> None:
        """A run on web-1 that shows signs of life."""
        at = f"now() - {seconds} * interval '1 s'"
        held = {"status": "'RUNNING'", "claimed_by_worker_id": "'web-1-1-0a'", "claimed_at": at, "started_at": at}
        await send(self.conn, task_id, age_s=seconds, task_name=f"'{name}'", **{**held, **columns})
        await self.sql(
            "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
            f" VALUES ('{task_id}', 'web-1-1-0a:1', 'runner', now() + interval '10 min')"
        )


async def dead_worker(night: Night) -> None:
    web = await tell(night.conn, "web-3", 88, ago_s=600)
    await hold(night.conn, web, "ran", ago_s=600)


async def hung_child(night: Night) -> None:
    await night.sql(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at)"
        " SELECT 'r' || n, 'shop.report', 'mail', 'COMPLETED', at - interval '70 s', at FROM generate_series(1, 60) n"
        "  CROSS JOIN LATERAL (SELECT now() - n * interval '1 min' AS at) AS ended"
    )
    await night.running("slow-report", "shop.report", 843, queue_name="'mail'", worker_pid="71")


async def hang_without_history(night: Night) -> None:
    await night.running("the-culprit", "shop.hangs", 460, queue_name="'pay'", worker_pid="71")
    await night.running("neighbour", "shop.resize", 455, queue_name="'pay'", worker_pid="71")


async def lock(night: Night) -> None:
    await night.psql.execute("BEGIN; LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE")


async def slow_database(night: Night) -> None:
    night.proxy.delay_s = 0.15


async def full_connections(night: Night) -> None:
    await night.sql(f"ALTER ROLE {night.role} CONNECTION LIMIT 0")
    await night.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{night.role}'")


async def retry_storm(night: Night) -> None:
    await night.sql(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, enqueued_at, retry_count)"
        " SELECT 't' || n, 'shop.pay', 'pay', 'PENDING', now() - interval '4 min', now() + interval '1 h', 1"
        "   FROM generate_series(1, 249) n;"
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code)"
        " SELECT 't' || n, 1, 'FAILED', true, at, at, 'GATEWAY_DOWN'"
        "   FROM generate_series(1, 249) n CROSS JOIN LATERAL (SELECT now() - n * interval '500 ms' AS at) made"
    )


async def surge(night: Night) -> None:
    await night.sql(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, failed_at, error_code)"
        " SELECT 'f' || n, 'shop.mail', 'mail', 'FAILED', at, at, 'RATE_LIMITED' FROM generate_series(1, 120) n"
        "  CROSS JOIN LATERAL (SELECT now() - n * interval '1 s' AS at) AS ended"
    )


async def paused_queue(night: Night) -> None:
    await send(night.conn, *(f"p{n}" for n in range(120)), queue_name="'mail'", age_s=30)
    await night.sql(
        "INSERT INTO horsies_queue_state (queue_name, paused_at, paused_by, reason)"
        " VALUES ('mail', now() - interval '20 min', 'ops@bastion', 'the provider moves')"
    )


async def full_cap(night: Night) -> None:
    await night.sql("""UPDATE horsies_worker_states SET queue_max_concurrency = '{"mail": 20}'""")
    run = {"status": "'RUNNING'", "claimed_by_worker_id": "'web-1-1-0a'", "claimed_at": "now()", "started_at": "now()"}
    await send(night.conn, *(f"m{n}" for n in range(20)), queue_name="'mail'", **run)
    await send(night.conn, *(f"d{n}" for n in range(30)), queue_name="'mail'", age_s=40)


async def starved_queue(night: Night) -> None:
    await send(night.conn, *(f"v{n}" for n in range(30)), queue_name="'video'", age_s=30)


async def lost_scheduler(night: Night) -> None:
    await add_schedule(night.conn, "nightly", definition(), next_s=4_000)
    await add_scheduler(night.conn, "nightly", pid=88, silent_s=0)


async def crashed_child(night: Night) -> None:
    died = {
        "status": "'FAILED'",
        "error_code": "'WORKER_CRASHED'",
        "failed_reason": "'the child process that ran this task ended: killed by SIGKILL'",
        "claimed_by_worker_id": "'web-1-1-0a'",
        "worker_pid": "4711",
        "started_at": "now()",
        "failed_at": "now()",
    }
    await send(night.conn, "burnt", **died)


async def node_by_hand(night: Night) -> None:
    await month_end(night.conn)
    words = ["workflows", "complete", MONTH_END, "import_us", "--value", "41", "--yes", "--database-url", night.url]
    done = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert done.exit_code == 0, done.output


async def damaged_workflow(night: Night) -> None:
    await send(night.conn, "pay")
    await night.sql(
        "UPDATE horsies_tasks SET status = 'FAILED', is_workflow_task = true, error_code = 'BROKE',"
        " failed_at = now() - interval '5 min', started_at = now() - interval '6 min'"
    )
    flow = "019a7c2e-cccc-7000-8000-00000000e0d2"
    await workflow(night.conn, flow, "order")
    await node(night.conn, flow, 0, "pay", "RUNNING", task_id="'pay'")


async def held_snapshot(night: Night) -> None:
    await night.psql.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM horsies_tasks")


async def missing_index(night: Night) -> None:
    await night.sql("DROP INDEX ix_horsies_tasks_ready")


async def stale_claims(night: Night) -> None:
    await hold(night.conn, "web-1-1-0a", "c1", "c2", status="CLAIMED", ago_s=600)
    await night.sql("UPDATE horsies_tasks SET claim_expires_at = now() - interval '5 min'")


async def outage(night: Night) -> None:
    night.proxy.refuse(10_000)
    night.proxy.cut()


async def memory(night: Night) -> None:
    await night.sql(
        "UPDATE horsies_worker_states SET memory_usage_mb = 100, memory_percent = 1, children_memory_mb = 8700"
    )


async def unknown_tasks(night: Night) -> None:
    await night.sql("UPDATE horsies_worker_states SET task_names = '{shop.mail}'")
    await send(night.conn, "resize-1", "resize-2", age_s=600, task_name="'shop.resize_v2'", queue_name="'mail'")


async def schedule_missed(night: Night) -> None:
    await add_schedule(night.conn, "nightly", definition(), next_s=-400)
    await add_scheduler(night.conn, "nightly")
    await night.sql("UPDATE horsies_schedulers SET seen_at = now() + interval '10 min'")


async def version_behind(night: Night) -> None:
    await tell(night.conn, "web-2", 2, ago_s=-600, horsies_version="'0.8.0'")


async def bad_row(night: Night) -> None:
    await send(night.conn, "odd", queue_name="'mail'")
    await night.sql("UPDATE horsies_tasks SET status = 'FAILED', started_at = 'infinity', failed_at = now()")


async def expired(night: Night) -> None:
    await send(night.conn, "late", age_s=600, queue_name="'mail'")
    await night.sql("UPDATE horsies_tasks SET good_until = now() - interval '5 min'")


Begins = Callable[[Night], Awaitable[None]]
INCIDENTS: Final[dict[str, tuple[Begins, str, str]]] = {
    # name: how it begins, keys with the words that make one press them, and the cause as a pattern
    "a worker is dead": (
        dead_worker,
        "web-3:88 is lost {5}",
        r"no heartbeat of its run for 1\dm.*web-3:88 wrote its last snapshot",
    ),
    "a child hangs": (hung_child, "shop.report runs long {5}", r"runs 1\dm\d+s, usually 1m10s.*web-1:1 child 71"),
    "a task without history hangs": (hang_without_history, "", r"runs 7m on web-1:1 child 71; 1 other in its child"),
    "a table is locked": (lock, "", r"blocked by pid \d+ psql .*idle in transaction after .*LOCK TABLE"),
    "the database is slow": (slow_database, "", r"the server or the network is slow"),
    "all connections are taken": (full_connections, "", r"no free connection|too many connections"),
    "a storm of retries": (retry_storm, "", r"GATEWAY_DOWN surges .*249 in 10m, usually 0, 249 retried"),
    "a surge of failures": (surge, "", r"RATE_LIMITED surges .*120 in 10m, usually 0"),
    "a paused queue is forgotten": (
        paused_queue,
        "queue mail is paused, 120 due {5}",
        r"by ops@bastion, 120 tasks due.*the provider moves",
    ),
    "a cap is full": (full_cap, "", r"queue mail: 20 of 20 run \(cap\), 30 due"),
    "a queue starves": (starved_queue, "", r"queue video has no worker, 30 due"),
    "a scheduler is lost": (lost_scheduler, "", r"scheduler web-1:88 is lost, .*no sign of life from pid 88"),
    "a child crashes": (crashed_child, "", r"crashed, unacknowledged.*on web-1:1 child 4711, killed by SIGKILL"),
    "a node was completed by hand": (node_by_hand, "{7}", r"complete .*import_us|complete .*month_end|complete +node"),
    "a workflow is damaged": (damaged_workflow, "{5}", r"inconsistent +order"),
    "a snapshot is held": (held_snapshot, "{5}", r"pid \d+.*psql.*idle in transaction.*holds back vacuum"),
    "an index is missing": (missing_index, "horsies doctor: indexes {5}", r"ix_horsies_tasks_ready"),
    "claims are stale": (stale_claims, "", r"claimed and stale"),
    "the server refuses": (outage, "", r"starting up"),
    "memory runs out": (memory, "", r"workers use 88% of the memory of web-1"),
    "tasks are unknown": (unknown_tasks, "", r"2 shop.resize_v2 unknown to all workers"),
    "a schedule missed its run": (schedule_missed, "", r"schedule nightly is overdue"),
    "a worker has an older version": (version_behind, "{3} web-2:2", r"web-2:2 .*0\.8\.0"),
    "a row is damaged": (bad_row, "{2} failed {enter}", r"infinity"),
    "tasks have expired": (expired, "", r"past the deadline"),
}  # fmt: skip
SOON: Final = {"a child hangs", "a task without history hangs", "a table is locked", "the database is slow"}
THROUGH: Final = {"the database is slow": "proxy", "the server refuses": "proxy", "all connections are taken": "role"}
"""How the console reaches the database, if not directly."""


@asynccontextmanager
async def night(database: str, connection: asyncpg.Connection) -> AsyncIterator[Night]:
    """A healthy cluster: one worker, whose snapshots stay young as long as a test takes."""
    await tell(connection, "web-1", 1, ago_s=-600, processes="1", worker_started_at="now() - interval '3 h'")
    psql = await asyncpg.connect(database, server_settings={"application_name": "psql"})
    async with BlackholeProxy(database) as proxy, new_role(connection) as role:
        await connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
        yield Night(database, connection, proxy, role, psql)
    psql.terminate()


@pytest.mark.parametrize("name", INCIDENTS)
async def test_the_cause_is_on_the_screen(
    database: str, connection: asyncpg.Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, way, cause = INCIDENTS[name]
    monkeypatch.setattr(transactions, "WARN_AFTER_S", 1.0)
    loop = asyncio.get_running_loop()
    async with night(database, connection) as here:
        urls = {"proxy": here.proxy.url, "role": url_with(database, role=here.role)}
        async with console(urls.get(THROUGH.get(name, ""), database), (200, 50), screen="overview") as screen:
            await screen.sees("LIVE", "Healthy")
            recovery = cast("ConsoleApp", screen.app).recovery
            # The next report is as far away as it can be.
            last = recovery.snapshot.report
            await until(screen.pilot, lambda: recovery.snapshot.report is not last, "another report")
            pattern = re.compile(cause, re.DOTALL)
            assert pattern.search(screen.text) is None
            began = loop.time()
            await begins(here)
            keys = await walk(screen, way)
            await names(screen, pattern)
            took_s = loop.time() - began
    keep(name, keys, took_s)
    print(f"{took_s:6.1f} s  {name}")
    assert name not in SOON or took_s <= SOON_S * slowness()


async def walk(screen: Screen, way: str) -> list[str]:
    """Press the keys, each once the words before it are on the screen."""
    keys = []
    for key, words in re.findall(r"\{(\w+)\}|([^{]+)", way):
        if key:
            await screen.press(key)
            keys.append(key)
        else:
            await screen.sees(words.strip())
    return keys


async def names(screen: Screen, cause: re.Pattern[str]) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S * slowness()):
            while cause.search(screen.text) is None:  # noqa: ASYNC110 - the text changes without an event
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"never named: {cause.pattern}\n{screen.text}") from None


def slowness() -> float:
    """How many processes want this machine's processors, for each of them; 1 on a machine that does nothing else."""
    return min(max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0), 3.0)


def keep(name: str, keys: list[str], took_s: float) -> None:
    """Write the line of this incident into the page."""
    if PAGE not in os.environ:
        return
    page = Path(os.environ[PAGE])
    old = page.read_text("utf-8").splitlines() if page.exists() else []
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in old if line.startswith("| ")}
    rows[name] = f"| {name} | {' '.join(f'`{key}`' for key in keys) or '–'} | {took_s:.1f} |"
    machine = f"{os.cpu_count()} processors, load {os.getloadavg()[2]:.0f}, Python {platform.python_version()}"
    lines = [
        HEAD.format(page=PAGE, machine=machine, day=datetime.now(UTC).date()),
        *(rows[each] for each in INCIDENTS if each in rows),
    ]
    page.write_text("\n".join(lines) + "\n", "utf-8")
