"""Why a task does not run: every reason alone, and several together."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest
from control_steps import CHAIN, ends, planted, task_of
from diagnose_steps import ago, claimed, drain, insert, pause, running, worker
from workflow_plans import node, plan

from horsies.findings.why import Reason, ReasonKind, why_pending
from horsies.lifecycle import controlling

NAMES = ["demo.add"]


async def reasons(conn: asyncpg.Connection, task_id: str) -> tuple[Reason, ...]:
    why = await why_pending(conn, task_id)
    assert why is not None
    return why.reasons


async def the_reason(conn: asyncpg.Connection, task_id: str) -> Reason:
    (reason,) = await reasons(conn, task_id)
    return reason


async def test_there_is_no_answer_about_a_task_that_does_not_exist(connection: asyncpg.Connection) -> None:
    assert await why_pending(connection, "nothing") is None


@pytest.mark.parametrize("status", ["CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"])
async def test_a_task_that_does_not_wait_has_its_status_and_no_reasons(
    connection: asyncpg.Connection, status: str
) -> None:
    await insert(connection, "t-1", status=f"'{status}'")
    why = await why_pending(connection, "t-1")
    assert why is not None
    assert (why.status, why.reasons) == (status, ())


async def test_a_claim_that_waits_in_its_worker_names_what_has_run_longest_there(
    connection: asyncpg.Connection,
) -> None:
    await claimed(connection, "t-1", seconds=20)
    await running(connection, "r-1", seconds=460, task_name="'shop.hangs'")
    await running(connection, "r-2", seconds=30)
    await running(connection, "r-3", seconds=900, worker="w-2")
    reason = await the_reason(connection, "t-1")
    assert (reason.kind, reason.text) == (
        ReasonKind.OCCUPIED,
        "it was claimed 20s ago by w-1, where shop.hangs r-1 has run for 7m40s",
    )
    await connection.execute("UPDATE horsies_tasks SET claimed_at = now() - interval '2 s' WHERE id = 't-1'")
    assert await reasons(connection, "t-1") == ()


async def test_it_is_not_due(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await insert(connection, "t-1", enqueued_at=ago(-3600.5))
    why = await why_pending(connection, "t-1")
    assert why is not None
    (reason,) = why.reasons
    assert (reason.kind, reason.text) == (ReasonKind.NOT_DUE, "it is due in 1h00m")
    assert reason.until is not None
    assert reason.until - why.now == pytest.approx(timedelta(hours=1), abs=timedelta(seconds=2))


@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        (
            {"enqueued_at": ago(-41.9), "next_retry_at": ago(-41.9), "retry_count": "2", "max_retries": "3"},
            ReasonKind.RETRY_WAIT,
            "retry 2 of 3 is due in 41s",
        ),
        ({"good_until": ago(9)}, ReasonKind.DEADLINE_PASSED, "its deadline passed 9s ago: the next sweep expires it"),
        ({"task_name": "'v2'"}, ReasonKind.UNKNOWN_NAME, "no running worker of queue default registers v2"),
    ],
    ids=["it waits for its retry", "its deadline has passed", "no worker registers its name"],
)
async def test_its_row_says_why(
    connection: asyncpg.Connection, columns: dict[str, str], kind: ReasonKind, text: str
) -> None:
    await worker(connection, names=NAMES)
    await insert(connection, "t-1", **columns)
    reason = await the_reason(connection, "t-1")
    assert (reason.kind, reason.text) == (kind, text)


async def test_its_queue_is_paused(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await pause(connection, "default", by="ops@bastion", reason="bank holiday")
    await insert(connection, "t-1")
    reason = await the_reason(connection, "t-1")
    assert reason.kind is ReasonKind.QUEUE_PAUSED
    assert reason.text == "queue default was paused 3m00s ago by ops@bastion: bank holiday"


async def test_its_workflow_is_paused(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await planted(connection, CHAIN)
    task_id = await task_of(connection, "w1", 0)
    assert (await the_reason(connection, task_id)).kind is ReasonKind.NEXT
    await controlling.pause(connection, "w1")
    reason = await the_reason(connection, task_id)
    assert reason.kind is ReasonKind.WORKFLOW_PAUSED
    assert reason.text == "its workflow demo is PAUSED: `horsies workflows resume w1` continues it"
    await controlling.resume(connection, "w1")
    assert (await the_reason(connection, task_id)).kind is ReasonKind.NEXT


async def test_its_workflow_was_paused_by_an_error_and_no_worker_would_run_it_anyway(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1), on_error="pause"))
    await ends(connection, "w1", 0, status="FAILED")
    paused, nobody = await reasons(connection, await task_of(connection, "w1", 1))
    assert (paused.kind, nobody.kind) == (ReasonKind.WORKFLOW_PAUSED, ReasonKind.NO_WORKER)
    assert paused.text.startswith("its workflow demo is PAUSED, because one of its nodes has failed: ")


async def test_no_worker_serves_its_queue(connection: asyncpg.Connection) -> None:
    await worker(connection, "dead", seconds=300, queues=["mail"])
    await worker(connection, "alive", names=NAMES)
    await insert(connection, "t-1", queue_name="'mail'")
    reason = await the_reason(connection, "t-1")
    assert (reason.kind, reason.text) == (ReasonKind.NO_WORKER, "no living worker serves queue mail (1 worker alive)")


async def test_all_workers_of_its_queue_drain(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", names=NAMES)
    await worker(connection, "w-2", names=NAMES, queues=["mail"])
    await drain(connection, "w-1")
    await insert(connection, "t-1")
    reason = await the_reason(connection, "t-1")
    assert (reason.kind, reason.text) == (
        ReasonKind.ALL_DRAINING,
        "all workers of queue default are draining: 1 worker",
    )


async def test_the_limit_of_its_queue_is_reached(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES, caps={"default": 3})
    await running(connection, "r-1", "r-2", seconds=5)
    await claimed(connection, "c-1", seconds=5)
    await claimed(connection, "lost", seconds=99, claim_expires_at=ago(30))
    await running(connection, "elsewhere", seconds=5, queue_name="'mail'")
    await insert(connection, "t-1")
    reason = await the_reason(connection, "t-1")
    assert (reason.kind, reason.used, reason.limit) == (ReasonKind.CAP_REACHED, 3, 3)
    assert reason.text == "max_concurrency of queue default is reached: 3 of 3 in flight"


async def test_the_limit_of_the_cluster_is_reached(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES, cluster_cap=2)
    await running(connection, "r-1", "r-2", seconds=5, queue_name="'mail'")
    await insert(connection, "t-1")
    reason = await the_reason(connection, "t-1")
    assert (reason.kind, reason.used, reason.limit) == (ReasonKind.CAP_REACHED, 2, 2)


async def test_a_limit_with_room_is_no_reason(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES, caps={"default": 3}, cluster_cap=9)
    await running(connection, "r-1", "r-2", seconds=5)
    await insert(connection, "t-1")
    assert (await the_reason(connection, "t-1")).kind is ReasonKind.NEXT


async def test_others_stand_before_it(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await insert(connection, "t-1", priority="50", enqueued_at=ago(60))
    await insert(connection, "more-urgent", priority="10", enqueued_at=ago(5))
    await insert(connection, "urgent-later", priority="10", enqueued_at=ago(-60))
    await insert(connection, "earlier", priority="50", enqueued_at=ago(90))
    await insert(connection, "younger", priority="50", enqueued_at=ago(30))
    await insert(connection, "less-urgent", priority="90", enqueued_at=ago(900))
    await insert(connection, "of-another", priority="1", queue_name="'mail'", enqueued_at=ago(900))
    reason = await the_reason(connection, "t-1")
    assert (reason.kind, reason.used, reason.at_least) == (ReasonKind.BEHIND, 2, False)
    assert reason.text == "2 tasks ahead of it in queue default"


async def test_very_many_before_it_are_counted_up_to_a_bound(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, priority, enqueued_at)"
        " SELECT 'p-' || n, 'demo.add', 'default', 1 + n % 2, now() - interval '1 h' FROM generate_series(1, 10500) n"
    )
    await insert(connection, "t-1")
    reason = await the_reason(connection, "t-1")
    assert (reason.used, reason.at_least) == (10_000, True)
    assert reason.text == "at least 10,000 tasks ahead of it in queue default"


async def test_nothing_keeps_it(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", names=NAMES)
    await worker(connection, "w-2", names=NAMES)
    await insert(connection, "t-1")
    reason = await the_reason(connection, "t-1")
    assert reason.kind is ReasonKind.NEXT
    assert reason.text == "it is the next of its queue, for the first of 2 workers with room"


async def test_all_that_keeps_it_is_told(connection: asyncpg.Connection) -> None:
    await worker(connection, names=NAMES)
    await pause(connection, "default")
    await insert(connection, "t-1", task_name="'resize_v2'", enqueued_at=ago(-60))
    kinds = [reason.kind for reason in await reasons(connection, "t-1")]
    assert kinds == [ReasonKind.NOT_DUE, ReasonKind.QUEUE_PAUSED, ReasonKind.UNKNOWN_NAME]
