"""Notifications of a task's life are as documented: new work when it is sent or returned, done when it has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
from lifecycle_steps import ME, Ear, claim_tokens, ended, enqueue, listening, running, start_tokens
from sweep_steps import options, stale_claims, stale_runs

from horsies.config.recovery import RecoveryConfig
from horsies.lifecycle.claim_token import beat, renew
from horsies.lifecycle.claiming import claim_capped, release
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.lifecycle.recovering import recover

CHANNELS = ("task_new", "task_queue_default", "task_done")


@pytest.fixture
async def ear(database: str, connection: asyncpg.Connection) -> AsyncIterator[Ear]:
    async with listening(database, connection, *CHANNELS) as ear:
        yield ear


async def test_only_the_sending_announces_work(connection: asyncpg.Connection, ear: Ear) -> None:
    assert await ear.after(enqueue(connection, "t")) == [("task_new", "t"), ("task_queue_default", "t")]
    limits = {"budget": 1, "cluster_cap": 1, "hard": True, "lease_ms": 60_000, "task_names": None}
    assert await ear.after(claim_capped(connection, worker_id=ME, queues=[("default", 1)], **limits)) == []
    assert await ear.after(renew(connection, ME, 60_000, 60_000, hostname="host", pid=1)) == []
    await release(connection, ME, await renew(connection, ME, 60_000, 60_000, hostname="host", pid=1))
    tokens = await claim_tokens(connection)
    assert await ear.after(start_tokens(connection, tokens)) == []
    assert await ear.after(beat(connection, ME, "host", [(tokens[0], 1)])) == []


@pytest.mark.parametrize("kind", [OutcomeKind.COMPLETED, OutcomeKind.FAILED, OutcomeKind.WORKER_FAILURE])
async def test_an_end_is_announced_as_done(connection: asyncpg.Connection, ear: Ear, kind: OutcomeKind) -> None:
    tokens = await running(connection, "a", "b")
    outcomes = [ended(token, kind) for token in tokens]
    assert await ear.after(finish(connection, ME, outcomes)) == [("task_done", "a"), ("task_done", "b")]


async def test_an_expiry_at_the_start_is_announced_as_done(connection: asyncpg.Connection, ear: Ear) -> None:
    await enqueue(connection, "t")
    tokens = await claim_tokens(connection)
    await connection.execute("UPDATE horsies_tasks SET good_until = now()")
    assert await ear.after(start_tokens(connection, tokens)) == [("task_done", "t")]


async def test_a_task_that_waits_for_its_retry_is_not_announced(connection: asyncpg.Connection, ear: Ear) -> None:
    (token,) = await running(connection, "t", max_retries="1")
    assert await ear.after(finish(connection, ME, [ended(token, OutcomeKind.RETRY)])) == []


async def test_what_is_put_back_is_announced_once_for_each_queue(connection: asyncpg.Connection, ear: Ear) -> None:
    await enqueue(connection, "a", "b", "c")
    tokens = await claim_tokens(connection)
    assert await ear.after(release(connection, ME, tokens)) == [("task_queue_default", "capacity:released")]
    assert await ear.after(release(connection, ME, tokens)) == []
    tokens = await claim_tokens(connection)
    await start_tokens(connection, tokens)
    outcomes = [ended(token, OutcomeKind.INTERRUPT_REQUEUE) for token in tokens]
    assert await ear.after(finish(connection, ME, outcomes)) == [("task_queue_default", "capacity:interrupted")]
    assert await ear.after(finish(connection, ME, outcomes)) == []


async def test_a_sweep_wakes_those_who_can_run_what_it_put_back(connection: asyncpg.Connection, ear: Ear) -> None:
    crash = options("WORKER_CRASHED")
    swept = ("task_queue_default", "capacity:swept")
    await stale_claims(connection, "a", "b")
    assert await ear.after(recover(connection, RecoveryConfig())) == [swept]
    await stale_runs(connection, "c", "d", max_retries="1", task_options=crash)
    assert await ear.after(recover(connection, RecoveryConfig())) == [swept]
    await stale_runs(connection, "e", "f")
    assert await ear.after(recover(connection, RecoveryConfig())) == [("task_done", "e"), ("task_done", "f"), swept]
    await enqueue(connection, "g", good_until="now()")
    assert await ear.after(recover(connection, RecoveryConfig())) == [("task_done", "g")]
    assert await ear.after(recover(connection, RecoveryConfig())) == []


async def test_a_stale_outcome_is_not_announced(connection: asyncpg.Connection, ear: Ear) -> None:
    (token,) = await running(connection, "t")
    await finish(connection, ME, [ended(token, OutcomeKind.COMPLETED)])
    assert await ear.after(finish(connection, ME, [ended(token, OutcomeKind.FAILED)])) == []
