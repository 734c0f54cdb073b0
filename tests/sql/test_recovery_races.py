"""Sweeps and retention with concurrent writers to the same rows: the first write wins, nothing counts twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
from control_steps import ends, planted, planted_below, states
from lifecycle_steps import (
    HOT_PATH,
    LEASE_MS,
    ME,
    OTHER,
    attempts,
    ended,
    enqueue,
    everything,
    start_tokens,
    statuses,
    take_over,
    task,
    waits_for_a_lock,
)
from operation_steps import OPS
from statements import statement
from sweep_steps import BEAT_MS, THRESHOLD_MS, beat_before, options, stale_claims, stale_runs
from workflow_plans import node, plan

from horsies.config.recovery import RecoveryConfig
from horsies.lifecycle import retention
from horsies.lifecycle.claim_token import Token, Verdict, beat, renew
from horsies.lifecycle.claiming import release, release_expired
from horsies.lifecycle.controlling import retry_from_failed
from horsies.lifecycle.finishing import OutcomeKind, finish, mark_finalizing
from horsies.lifecycle.recovering import Recovered, recover
from horsies.lifecycle.reopening import CannotReopenError
from horsies.lifecycle.retention import ages_of, prunable, prune
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS

Step = Callable[[asyncpg.Connection, list[Token]], Awaitable[object]]
CRASH = options("WORKER_CRASHED")


@pytest.fixture
async def sweeper(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database, server_settings=HOT_PATH)
    # A sweep that waits for a row of an open transaction fails. Not within a millisecond: each commit that notifies
    # waits for the previous one, which takes as long as its disk, and that is not a wait for a row.
    await connected.execute("SET lock_timeout = '2s'")
    yield connected
    await connected.close()


async def sweep(conn: asyncpg.Connection) -> Recovered:
    return await recover(conn, RecoveryConfig())


def finishes(kind: OutcomeKind) -> Step:
    async def step(conn: asyncpg.Connection, tokens: list[Token]) -> object:
        return await finish(conn, ME, [ended(token, kind) for token in tokens])

    step.__name__ = f"finish as {kind.value}"
    return step


async def marks(conn: asyncpg.Connection, tokens: list[Token]) -> object:
    return await mark_finalizing(conn, ME, tokens)


async def operator_cancels(conn: asyncpg.Connection, tokens: list[Token]) -> object:
    return await conn.execute("UPDATE horsies_tasks SET status = 'CANCELLED', claimed = false")


async def operator_requeues(conn: asyncpg.Connection, tokens: list[Token]) -> object:
    return await conn.execute(
        "UPDATE horsies_tasks SET status = 'PENDING', retry_count = retry_count + 1, claimed = false,"
        " claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL, started_at = NULL"
    )


async def starts(conn: asyncpg.Connection, tokens: list[Token]) -> object:
    return await start_tokens(conn, tokens)


async def releases(conn: asyncpg.Connection, tokens: list[Token]) -> object:
    return await release(conn, ME, tokens)


async def is_claimed_anew(conn: asyncpg.Connection, tokens: list[Token]) -> object:
    await conn.execute("UPDATE horsies_tasks SET claim_expires_at = now() - interval '1 s'")
    return await take_over(conn, worker_id=OTHER, queue="default", limit=9, lease_ms=LEASE_MS, task_names=None)


def named(step: object) -> str:
    return getattr(step, "__name__", str(step))


HAND: list[Step] = [operator_cancels, operator_requeues]
FINISHES: list[Step] = [finishes(kind) for kind in OutcomeKind]
OF_RUNS: list[Step] = [*FINISHES, marks, *HAND]
OF_CLAIMS: list[Step] = [starts, releases, is_claimed_anew, *HAND]


@pytest.mark.parametrize("stage", ["runs", "claims"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_row_that_another_session_has_locked_is_left_for_the_next_sweep(
    connection: asyncpg.Connection, rival: asyncpg.Connection, sweeper: asyncpg.Connection, stage: str, end: str
) -> None:
    stale = stale_runs if stage == "runs" else stale_claims
    tokens = await stale(connection, "a", "b")
    transaction = rival.transaction()
    await transaction.start()
    await operator_cancels(rival, tokens)
    before = await everything(connection)
    assert await sweep(sweeper) == Recovered()
    assert await everything(connection) == before
    await getattr(transaction, end)()
    assert (await sweep(sweeper)).changed == (0 if end == "commit" else 2)


@pytest.mark.parametrize("winner", OF_RUNS, ids=named)
async def test_a_sweep_that_saw_a_run_before_it_changed_leaves_it(
    connection: asyncpg.Connection, rival: asyncpg.Connection, sweeper: asyncpg.Connection, winner: Step
) -> None:
    tokens = await stale_runs(connection, "a", "b", max_retries="5", task_options=CRASH)
    seen = await connection.fetch(statement("stale_runs"), THRESHOLD_MS, THRESHOLD_MS, BEAT_MS, 100, [ME])
    await winner(rival, tokens)
    after = await everything(connection)
    given = [[row[name] for row in seen] for name in ("id", "claimed_by_worker_id", "claimed_at")]
    outcome = [None, None], ["{}", "{}"], ["it crashed"] * 2
    assert await sweeper.fetch(statement("sweep_runs"), *given, *outcome, THRESHOLD_MS, THRESHOLD_MS, BEAT_MS) == []
    assert await everything(connection) == after


@pytest.mark.parametrize("winner", OF_CLAIMS, ids=named)
async def test_a_sweep_that_saw_a_claim_before_it_changed_leaves_it(
    connection: asyncpg.Connection, rival: asyncpg.Connection, sweeper: asyncpg.Connection, winner: Step
) -> None:
    tokens = await stale_claims(connection, "a", "b")
    seen = await connection.fetch(statement("stale_claims"), THRESHOLD_MS, BEAT_MS, 100)
    await winner(rival, tokens)
    after = await everything(connection)
    given = [[row[name] for row in seen] for name in ("id", "claimed_by_worker_id", "claimed_at")]
    assert await sweeper.fetch(statement("sweep_claims"), *given, THRESHOLD_MS, BEAT_MS) == []
    assert await everything(connection) == after


async def test_a_beat_between_scan_and_change_saves_the_task(
    connection: asyncpg.Connection, sweeper: asyncpg.Connection
) -> None:
    (run,) = await stale_runs(connection, "r")
    (claim,) = await stale_claims(connection, "c")
    runs = await connection.fetch(statement("stale_runs"), THRESHOLD_MS, THRESHOLD_MS, BEAT_MS, 100, [ME])
    claims = await connection.fetch(statement("stale_claims"), THRESHOLD_MS, BEAT_MS, 100)
    assert (len(runs), len(claims)) == (1, 1)
    assert await beat(connection, ME, "host", [(run, 1)]) == set()
    assert await renew(connection, ME, LEASE_MS, LEASE_MS, hostname="host", pid=1) == {claim}
    found = await sweeper.fetch(
        statement("sweep_runs"),
        ["r"],
        [ME],
        [run.claimed_at],
        [None],
        ["{}"],
        ["it crashed"],
        THRESHOLD_MS,
        THRESHOLD_MS,
        BEAT_MS,
    )
    assert found == []
    assert await sweeper.fetch(statement("sweep_claims"), ["c"], [ME], [claim.claimed_at], THRESHOLD_MS, BEAT_MS) == []
    assert await statuses(connection) == {"r": "RUNNING", "c": "CLAIMED"}


@pytest.mark.parametrize("loser", FINISHES, ids=named)
async def test_an_outcome_that_comes_while_the_sweep_settles_the_task_waits_and_is_stale(
    connection: asyncpg.Connection, rival: asyncpg.Connection, sweeper: asyncpg.Connection, loser: Step
) -> None:
    tokens = await stale_runs(connection, "a", "b", max_retries="5", task_options=CRASH)
    async with sweeper.transaction():
        assert await sweep(sweeper) == Recovered(retried=2)
        late = await waits_for_a_lock(connection, rival, loser(rival, tokens))
        assert not late.done()
    swept = await everything(connection)
    assert {one.verdict for one in (await late).values()} == {Verdict.STALE}
    assert await everything(connection) == swept


async def test_a_mark_that_comes_while_the_sweep_settles_the_task_leaves_it_out_at_once(
    connection: asyncpg.Connection, rival: asyncpg.Connection, sweeper: asyncpg.Connection
) -> None:
    """It does not wait, because the worker's beats come after it; the outcome that it announces is stale later."""
    tokens = await stale_runs(connection, "a", "b", max_retries="5", task_options=CRASH)
    async with sweeper.transaction():
        assert await sweep(sweeper) == Recovered(retried=2)
        mark = await waits_for_a_lock(connection, rival, mark_finalizing(rival, ME, tokens))
        assert mark.done()
    assert await mark == set(tokens)
    swept = await everything(connection)
    assert await mark_finalizing(rival, ME, tokens) == set(tokens)
    assert await everything(connection) == swept


