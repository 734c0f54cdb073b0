"""A claim that starts tasks for waiting children, alone or in the statement that stores outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest
from lifecycle_steps import LEASE_MS, ME, OTHER, attempts, ended, enqueue, running, statuses, task

from horsies.domain.states import TaskStatus
from horsies.lifecycle.claim_token import Verdict
from horsies.lifecycle.claiming import ClaimedTask, ClaimRequest, TupleId, claim
from horsies.lifecycle.finishing import OutcomeKind, finish, finish_and_claim, is_end

K = OutcomeKind


def request(limit: int = 100, pids: tuple[int, ...] = ()) -> ClaimRequest:
    return ClaimRequest("default", limit, LEASE_MS, None, pids, "host")


def places(claimed: list[ClaimedTask]) -> dict[str, int | None]:
    return {one.token.task_id: one.position for one in claimed}


async def test_the_first_ones_run_in_the_children_that_wait_and_the_rest_is_claimed(
    connection: asyncpg.Connection,
) -> None:
    await enqueue(connection, "a", "b", "c", priority="number")
    claimed = await claim(connection, ME, request(pids=(11, 12)))
    assert places(claimed) == {"a": 0, "b": 1, "c": None}
    assert await statuses(connection) == {"a": "RUNNING", "b": "RUNNING", "c": "CLAIMED"}


async def test_what_it_starts_is_written_as_by_a_start(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", finalizing_at="now()", finalizing_by_worker_id="'w'")
    (claimed,) = await claim(connection, ME, request(pids=(11,)))
    row = await task(connection, "t")
    assert (row["claimed"], row["claim_expires_at"], row["claimed_by_worker_id"]) == (False, None, ME)
    assert row["claimed_at"] == row["started_at"] == row["updated_at"] == claimed.token.claimed_at
    assert (row["worker_pid"], row["worker_hostname"], row["worker_process_name"]) == (11, "host", "worker-11")
    assert (row["finalizing_at"], row["finalizing_by_worker_id"]) == (None, None)


async def test_a_large_task_is_only_claimed(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b", priority="number", args="CASE id WHEN 'a' THEN repeat('x', 70000) END")
    claimed = await claim(connection, ME, request(pids=(11, 12)))
    assert places(claimed) == {"a": None, "b": 1}
    assert await statuses(connection) == {"a": "CLAIMED", "b": "RUNNING"}


async def test_children_without_a_task_are_told_by_their_places(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a")
    assert places(await claim(connection, ME, request(pids=(11, 12, 13)))) == {"a": 0}
    assert await claim(connection, ME, request(pids=(12, 13))) == []


async def test_a_task_that_is_started_at_once_finishes_as_any_other(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t")
    (claimed,) = await claim(connection, ME, request(pids=(11,)))
    finished = await finish(connection, ME, [ended(claimed.token, K.COMPLETED)])
    assert finished[claimed.token].status is TaskStatus.COMPLETED
    (attempt,) = await attempts(connection, "t")
    assert (attempt["attempt"], attempt["outcome"], attempt["worker_pid"]) == (1, "COMPLETED", 11)


async def test_one_ends_and_the_next_starts(connection: asyncpg.Connection) -> None:
    (bad, good) = await running(connection, "bad", "good")
    await enqueue(connection, "next", "later", priority="number")
    outcomes = [ended(good, K.COMPLETED), ended(bad, K.FAILED)]
    finished, claimed = await finish_and_claim(connection, ME, outcomes, request(limit=2, pids=(11,)))
    assert {token.task_id: answer.status for token, answer in finished.items()} == {
        "good": TaskStatus.COMPLETED,
        "bad": TaskStatus.FAILED,
    }
    assert places(claimed) == {"next": 0, "later": None}
    assert await statuses(connection) == {"good": "COMPLETED", "bad": "FAILED", "next": "RUNNING", "later": "CLAIMED"}
    assert [len(await attempts(connection, name)) for name in ("good", "bad", "next")] == [1, 1, 0]


async def test_what_it_claims_carries_all_that_a_claim_carries(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    columns = {"priority": "7", "args": "'[1]'", "kwargs": "'{}'", "task_options": "'{}'", "max_retries": "3"}
    columns |= {"enqueued_at": "'2026-01-01Z'"}
    await enqueue(connection, "one", **columns)
    _, (along,) = await finish_and_claim(connection, ME, [ended(token, K.COMPLETED)], request(limit=1))
    await enqueue(connection, "two", **columns)
    (alone,) = await claim(connection, ME, request(limit=1))
    assert along.token.task_id == "one"
    for field in set(ClaimedTask.__slots__) - {"token"}:
        assert getattr(along, field) == getattr(alone, field), field


async def test_a_stale_outcome_does_not_hold_up_the_others_nor_the_claim(connection: asyncpg.Connection) -> None:
    (kept, lost) = await running(connection, "kept", "lost")
    await connection.execute("UPDATE horsies_tasks SET claimed_by_worker_id = $1 WHERE id = 'lost'", OTHER)
    await enqueue(connection, "next")
    outcomes = [ended(lost, K.COMPLETED), ended(kept, K.COMPLETED)]
    finished, claimed = await finish_and_claim(connection, ME, outcomes, request(pids=(11,)))
    assert (finished[lost].verdict, finished[kept].verdict) == (Verdict.STALE, Verdict.ACCEPTED)
    assert places(claimed) == {"next": 0}
    assert await attempts(connection, "lost") == []


@pytest.mark.parametrize(
    "hindrance",
    [
        "INSERT INTO horsies_queue_state (queue_name, paused_at) VALUES ('default', now())",
        "UPDATE horsies_tasks SET enqueued_at = now() + interval '1 h' WHERE id = 'next'",
        "UPDATE horsies_tasks SET good_until = now() - interval '1 s' WHERE id = 'next'",
        "UPDATE horsies_tasks SET queue_name = 'other' WHERE id = 'next'",
        "DELETE FROM horsies_tasks WHERE id = 'next'",
    ],
)
async def test_outcomes_are_stored_where_there_is_nothing_to_claim(
    connection: asyncpg.Connection, hindrance: str
) -> None:
    (token,) = await running(connection, "t")
    await enqueue(connection, "next")
    await connection.execute(hindrance)
    finished, claimed = await finish_and_claim(connection, ME, [ended(token, K.COMPLETED)], request(pids=(11,)))
    assert finished[token].verdict is Verdict.ACCEPTED
    assert claimed == []
    assert (await statuses(connection)).get("next", "PENDING") == "PENDING"


async def behind_unknown_names(connection: asyncpg.Connection, *ids: str) -> None:
    """Tasks of a known name, behind more unknown ones than a claim reads."""
    await enqueue(connection, *(f"unknown-{n}" for n in range(300)), task_name="'shop.unknown'")
    await enqueue(connection, *ids, task_name="'shop.known'", priority="200 + number")


def known(limit: int, following: list[TupleId] | None = None) -> ClaimRequest:
    return ClaimRequest("default", limit, LEASE_MS, ["shop.known"], (), "host", following)


async def test_beside_an_outcome_a_claim_searches_only_if_asked(connection: asyncpg.Connection) -> None:
    one, two, three = await running(connection, "x", "y", "z")
    await behind_unknown_names(connection, "a", "b", "c")
    finished, claimed = await finish_and_claim(connection, ME, [ended(one, K.COMPLETED)], known(1))
    assert (finished[one].verdict, claimed) == (Verdict.ACCEPTED, [])
    _, claimed = await finish_and_claim(connection, ME, [ended(two, K.COMPLETED)], known(1, []))
    after = claimed[0].after or []
    assert ([task.token.task_id for task in claimed], await at(connection, after)) == (["a"], ["b", "c"])
    _, claimed = await finish_and_claim(connection, ME, [ended(three, K.COMPLETED)], known(1, after))
    assert [(task.token.task_id, task.number) for task in claimed] == [("b", 1)]
    assert [(task.token.task_id, task.number) for task in await claim(connection, ME, known(1, after))] == [("c", 2)]


async def at(connection: asyncpg.Connection, places: Sequence[TupleId]) -> list[str]:
    rows = await connection.fetch(
        "SELECT id FROM unnest($1::tid[]) WITH ORDINALITY AS one (place, number) JOIN horsies_tasks ON ctid = place"
        " ORDER BY number",
        places,
    )
    return [row["id"] for row in rows]


@pytest.mark.parametrize(
    "change",
    [
        "status = 'CANCELLED'",
        "queue_name = 'other'",
        "task_name = 'shop.unknown'",
        "enqueued_at = now() + interval '1 h'",
        "good_until = now()",
    ],
)
async def test_a_task_that_was_found_and_has_changed_is_not_claimed(
    connection: asyncpg.Connection, change: str
) -> None:
    """By the search it could be claimed; its row is still where it was, as if another row had come to this place."""
    one, two = await running(connection, "x", "y")
    await behind_unknown_names(connection, "a", "b")
    await connection.execute(f"UPDATE horsies_tasks SET {change} WHERE id = 'a'")
    places = await connection.fetch("SELECT ctid FROM horsies_tasks WHERE id IN ('a', 'b') ORDER BY id")
    following = [row["ctid"] for row in places]
    _, claimed = await finish_and_claim(connection, ME, [ended(one, K.COMPLETED)], known(2, following))
    assert [(task.token.task_id, task.number) for task in claimed] == [("b", 2)]
    _, claimed = await finish_and_claim(connection, ME, [ended(two, K.COMPLETED)], known(2, following[:1]))
    assert claimed == []
    assert await claim(connection, ME, known(2, following[:1])) == []


async def test_a_claim_searches_when_what_was_found_is_gone(connection: asyncpg.Connection) -> None:
    await behind_unknown_names(connection, "a", "b")
    await connection.execute("INSERT INTO horsies_queue_state (queue_name, paused_at) VALUES ('default', now())")
    rows = await connection.fetch("SELECT ctid FROM horsies_tasks WHERE id IN ('a', 'b') ORDER BY id")
    following = [row["ctid"] for row in rows]
    assert await claim(connection, ME, known(1, following)) == []
    await connection.execute("DELETE FROM horsies_queue_state")
    await connection.execute("UPDATE horsies_tasks SET priority = 300 WHERE id = 'a'")  # its row is elsewhere now
    assert [task.token.task_id for task in await claim(connection, ME, known(2, following))] == ["b", "a"]


@pytest.mark.parametrize(("waiting", "searches"), [(0, 0), (1, 0), (40, 1)])
async def test_a_claim_searches_only_a_queue_that_is_longer_than_what_it_read(
    connection: asyncpg.Connection, waiting: int, searches: int
) -> None:
    await enqueue(connection, *(f"unknown-{n}" for n in range(waiting)), "known", task_name="'shop.unknown'")
    await connection.execute("UPDATE horsies_tasks SET task_name = 'shop.known', priority = 200 WHERE id = 'known'")
    await connection.execute("SET track_functions = 'pl'")
    async with connection.transaction():
        assert [task.token.task_id for task in await claim(connection, ME, known(2))] == ["known"]
        calls = await connection.fetchval("SELECT pg_stat_get_xact_function_calls('horsies_claimable'::regproc)")
    assert (calls or 0) == searches


def test_only_what_comes_to_rest_goes_together_with_a_claim() -> None:
    ends = {kind for kind in K if is_end(ended(None, kind))}  # type: ignore[arg-type]
    assert ends == {K.COMPLETED, K.FAILED, K.WORKER_FAILURE}
