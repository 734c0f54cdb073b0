"""Caps hold for concurrent claims, and a full queue does not delay the others."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from database_server import url_with
from lifecycle_steps import (
    HOT_PATH,
    LEASE_MS,
    ME,
    capped,
    claim_some,
    ended,
    enqueue,
    start_tokens,
    statuses,
    task,
    waits_for_a_lock,
)

import horsies
from horsies.lifecycle.claiming import ClaimedTask, Start, claim_capped, release, start
from horsies.lifecycle.finishing import OutcomeKind, finish

CLAIMERS = 8

IN_FLIGHT = """
SELECT count(*) FROM horsies_tasks
 WHERE status = 'RUNNING' OR status = 'CLAIMED' AND claim_expires_at > clock_timestamp()
"""


def names(tasks: list[ClaimedTask]) -> list[str]:
    return [task.token.task_id for task in tasks]


@asynccontextmanager
async def claimers(database: str) -> AsyncIterator[list[asyncpg.Connection]]:
    async with AsyncExitStack() as stack:
        connections = []
        for _ in range(CLAIMERS):
            connections.append(await asyncpg.connect(database, server_settings=HOT_PATH))
            stack.push_async_callback(connections[-1].close)
        yield connections


@pytest.mark.parametrize(
    ("queues", "cluster"),
    [([("default", 7)], None), ([("default", None)], 7), ([("default", 9)], 7), ([("default", 7)], 20)],
    ids=["queue", "cluster", "cluster within queue", "queue within cluster"],
)
async def test_eight_claimers_at_once_fill_a_hard_cap_exactly(
    database: str, connection: asyncpg.Connection, queues: list[tuple[str, int | None]], cluster: int | None
) -> None:
    await enqueue(connection, *(f"{n:03}" for n in range(60)))
    async with claimers(database) as connections:
        for _ in range(15):
            taken = await asyncio.gather(
                *(
                    capped(conn, queues, worker=f"w-{n}", budget=5, cluster=cluster)
                    for n, conn in enumerate(connections)
                )
            )
            assert sum(map(len, taken)) == 7
            assert await connection.fetchval(IN_FLIGHT) == 7
            await connection.execute(
                "UPDATE horsies_tasks SET status = 'PENDING', claimed = false, claimed_by_worker_id = NULL,"
                " claimed_at = NULL, claim_expires_at = NULL WHERE status = 'CLAIMED'"
            )


async def test_hard_caps_hold_while_eight_workers_claim_run_and_finish(
    database: str, connection: asyncpg.Connection
) -> None:
    await enqueue(connection, *(f"a{n:03}" for n in range(120)), queue_name="'a'")
    await enqueue(connection, *(f"b{n:03}" for n in range(120)), queue_name="'b'")
    queues = [("a", 3), ("b", 4)]

    async def work(number: int, conn: asyncpg.Connection) -> int:
        worker, rng, done = f"w-{number}", random.Random(number), 0
        while await conn.fetchval("SELECT EXISTS (SELECT FROM horsies_tasks WHERE status = 'PENDING')"):
            got = await capped(conn, rng.sample(queues, 2), worker=worker, budget=rng.randint(1, 4), cluster=5)
            tokens = [task.token for task in got]
            back = tokens[: rng.randint(0, 1)]
            await release(conn, worker, back)
            started = (await start_tokens(conn, tokens[len(back) :], worker)).started
            finished = await finish(conn, worker, [ended(token, OutcomeKind.COMPLETED) for token in started])
            done += len(finished)
        return done

    async def watch() -> set[tuple[bool, bool, bool]]:
        seen = set()
        while True:
            row = await connection.fetchrow(
                "SELECT count(*) FILTER (WHERE queue_name = 'a') <= 3, count(*) FILTER (WHERE queue_name = 'b') <= 4,"
                " count(*) <= 5 FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING')"
            )
            seen.add(tuple(row))
            if not await connection.fetchval("SELECT EXISTS (SELECT FROM horsies_tasks WHERE status = 'PENDING')"):
                return seen

    async with claimers(database) as connections:
        seen, *done = await asyncio.gather(watch(), *(work(n, conn) for n, conn in enumerate(connections)))
    assert seen == {(True, True, True)}
    assert sum(done) == 240


@pytest.mark.parametrize(("queues", "cluster"), [([("default", 5)], None), ([("default", None)], 5)])
async def test_a_soft_cap_counts_only_what_runs(
    database: str, connection: asyncpg.Connection, queues: list[tuple[str, int | None]], cluster: int | None
) -> None:
    await enqueue(connection, *(f"{n:03}" for n in range(60)))
    first = await capped(connection, queues, budget=3, cluster=cluster, hard=False)
    assert len(first) == 3
    assert len(await capped(connection, queues, cluster=cluster, hard=False)) == 5
    await start_tokens(connection, [task.token for task in first])
    async with claimers(database) as connections:
        taken = await asyncio.gather(
            *(
                capped(conn, queues, worker=f"w-{n}", budget=9, cluster=cluster, hard=False)
                for n, conn in enumerate(connections)
            )
        )
    assert [len(one) for one in taken] == [2] * CLAIMERS


async def test_a_role_without_rights_can_hold_nothing_that_a_claim_or_start_under_caps_waits_for(
    database: str, connection: asyncpg.Connection, role: str
) -> None:
    await enqueue(connection, "a", "b")
    other = await asyncpg.connect(url_with(database, role=role))
    try:
        await other.execute(
            "SELECT pg_advisory_lock(hashtextextended(name, 0))"
            "  FROM unnest('{horsies-cap:cluster,horsies-cap:queue:default}'::text[]) AS name"
        )
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '5s'")
            (task, _) = await capped(connection, [("default", 5)], cluster=5, hard=False)
            begun = await start(connection, ME, [Start(task.token, 1, "host", "process", "default")], {"default": 5})
            assert begun.started == {task.token}
            held = await connection.fetch(
                "SELECT DISTINCT locktype, relation::regclass::text, mode FROM pg_locks WHERE pid = pg_backend_pid()"
                "   AND (locktype = 'advisory' OR relation = 'horsies_caps'::regclass)"
            )
            assert [tuple(lock) for lock in held if lock["mode"] != "RowExclusiveLock"] == [
                ("relation", "horsies_caps", "RowShareLock")
            ]
        for strength in ("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await other.execute(f"SELECT FROM horsies_caps FOR {strength}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await other.execute("BEGIN; LOCK TABLE horsies_caps IN ACCESS SHARE MODE")
    finally:
        await other.close()


def test_only_a_migration_asks_for_an_advisory_lock() -> None:
    """Any role that may connect can hold one for ever."""
    folder = Path(horsies.__file__).parent
    texts = {path.name: path.read_text("utf-8") for suffix in ("sql", "py") for path in folder.rglob(f"*.{suffix}")}
    asking = re.compile(r"pg_(try_)?advisory_(xact_)?lock")
    assert {name for name, text in texts.items() if asking.search(text)} == {"begin.sql"}


async def test_queues_are_served_in_the_order_given_each_within_its_cap(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a1", "a2", "a3", queue_name="'a'")
    await enqueue(connection, "b2", priority="2", queue_name="'b'")
    await enqueue(connection, "b1", priority="1", queue_name="'b'")
    await enqueue(connection, "c1", queue_name="'c'")
    queues = [("b", 5), ("empty", 1), ("a", 2), ("c", None)]
    assert names(await capped(connection, queues, budget=3)) == ["b1", "b2", "a1"]
    assert names(await capped(connection, queues, budget=9)) == ["a2", "c1"]


async def test_a_cap_below_what_is_in_flight_yields_nothing(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b", "c")
    await claim_some(connection, limit=2)
    assert await capped(connection, [("default", 1)]) == []
    assert await capped(connection, [("default", 0)]) == []
    assert await capped(connection, cluster=1) == []
    assert await capped(connection, budget=0) == []
    assert names(await capped(connection, [("default", 3)])) == ["c"]


async def test_only_the_names_asked_for_are_claimed_and_no_paused_queue(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", task_name="'demo.gone'")
    await enqueue(connection, "b", "c")
    await enqueue(connection, "p", queue_name="'paused'")
    await connection.execute("INSERT INTO horsies_queue_state (queue_name, paused_at) VALUES ('paused', now())")
    queues = [("paused", 5), ("default", 1)]
    assert names(await capped(connection, queues, names=["demo.add"])) == ["b"]


@pytest.mark.parametrize(
    "columns",
    [
        {"enqueued_at": "now() + interval '1 h'"},
        {"next_retry_at": "now() + interval '1 h'"},
        {"good_until": "now()"},
        {"status": "'COMPLETED'"},
    ],
    ids=lambda columns: " ".join(columns.values()),
)
async def test_what_is_not_due_is_left(connection: asyncpg.Connection, columns: dict[str, str]) -> None:
    await enqueue(connection, "t", **columns)
    assert await capped(connection, [("default", 5)], cluster=5) == []


@pytest.mark.parametrize("cluster", [None, 2])
async def test_an_expired_claim_goes_back_to_the_queue_with_its_place(
    connection: asyncpg.Connection, cluster: int | None
) -> None:
    await enqueue(connection, "a", "b", "c")
    (old,) = await capped(connection, [("default", 2)], cluster=cluster, worker="dead", budget=1, lease_ms=0)
    new, _ = claims = await capped(connection, [("default", 2)], cluster=cluster)
    assert names(claims) == ["a", "b"]
    assert (new.token.worker_id, new.token.claimed_at > old.token.claimed_at) == (ME, True)
    assert await capped(connection, [("default", 2)], cluster=cluster) == []
    assert (await start_tokens(connection, [old.token], "dead")).stale == {old.token}
    assert (await start_tokens(connection, [new.token])).started == {new.token}


async def test_an_expired_claim_of_another_queue_gives_its_place_under_the_cluster_cap_back(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "a", queue_name="'left'")
    await enqueue(connection, "b")
    await capped(connection, [("left", None)], cluster=1, worker="dead", lease_ms=0)
    assert names(await capped(connection, cluster=1)) == ["b"]
    assert await statuses(connection) == {"a": "PENDING", "b": "CLAIMED"}


@pytest.mark.parametrize(("queues", "cluster"), [([("default", 1)], None), ([("default", None)], 1)])
async def test_a_start_that_waits_for_its_row_keeps_its_place_when_its_lease_runs_out_meanwhile(
    database: str, connection: asyncpg.Connection, queues: list[tuple[str, int | None]], cluster: int | None
) -> None:
    await enqueue(connection, "a", "b")
    slow, holder = await asyncpg.connect(database), await asyncpg.connect(database)
    (claimed,) = await capped(slow, queues, cluster=cluster, budget=1, lease_ms=300)
    async with holder.transaction():
        await holder.execute("SELECT FROM horsies_tasks WHERE id = 'a' FOR UPDATE")
        starting = await waits_for_a_lock(connection, slow, start_tokens(slow, [claimed.token]))
        await connection.execute("SELECT pg_sleep_until($1)", claimed.token.claimed_at + timedelta(seconds=0.4))
        other = await capped(connection, queues, worker="worker-b", cluster=cluster)
        await start_tokens(connection, [one.token for one in other], "worker-b")
    assert (await starting).started == {claimed.token}
    assert await statuses(connection) == {"a": "RUNNING", "b": "PENDING"}
    await slow.close()
    await holder.close()


async def test_workers_that_prefetch_and_workers_that_do_not_share_a_cap(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b", "c", "d", "e", "f")
    queues = [("default", 3)]
    ahead = await capped(connection, queues, budget=3, hard=False)
    assert names(ahead) == ["a", "b", "c"]
    others = await capped(connection, queues, worker="worker-b", budget=2)
    assert names(others) == ["d", "e"], "what was claimed ahead takes no place"
    starts = [Start(one.token, 7, "host", "worker-7", "default") for one in ahead]
    verdicts = await start(connection, ME, starts, {"default": 3})
    assert ({token.task_id for token in verdicts.started}, len(verdicts.waiting)) == ({"a"}, 2)
    assert await capped(connection, queues, worker="worker-b") == []
    assert len((await start_tokens(connection, [one.token for one in others], "worker-b")).started) == 2
    assert len((await start(connection, ME, starts, {"default": 3})).waiting) == 2
    await finish(connection, "worker-b", [ended(others[0].token, OutcomeKind.COMPLETED)])
    verdicts = await start(connection, ME, starts, {"default": 3})
    assert {token.task_id for token in verdicts.started} == {"a", "b"}


async def test_a_task_claimed_under_a_cap_is_like_any_other(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", "u", args="'[1]'", task_options="'{}'", max_retries="2", priority="4")
    (plain,) = await claim_some(connection, limit=1)
    (under,) = await capped(connection, [("default", 2)], cluster=9, lease_ms=90_000)
    assert (under.args, under.task_options, under.max_retries, under.priority) == ("[1]", "{}", 2, 4)
    first, second = await task(connection, plain.token.task_id), await task(connection, under.token.task_id)
    assert second["claimed_at"] == under.token.claimed_at
    assert second["claim_expires_at"] - second["claimed_at"] == timedelta(seconds=90)
    own = {"id", "claimed_at", "claim_expires_at", "updated_at"}
    assert {name for name in first if first[name] != second[name]} == own


async def test_large_arguments_stay_in_the_table(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", args="repeat('x', 70000)")
    (claimed,) = await capped(connection)
    assert (claimed.large, claimed.args) == (True, None)


async def test_who_waits_for_a_cap_counts_what_was_claimed_meanwhile(
    database: str, connection: asyncpg.Connection
) -> None:
    await enqueue(connection, "a", "b", "c", "d")
    first, second = await asyncpg.connect(database), await asyncpg.connect(database)
    async with first.transaction():
        assert len(await capped(first, [("default", 2)])) == 2
        waiting = await waits_for_a_lock(connection, second, capped(second, [("default", 3)]))
        assert not waiting.done()
        still_waited = await connection.fetchval("SELECT clock_timestamp()")
    (claimed,) = await waiting
    assert claimed.token.task_id == "c"
    assert claimed.token.claimed_at > still_waited, "the lease runs from the claim, not from the wait"
    await first.close()
    await second.close()


async def test_a_session_that_cannot_see_what_was_claimed_meanwhile_is_refused(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    await connection.execute("SET default_transaction_isolation TO 'repeatable read'")
    with pytest.raises(asyncpg.RaiseError, match="needs READ COMMITTED, not REPEATABLE READ"):
        await capped(connection, cluster=1)
    assert await statuses(connection) == {"t": "PENDING"}


async def test_a_claim_tells_which_caps_have_no_room_left(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b", "c")
    await enqueue(connection, "d", queue_name="'other'")
    limits = {"worker_id": ME, "hard": True, "lease_ms": LEASE_MS, "task_names": None}

    async def full(budget: int, cluster: int | None, *caps: int | None) -> set[str | None]:
        queues = list(zip(["default", "other"], caps, strict=True))
        return set((await claim_capped(connection, queues=queues, budget=budget, cluster_cap=cluster, **limits)).full)

    assert await full(1, None, 3, None) == set()
    assert await full(1, None, 2, None) == {"default"}
    assert await full(1, 2, 3, 3) == {None}
    assert await full(1, 3, 3, 3) == {"default", None}
    assert await full(1, None, 3, 1) == {"other"}  # no task waits in the first one, so its cap was not checked


class TestCapsOnWhatRuns:
    """With prefetching a claim counts only running tasks, so the cap is enforced at the start of a task."""

    async def claimed(self, conn: asyncpg.Connection, *ids: str, worker: str = ME, **columns: str) -> list[Start]:
        await enqueue(conn, *ids, **columns)
        queue = columns.get("queue_name", "'default'").strip("'")
        tasks = await capped(conn, [(queue, None)], worker=worker, hard=False)
        return [Start(one.token, 7, "host", "worker-7", one.queue_name) for one in tasks]

    async def test_no_more_start_than_the_cap_has_room_for_the_first_ones_first(
        self, connection: asyncpg.Connection
    ) -> None:
        starts = await self.claimed(connection, "a", "b", "c", "d", priority="10 - number")
        starts += await self.claimed(connection, "free", queue_name="'other'")
        verdicts = await start(connection, ME, starts, {"default": 2, "unused": 1})
        assert {token.task_id for token in verdicts.started} == {"d", "c", "free"}
        assert {token.task_id for token in verdicts.waiting} == {"a", "b"}
        assert (verdicts.expired, verdicts.stale) == (frozenset(), frozenset())
        assert await statuses(connection) == {
            "a": "CLAIMED", "b": "CLAIMED", "c": "RUNNING", "d": "RUNNING", "free": "RUNNING"
        }  # fmt: skip

    async def test_one_that_is_stale_or_past_its_deadline_does_not_wait(self, connection: asyncpg.Connection) -> None:
        starts = await self.claimed(connection, "a", "b", "c", good_until="now() + interval '1 h'")
        await connection.execute("UPDATE horsies_tasks SET good_until = now() - interval '1 s' WHERE id = 'b'")
        await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED' WHERE id = 'c'")
        verdicts = await start(connection, ME, starts, {"default": 0})
        assert [
            {token.task_id for token in tokens} for tokens in (verdicts.waiting, verdicts.expired, verdicts.stale)
        ] == [{"a"}, {"b"}, {"c"}]

    async def test_two_workers_that_start_at_once_share_the_room(
        self, connection: asyncpg.Connection, other: asyncpg.Connection
    ) -> None:
        mine = await self.claimed(connection, *(f"a{n}" for n in range(20)))
        theirs = await self.claimed(connection, *(f"b{n}" for n in range(20)), worker="worker-b")
        both = await asyncio.gather(
            start(connection, ME, mine, {"default": 5}), start(other, "worker-b", theirs, {"default": 5})
        )
        assert sum(len(verdicts.started) for verdicts in both) == 5