async def test_a_start_that_comes_after_the_sweep_is_stale(
    connection: asyncpg.Connection, sweeper: asyncpg.Connection
) -> None:
    tokens = await stale_claims(connection, "a", "b")
    assert await sweep(sweeper) == Recovered(requeued=2)
    before = await everything(connection)
    assert (await start_tokens(connection, tokens)).stale == frozenset(tokens)
    assert await everything(connection) == before


async def test_four_sweeps_at_once_do_together_what_one_does(database: str, connection: asyncpg.Connection) -> None:
    await stale_pairs(connection, range(300))
    # Each commit takes as long as on a slow disk, where a sweep's commit waits for the notifications of another one.
    slow = {**HOT_PATH, "commit_delay": "5000", "commit_siblings": "0"}
    sweepers = [await asyncpg.connect(database, server_settings=slow) for _ in range(4)]
    done = await asyncio.gather(*(sweep(each) for each in sweepers))
    assert sum((each.changed for each in done), 0) + (await sweep(connection)).changed == 900
    assert [each.refused for each in done] == [()] * 4
    await all_were_swept_once(connection)
    for each in sweepers:
        await each.close()


async def stale_pairs(connection: asyncpg.Connection, numbers: range) -> None:
    """As many runs as claims, past their deadlines; a hundred at a time, because so many are claimed at once."""
    for first in range(numbers.start, numbers.stop, 100):
        names = [f"{number:03}" for number in range(first, first + 100)]
        await stale_runs(connection, *(f"r{name}" for name in names))
        claims = [f"c{name}" for name in names]
        await stale_claims(connection, *claims)
        await connection.execute(
            "UPDATE horsies_tasks SET good_until = now() - interval '1 s' WHERE id = ANY ($1)", claims
        )


