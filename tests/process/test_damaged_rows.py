"""Whatever a row contains, those beside it are handled, and what reads it goes on and says that it is damaged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NoReturn

import asyncpg
import pytest
from cli_steps import horsies
from damage_scene import Damage, copied, damaged, free_columns, store, templates
from scraping import parsed, scrape
from test_worker import Table, Worker
from typer.main import get_command

from horsies.cli.main import _GROUPS, _whole, app
from horsies.config.recovery import RecoveryConfig
from horsies.config.url import DatabaseUrl
from horsies.domain.damage import plain_stored
from horsies.lifecycle.reconciling import reconcile_all
from horsies.lifecycle.recovering import recover
from horsies.lifecycle.retention import ages_of, prune
from horsies.operations.verb import COMMAND_GROUPS
from horsies.operations.verbs import verbs_for
from horsies.run.metrics.exporter import cluster_page
from horsies.store.connect import Database
from horsies.views.cluster import exported

pytestmark = pytest.mark.usefixtures("here")


CONFIG = RecoveryConfig()
SETTINGS = (("enable_seqscan", "off"), ("plan_cache_mode", "force_generic_plan"))
# They run until they are stopped, change rows, write files, or read no database.
NOT_READING = frozenset({"worker", "scheduler", "metrics", "tui", "demo", "new", "check", "db", "recovery run"})
OF_A_RUNNING_TASK = frozenset({"tasks stack", "tasks logs"})
ENDS_WITH = {"doctor": (0, 1)}
"""A finding is an exit code of its own."""


@pytest.fixture
async def conn(database: str) -> AsyncIterator[asyncpg.Connection]:
    opened = await Database(DatabaseUrl.parse(database), "in a test", None).connect("test", settings=SETTINGS)
    yield opened
    await opened.close()


async def healthy(conn: asyncpg.Connection) -> dict[str, str]:
    """One family of each kind; their ids by the names of their templates."""
    made = {name: f"9{number:04}" for number, name in enumerate(templates(datetime.now(UTC)))}
    rows = {number: copied(templates(datetime.now(UTC))[name], number) for name, number in made.items()}
    assert set((await store(conn, rows)).values()) == {None}
    return made


def of(found: list[Damage], *kinds: str) -> list[Damage]:
    """Those of these templates that can be named."""
    names = {"id", "schedule_name"}
    return [one for one in found if one.template in kinds and one.column not in names]


def reading_commands() -> Iterator[str]:
    verbs = {f"{group} {verb.name}" for kind, group in COMMAND_GROUPS.items() for verb in verbs_for(kind)}
    whole: Any = get_command(app)
    for name in whole.commands:
        group = _GROUPS.get(name)
        own = [name] if group is None else [f"{name} {one}" for one in _whole(group).commands]
        yield from (one for one in own if not {one, name} & (verbs | NOT_READING))


def arguments(command: str, found: list[Damage]) -> Iterator[list[str]]:
    match command:
        case "tasks show":
            kinds = ("pending", "overdue", "claimed", "running", "failed", "completed", "stuck")
            yield from ([f"task-{one.id}"] for one in of(found, *kinds))
        case "workflows show" | "workflows graph":
            yield from ([f"flow-{one.id}"] for one in of(found, "stuck", "flow over", "child"))
        case "schedules next":
            yield from ([f"every-{one.id}"] for one in of(found, "schedule"))
        case "tasks ls":
            yield from (["--limit", "2000"], ["run:>1s"], ["wait:>1s", "--sort", "waiting"])
        case "workflows ls" | "audit ls":
            yield ["--limit", "2000"]
        case _:
            yield []


async def read(command: str, given: list[str], *, as_json: bool) -> str:
    """What it says, which is JSON for any reader of JSON."""
    answer = await horsies(*command.split(), *given, *(["--json"] if as_json else []))
    assert answer.code in ENDS_WITH.get(command, (0,)), answer.err
    if as_json:
        json.loads(answer.out, parse_constant=no_json)
    return answer.out


def no_json(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


async def all_commands(found: list[Damage], *, in_both_forms: bool) -> list[str]:
    """What failed. Otherwise rows are shown in turn as text and as JSON, and lists in both forms all the same."""
    failed = []
    for command in reading_commands():
        if command in OF_A_RUNNING_TASK:
            continue
        for number, given in enumerate(arguments(command, found)):
            forms = (False, True) if in_both_forms or not given or given[0][0] == "-" else (number % 2 == 0,)
            for as_json in forms if not command.endswith("export") else (False,):
                try:
                    await read(command, given, as_json=as_json)
                except Exception as error:  # noqa: BLE001 - all of them are shown
                    failed.append(f"{command} {given} {as_json}: {error!r:.300}")
    return failed


async def is_exported(conn: asyncpg.Connection) -> None:
    page = cluster_page(await exported(conn), up=True, current=True, took_s=0.0, at=0.0)
    assert len(parsed(page.encoded().decode())) > 20


async def state(conn: asyncpg.Connection, table: str, key: str, column: str = "status") -> Any:
    name = {"horsies_tasks": "task", "horsies_workflows": "flow"}[table]
    return await conn.fetchval(f"SELECT {column} FROM {table} WHERE id = $1", f"{name}-{key}")


async def handled(conn: asyncpg.Connection, ids: dict[str, str], found: list[Damage]) -> None:
    """Sweep and prune: the healthy rows are handled, and of the damaged ones only those are refused that make no
    sense."""
    done = await recover(conn, CONFIG)
    assert {name: await state(conn, "horsies_tasks", ids[name]) for name in ("pending", "overdue", "claimed")} == {
        "pending": "PENDING",
        "overdue": "EXPIRED",
        "claimed": "PENDING",
    }
    assert await state(conn, "horsies_tasks", ids["running"], "error_code") == "WORKER_CRASHED"
    assert done.refused == ()
    repaired = await reconcile_all(conn, CONFIG.crashed_worker_recovery_grace_ms)
    assert repaired.locked == ()
    nodes = await conn.fetch(
        "SELECT status FROM horsies_workflow_tasks WHERE workflow_id = $1 ORDER BY task_index", f"flow-{ids['stuck']}"
    )
    assert [status for (status,) in nodes] == ["COMPLETED", "ENQUEUED"]
    damaged_flows = {f"flow-{one.id}" for one in found}
    assert {one.item for one in repaired.refused} <= damaged_flows | {""}
    pruned = await prune(conn, ages_of(CONFIG))
    assert pruned.refused == ()
    assert await state(conn, "horsies_tasks", ids["completed"]) is None
    assert await state(conn, "horsies_workflows", ids["flow over"]) is None
    left = "SELECT count(*) FROM horsies_worker_states WHERE snapshot_at < now() - interval '80 d'"
    assert await conn.fetchval(left) == 0
    beats = "SELECT count(*) FROM horsies_heartbeats WHERE sent_at < now() - interval '80 d'"
    assert await conn.fetchval(beats) == 0
    # What a sweep can do with them is done: the next one finds the same, and no more.
    assert (await recover(conn, CONFIG)).changed == 0
    assert {one.item for one in (await reconcile_all(conn, 0)).refused} == {one.item for one in repaired.refused}


async def works(start: Callable[..., Worker], table: Table, task_ids: list[str]) -> None:
    """A worker runs what it can, and none of its loops fails."""
    worker = start("--metrics-port", "0", TEST_PREFETCH="8")
    url = str(worker.wait_for("metrics")["url"]).removesuffix("/metrics")
    for task_id in task_ids:
        assert (await table.done(task_id))["status"] == "COMPLETED"
    assert len(await scrape(url)) > 20
    assert worker.stop() == 0
    failures = [one for one in worker.all_records() if one["event"] in ("?", "loop failed", "outcome rejected")]
    assert failures == []


@pytest.mark.parametrize(
    ("in_every_way", "shown"),
    [pytest.param(False, 15, id="in turn"), pytest.param(True, 20, id="in every way", marks=pytest.mark.chaos)],
)
async def test_a_damaged_row_stops_nothing(
    conn: asyncpg.Connection, table: Table, start: Callable[..., Worker], in_every_way: bool, shown: int
) -> None:
    found = await damaged(conn, templates(datetime.now(UTC)), in_every_way=in_every_way)
    assert {(one.table, one.column) for one in found} >= await free_columns(conn)
    ids = await healthy(conn)
    assert await all_commands(found[::shown], in_both_forms=in_every_way) == []
    await is_exported(conn)
    await handled(conn, ids, found)
    await works(start, table, [f"task-{ids[name]}" for name in ("pending", "claimed")])


async def test_a_damaged_row_is_marked_where_it_is_shown(conn: asyncpg.Connection) -> None:
    now = datetime.now(UTC)
    rows = {
        "running": ("horsies_tasks", "started_at", "4000-01-01 00:00:00+00 BC"),
        "worker": ("horsies_worker_states", "queue_priorities", [7]),
        "schedule": ("horsies_schedules", "definition", "daily"),
        "action": ("horsies_operator_actions", "before_state", []),
        "stuck": ("horsies_workflows", "started_at", "infinity"),
    }
    for number, (name, (where, column, value)) in enumerate(rows.items()):
        family = {key: dict(row) for key, row in copied(templates(now)[name], f"{number:05}").items()}
        family[where][column] = value
        assert await store(conn, {name: family}) == {name: None}
    for command, key, mark in (
        ("tasks ls", "tasks", {"started_at": "4000-01-01 00:00:00+00 BC"}),
        ("workers ls", "workers", {"queue_priorities": "[7]"}),
        ("schedules ls", "schedules", {"when": '"daily"'}),
        ("audit ls --task task-00003", "actions", {"before_state": "[]"}),
        ("workflows ls", "workflows", {"started_at": "infinity"}),
    ):
        told = json.loads(await read(command, [], as_json=True))[key]
        assert mark in [one.get("damaged") for row in told for one in (row, row.get("snapshot") or {})]
        (stored,) = mark.values()
        text = await read(command, [], as_json=False)
        assert "damaged: " in text
        assert (plain_stored(stored) or "not of its type") in text  # a text may be masked elsewhere
    page = json.loads(await read("tasks ls", ["--sort", "running", "--limit", "1"], as_json=True))
    again = json.loads(
        await read("tasks ls", ["--sort", "running", "--limit", "1", "--after", page["next"]], as_json=True)
    )
    assert again["tasks"] != page["tasks"]
