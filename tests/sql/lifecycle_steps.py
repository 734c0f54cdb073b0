"""Steps for tests of the lifecycle: insert tasks, use tokens, read rows and attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import (
    ClaimedTask,
    ClaimRequest,
    Start,
    StartVerdicts,
    claim,
    claim_capped,
    release_expired,
    start,
)
from horsies.lifecycle.finishing import Outcome, OutcomeKind

ME, OTHER = "worker-a", "worker-b"
LEASE_MS = 600_000
OK = '{"__task_result__":true,"ok":3,"err":null}'

# The settings of a worker's dedicated connection.
HOT_PATH = {"plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off"}
# The same, and sessions without settings, such as a producer's or one behind a pooler.
MODES = {
    "worker": HOT_PATH,
    "generic": {"plan_cache_mode": "force_generic_plan"},
    "auto": {"plan_cache_mode": "auto"},
}


async def enqueue(conn: asyncpg.Connection, *ids: str, **columns: str) -> None:
    """Tasks with these ids; a column is given as an SQL expression."""
    given = {"task_name": "'demo.add'", "queue_name": "'default'", **columns}
    await conn.execute(
        f"INSERT INTO horsies_tasks (id, {', '.join(given)}) SELECT id, {', '.join(given.values())}"
        " FROM unnest($1::text[]) WITH ORDINALITY AS new (id, number)",
        list(ids),
    )


async def claim_some(
    conn: asyncpg.Connection, worker: str = ME, limit: int = 100, queue: str = "default", lease_ms: int = LEASE_MS
) -> list[ClaimedTask]:
    return await claim(conn, worker, ClaimRequest(queue, limit, lease_ms, None))


async def capped(
    conn: asyncpg.Connection,
    queues: Sequence[tuple[str, int | None]] = (("default", None),),
    *,
    worker: str = ME,
    budget: int = 100,
    cluster: int | None = None,
    hard: bool = True,
    lease_ms: int = LEASE_MS,
    names: list[str] | None = None,
) -> list[ClaimedTask]:
    claims = await claim_capped(
        conn,
        worker_id=worker,
        queues=queues,
        budget=budget,
        cluster_cap=cluster,
        hard=hard,
        lease_ms=lease_ms,
        task_names=names,
    )
    return claims.tasks


async def take_over(
    conn: asyncpg.Connection, *, worker_id: str, queue: str, limit: int, lease_ms: int, task_names: list[str] | None
) -> list[ClaimedTask]:
    """Take over claims whose lease has run out, as a claimer does."""
    await release_expired(conn, [queue])
    return await claim(conn, worker_id, ClaimRequest(queue, limit, lease_ms, task_names))


async def claim_tokens(conn: asyncpg.Connection, worker: str = ME, *, lease_ms: int = LEASE_MS) -> list[Token]:
    return [task.token for task in await claim_some(conn, worker, lease_ms=lease_ms)]


async def start_tokens(conn: asyncpg.Connection, tokens: Iterable[Token], worker: str = ME) -> StartVerdicts:
    return await start(conn, worker, [Start(token, 4242, "host", "worker-4242") for token in tokens])


async def running(conn: asyncpg.Connection, *ids: str, worker: str = ME, **columns: str) -> list[Token]:
    """Tokens of new tasks that this worker runs, in the order of the ids."""
    await enqueue(conn, *ids, **columns)
    tokens = sorted(await claim_tokens(conn, worker), key=lambda token: token.task_id)
    verdicts = await start_tokens(conn, tokens, worker)
    assert verdicts.started == frozenset(tokens)
    return tokens


def ended(token: Token, kind: OutcomeKind, **fields: Any) -> Outcome:
    """An outcome with a value in each field that its kind has."""
    if kind is OutcomeKind.COMPLETED:
        return Outcome(token, kind, OK, **fields)
    told = {"result_json": '{"err":1}', "error_code": "BROKE", "error_message": "it broke", **fields}
    if kind is OutcomeKind.RETRY:
        told.setdefault("retry_delay_s", 60.0)
    return Outcome(token, kind, **told)


async def task(conn: asyncpg.Connection, task_id: str) -> dict[str, Any]:
    return dict(await conn.fetchrow("SELECT * FROM horsies_tasks WHERE id = $1", task_id))


async def statuses(conn: asyncpg.Connection) -> dict[str, str]:
    return {row["id"]: row["status"] for row in await conn.fetch("SELECT id, status FROM horsies_tasks")}


async def attempts(conn: asyncpg.Connection, task_id: str) -> list[dict[str, Any]]:
    rows = await conn.fetch("SELECT * FROM horsies_task_attempts WHERE task_id = $1 ORDER BY attempt", task_id)
    return [dict(row) for row in rows]


async def everything(conn: asyncpg.Connection) -> list[list[tuple[Any, ...]]]:
    """All rows that the lifecycle writes, for comparing before and after."""
    tables = ("horsies_tasks", "horsies_task_attempts", "horsies_heartbeats")
    return [[tuple(row) for row in await conn.fetch(f"SELECT * FROM {table} ORDER BY id")] for table in tables]


async def waits_for_a_lock(observer: asyncpg.Connection, conn: asyncpg.Connection, step: Awaitable[Any]) -> Any:
    """The running step, once it waits for another session's lock or has ended without waiting."""
    running = asyncio.ensure_future(step)
    while not running.done():
        if await observer.fetchval("SELECT pg_blocking_pids($1) <> '{}'", conn.get_server_pid()):
            break
    return running


class Ear:
    """The notifications of a database, each time with those of all commits before."""

    def __init__(self, writer: asyncpg.Connection) -> None:
        self._writer = writer
        self._heard: list[tuple[str, str]] = []
        self._silence = asyncio.Event()

    def hear(self, _connection: object, _pid: int, channel: str, payload: str) -> None:
        if channel == "nothing_more":
            self._silence.set()
        else:
            self._heard.append((channel, payload))

    async def all(self) -> list[tuple[str, str]]:
        """Notifications arrive in the order of their commits."""
        self._silence.clear()
        await self._writer.execute("NOTIFY nothing_more")
        await asyncio.wait_for(self._silence.wait(), 10)
        return sorted(self._heard)

    async def after(self, step: Awaitable[object]) -> list[tuple[str, str]]:
        """Those of this step, without those of earlier ones."""
        await self.all()
        self._heard.clear()
        await step
        return await self.all()


@asynccontextmanager
async def listening(database: str, writer: asyncpg.Connection, *channels: str) -> AsyncIterator[Ear]:
    session, ear = await asyncpg.connect(database), Ear(writer)
    for channel in (*channels, "nothing_more"):
        await session.add_listener(channel, ear.hear)
    yield ear
    await session.close()