async def all_were_swept_once(connection: asyncpg.Connection) -> None:
    assert await connection.fetchval("SELECT count(*) FROM horsies_task_attempts") == 300
    assert Counter((await statuses(connection)).values()) == {"FAILED": 300, "EXPIRED": 300}


async def test_an_expiry_and_a_claim_of_one_task_exclude_each_other(
    connection: asyncpg.Connection, rival: asyncpg.Connection, sweeper: asyncpg.Connection
) -> None:
    await enqueue(connection, "t", good_until="now() - interval '1 s'")
    async with rival.transaction():
        await rival.execute("UPDATE horsies_tasks SET status = 'CLAIMED', claimed = true, claimed_at = now()")
        assert await sweep(sweeper) == Recovered()
    assert await sweep(sweeper) == Recovered()
    assert (await task(connection, "t"))["status"] == "CLAIMED"


async def test_a_task_claimed_anew_after_the_sweep_belongs_to_its_new_owner_alone(
    connection: asyncpg.Connection, sweeper: asyncpg.Connection
) -> None:
    """The zombie of F4: declared dead, its task run again elsewhere, then it returns with a result."""
    columns = {"max_retries": "3", "task_options": options("WORKER_CRASHED", interval_s=1)}
    (zombie,) = await stale_runs(connection, "t", **columns)
    assert await sweep(sweeper) == Recovered(retried=1)
    await connection.execute("UPDATE horsies_tasks SET enqueued_at = now(), next_retry_at = now()")
    assert await release_expired(connection, ["default"]) == 0
    (new,) = await connection.fetch(
        "UPDATE horsies_tasks SET status = 'RUNNING', claimed_by_worker_id = $1, claimed_at = now(), started_at = now()"
        " RETURNING id, claimed_by_worker_id, claimed_at",
        OTHER,
    )
    await beat_before(connection, "t", "runner", 5)  # the zombie's, sent before it was declared dead
    assert await beat(connection, ME, "host", [(zombie, 1)]) == {zombie}
    assert (await finish(connection, ME, [ended(zombie, OutcomeKind.COMPLETED)]))[zombie].verdict is Verdict.STALE
    assert await sweep(sweeper) == Recovered()
    finished = await finish(connection, OTHER, [ended(Token(*new), OutcomeKind.COMPLETED)])
    assert finished[Token(*new)].verdict is Verdict.ACCEPTED
    history = [(one["attempt"], one["outcome"], one["worker_id"]) for one in await attempts(connection, "t")]
    assert history == [(1, "FAILED", ME), (2, "COMPLETED", OTHER)]


