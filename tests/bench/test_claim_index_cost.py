"""What indexes of horsies_tasks cost a task from send to finish: time and WAL.

Of the two by which a claim finds tasks behind a backlog, a send alone writes 143 bytes more, 7 % of its WAL one at a
time and 14 % in bulk; of a whole task it is 2 to 3 %. Of the one that serves statistics by name, the run writes 85
bytes more, 2 %.

`pytest -m bench -n 0 -s tests/bench/test_claim_index_cost.py`. Two databases in turn, with and without them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

import asyncpg
import pytest
from database_server import DatabaseServer

from horsies.domain.ids import new_task_id
from horsies.lifecycle.claiming import ClaimRequest, claim
from horsies.lifecycle.finishing import Outcome, OutcomeKind, finish
from horsies.lifecycle.starting import Start, start
from horsies.store.enqueue import EnqueueRequest, enqueue_many, enqueue_one

pytestmark = pytest.mark.bench

WORKER = "worker-host:4242:00000000-0000-0000-0000-000000000007"
RESULT = '{"__task_result__":true,"ok":3,"err":null}'
ROUNDS = 9
FINISHED_BEFORE = 50_000
TASKS_BY_BATCH = {1: 1_500, 50: 10_000}
MOST = 1.05
INDEXES = {
    "search": "ix_horsies_tasks_ready_by_name, ix_horsies_tasks_ready_until",
    "statistics": "ix_horsies_tasks_finished_by_name",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one task."""

    us: float
    wal_bytes: float


class Meter:
    """Measures the time of statements on one connection, and the WAL that the server writes meanwhile."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.costs: dict[tuple[str, int], list[Cost]] = defaultdict(list)

    async def start(self) -> None:
        await self._connection.execute("VACUUM ANALYZE horsies_tasks, horsies_task_attempts")
        await self._connection.execute("CHECKPOINT")
        self._position = await self._connection.fetchval("SELECT pg_current_wal_insert_lsn()")
        self._began = time.perf_counter()

    async def stop(self, what: str, batch: int) -> None:
        spent = time.perf_counter() - self._began
        written = await self._connection.fetchval("SELECT pg_current_wal_insert_lsn() - $1::pg_lsn", self._position)
        count = TASKS_BY_BATCH[batch]
        self.costs[what, batch].append(Cost(spent * 1e6 / count, float(written) / count))

    def middle(self, what: str, batch: int) -> Cost:
        costs = self.costs[what, batch]
        return Cost(median(cost.us for cost in costs), median(cost.wal_bytes for cost in costs))


def request() -> EnqueueRequest:
    return EnqueueRequest(
        task_id=new_task_id(),
        task_name="demo.add",
        enqueue_sha="ab" * 32,
        sent_at=datetime.now(UTC),
        args_json="[1,2]",
        task_options='{"retry_policy":null,"good_until":null}',
    )


async def send(connection: asyncpg.Connection, batch: int) -> None:
    requests = [request() for _ in range(TASKS_BY_BATCH[batch])]
    for first in range(0, len(requests), batch):
        if batch == 1:
            await enqueue_one(connection, requests[first])
        else:
            await enqueue_many(connection, requests[first : first + batch])


async def run(connection: asyncpg.Connection, batch: int) -> None:
    done = 0
    while done < TASKS_BY_BATCH[batch]:
        claimed = await claim(connection, WORKER, ClaimRequest("default", batch, 60_000, ["demo.add", "demo.sum"]))
        starts = [Start(task.token, 4242, "worker-host", "worker-4242") for task in claimed]
        verdicts = await start(connection, WORKER, starts)
        outcomes = [Outcome(token, OutcomeKind.COMPLETED, RESULT) for token in verdicts.started]
        done += len(await finish(connection, WORKER, outcomes))


async def connect(database: str) -> asyncpg.Connection:
    settings = {"plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off"}
    connection = await asyncpg.connect(database, server_settings=settings)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, completed_at)"
        f" SELECT gen_random_uuid()::text, 'demo.add', 'default', 'COMPLETED', '{WORKER}', now()"
        f" FROM generate_series(1, {FINISHED_BEFORE})"
    )
    await connection.execute("SET session_replication_role = origin")
    return connection


@pytest.mark.parametrize("indexes", INDEXES.values(), ids=INDEXES)
async def test_the_indexes_cost_a_task_less_than_a_twentieth(
    server: DatabaseServer, indexes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with server.database() as without, server.database() as beside:
        meters = {}
        connections = {"without": await connect(without), "with": await connect(beside)}
        await connections["without"].execute(f"DROP INDEX {indexes}")
        for name, connection in connections.items():
            meters[name] = Meter(connection)
        for _ in range(ROUNDS):
            for batch in TASKS_BY_BATCH:
                for name, connection in connections.items():
                    for what, do in (("send", send), ("run", run)):
                        await meters[name].start()
                        await do(connection, batch)
                        await meters[name].stop(what, batch)
        for connection in connections.values():
            await connection.close()
    report(meters, capsys)
    for batch in TASKS_BY_BATCH:
        parts = {name: [meter.middle(what, batch) for what in ("send", "run")] for name, meter in meters.items()}
        assert sum(cost.us for cost in parts["with"]) < MOST * sum(cost.us for cost in parts["without"])
        assert sum(cost.wal_bytes for cost in parts["with"]) < MOST * sum(cost.wal_bytes for cost in parts["without"])


def report(meters: dict[str, Meter], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\nbatch  what   µs/task: without    with  ratio   WAL bytes/task: without    with  ratio")
        for batch in TASKS_BY_BATCH:
            for what in ("send", "run"):
                old, new = meters["without"].middle(what, batch), meters["with"].middle(what, batch)
                print(
                    f"{batch:>5}  {what:<5} {old.us:>16.1f} {new.us:>7.1f} {new.us / old.us:>6.3f}"
                    f" {old.wal_bytes:>24.0f} {new.wal_bytes:>7.0f} {new.wal_bytes / old.wal_bytes:>6.3f}"
                )