AGES = ages_of(RecoveryConfig())
PARENT = plan(node(0, sub_definition_key="child.v1"), node(1, sub_definition_key="child.v1"), name="parent")
AGED = """
UPDATE horsies_workflows SET completed_at = completed_at - interval '31 days', updated_at = now() - interval '31 days',
       created_at = now() - interval '31 days';
UPDATE horsies_tasks SET completed_at = completed_at - interval '31 days', failed_at = failed_at - interval '31 days';
"""


async def old_family(conn: asyncpg.Connection) -> None:
    """A root that failed with one of its two children; the other completed."""
    await planted(conn, PARENT, "root")
    await planted_below(conn, plan(node(0)), "root", 0, "good")
    await planted_below(conn, plan(node(0), node(1, 0)), "root", 1, "bad")
    await ends(conn, "good", 0)
    await ends(conn, "bad", 0, status="FAILED")
    await conn.execute(AGED)
    assert await states(conn, "root") == "FAILED: COMPLETED FAILED"


async def workflows_of(conn: asyncpg.Connection) -> list[str]:
    return [row[0] for row in await conn.fetch("SELECT id FROM horsies_workflows ORDER BY id")]


async def is_whole_again(conn: asyncpg.Connection) -> None:
    assert await workflows_of(conn) == ["bad", "good", "root"]
    assert await states(conn, "root") == "RUNNING: COMPLETED RUNNING"
    assert await states(conn, "good") == "COMPLETED: COMPLETED"
    assert await states(conn, "bad") == "RUNNING: ENQUEUED PENDING"
    assert (
        await conn.fetchval(
            "SELECT bool_and(sub_workflow_id IS NOT NULL) FROM horsies_workflow_tasks WHERE is_subworkflow"
        )
        is True
    )
    await ends(conn, "bad", 0, 1)
    assert await states(conn, "root") == "COMPLETED: COMPLETED COMPLETED"


@pytest.mark.parametrize("retried", ["root", "bad"])
async def test_of_a_family_that_is_being_opened_nothing_is_pruned(
    connection: asyncpg.Connection, other: asyncpg.Connection, retried: str
) -> None:
    await old_family(connection)
    await other.execute("SET lock_timeout = '1s'")
    async with connection.transaction(isolation="read_committed"):
        await retry_from_failed(connection, retried)
        done = await prune(other, AGES)
    assert (done.rows["workflows"], done.rows["workflow_tasks"], done.refused) == (0, 0, ())
    await is_whole_again(connection)


async def test_what_was_opened_after_it_was_found_old_is_not_pruned(connection: asyncpg.Connection) -> None:
    await old_family(connection)
    (part,) = [part for part, _ in retention._due(AGES) if part.families]
    (page,) = [page async for page in retention._pages(connection, part, 86_400)]
    assert {old.id for old in page} == {"bad", "good", "root"}
    await retry_from_failed(connection, "bad")
    gone = await retention._delete(connection, part, 86_400, [old.id for old in page])
    assert gone == {"workflows": 0, "workflow_tasks": 0}
    await is_whole_again(connection)


async def test_a_family_that_is_being_pruned_cannot_be_opened_again(
    database: str, connection: asyncpg.Connection
) -> None:
    await old_family(connection)
    operator, other = await asyncpg.connect(database), await asyncpg.connect(database)
    looked = await preview(operator, VERBS["workflow", "retry"], Selection.of_ids(["bad"]))
    assert len(looked.eligible) == 1
    async with connection.transaction(isolation="read_committed"):
        assert (await prune(connection, AGES)).rows["workflows"] == 3
        running = await waits_for_a_lock(other, operator, apply(operator, looked, OPS, None))
        assert not running.done()
    (refused,) = (await running).refused
    assert refused.detail == "its row was deleted"
    with pytest.raises(CannotReopenError, match="its row was deleted"):
        await retry_from_failed(operator, "root")
    assert await workflows_of(connection) == []
    await operator.close()
    await other.close()


async def test_a_family_stays_whole_or_goes_whole_in_either_order(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    ends_seen = set()
    for turn in range(30):
        await connection.execute("TRUNCATE horsies_workflows, horsies_workflow_tasks, horsies_tasks CASCADE")
        await old_family(connection)

        async def opens() -> bool:
            try:
                await retry_from_failed(connection, "bad")
            except CannotReopenError:
                return False
            return True

        steps = [opens(), prune(other, AGES)]
        done = await asyncio.gather(*(steps if turn % 2 else reversed(steps)))
        opened = done[0 if turn % 2 else 1]
        assert await workflows_of(connection) == (["bad", "good", "root"] if opened else [])
        ends_seen.add(opened)
        assert set((await prunable(connection, AGES)).values()) == {0}
    assert True in ends_seen
