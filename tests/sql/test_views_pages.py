"""Pages of tasks, complete and without repetition in each order; and the details of one task."""

from __future__ import annotations

import random
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest
from database_server import as_written
from view_steps import every_id, every_row, insert, wanted

from horsies.views import (
    Ambiguous,
    AuditCursor,
    Cursor,
    Sort,
    Stored,
    TaskDetail,
    audit_page,
    cursor_of,
    find_task,
    task_detail,
    task_page,
)

# Times and priorities come from few values, so that there are many ties.
ANY_OF_3, ANY_OF_9 = "ceil(3 * random())::integer", "ceil(9 * random())::integer"
FILL = f"""
INSERT INTO horsies_tasks (id, task_name, queue_name, priority, status, claimed, claimed_by_worker_id, claimed_at,
                           created_at, enqueued_at, started_at, completed_at, failed_at, error_code, next_retry_at)
SELECT gen_random_uuid(), 'demo.' || {ANY_OF_3}, 'q' || {ANY_OF_3}, {ANY_OF_3}, status, status = 'CLAIMED',
       CASE WHEN status <> 'PENDING' THEN 'w-1' END, now(), now() - {ANY_OF_9} * interval '1 min',
       now() - {ANY_OF_9} * interval '1 min', now() - {ANY_OF_9} * interval '1 min',
       CASE status WHEN 'COMPLETED' THEN now() - {ANY_OF_9} * interval '1 s' END,
       CASE WHEN status IN ('FAILED', 'EXPIRED') THEN now() - {ANY_OF_9} * interval '1 s' END,
       CASE status WHEN 'FAILED' THEN 'CODE_' || {ANY_OF_3} END, NULL
  FROM generate_series(1, 210) n
 CROSS JOIN LATERAL (SELECT (ARRAY['PENDING', 'CLAIMED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED'])
                            [1 + n % 7] AS status) row
"""

ENDED = "COALESCE(completed_at, failed_at)"
ORDERS = {
    Sort.NEWEST: "true ORDER BY created_at DESC, id DESC",
    Sort.OLDEST: "true ORDER BY created_at, id",
    Sort.WAITING: "status = 'PENDING' ORDER BY priority, enqueued_at, id",
    Sort.RUNNING: "status = 'RUNNING' ORDER BY started_at, id",
    Sort.FINISHED: (
        f"status IN ('COMPLETED', 'FAILED', 'EXPIRED') AND {ENDED} IS NOT NULL ORDER BY {ENDED} DESC, id DESC"
    ),
}
FILTERS = {
    "": "true",
    "queue:q1,q2": "queue_name IN ('q1', 'q2')",
    "name:demo.2": "task_name = 'demo.2'",
    "status:failed,expired": "status IN ('FAILED', 'EXPIRED')",
    "status:live": "status IN ('PENDING', 'CLAIMED', 'RUNNING')",
    "error:CODE_1 -queue:q3": "error_code = 'CODE_1' AND queue_name <> 'q3'",
}


@pytest.fixture
async def filled(conn: asyncpg.Connection) -> asyncpg.Connection:
    await conn.execute(FILL)
    return conn


async def ids_by_hand(conn: asyncpg.Connection, sort: Sort, condition: str) -> list[str]:
    rows = await conn.fetch(f"SELECT id FROM horsies_tasks WHERE ({condition}) AND {ORDERS[sort]}")
    return [row["id"] for row in rows]


@pytest.mark.parametrize("sort", Sort)
@pytest.mark.parametrize("text", FILTERS)
async def test_the_pages_of_an_order_put_together_are_that_order(
    filled: asyncpg.Connection, sort: Sort, text: str
) -> None:
    expected = await ids_by_hand(filled, sort, FILTERS[text])
    for limit in (9, 100):
        assert await every_id(filled, text, sort=sort, limit=limit) == expected


@pytest.mark.parametrize("sort", Sort)
async def test_going_back_from_a_row_shows_the_rows_before_it_in_the_same_order(
    filled: asyncpg.Connection, sort: Sort
) -> None:
    rows = await every_row(filled, sort=sort)
    for place in random.sample(range(len(rows)), 4):
        after = cursor_of(rows[place], sort)
        assert await every_row(filled, sort=sort, limit=7, after=after, backwards=True) == rows[:place]


async def test_the_first_page_has_nothing_before_it_and_the_last_nothing_after(filled: asyncpg.Connection) -> None:
    first = await task_page(filled, wanted(""), limit=200)
    assert (first.previous, first.reached) == (None, None)
    last = await task_page(filled, wanted(""), limit=200, after=first.next)
    assert len(last.rows) == 10
    assert last.next is None
    back = await task_page(filled, wanted(""), limit=200, after=last.previous, backwards=True)
    assert back.rows == first.rows


async def test_a_full_last_page_knows_that_it_is_the_last(filled: asyncpg.Connection) -> None:
    assert (await task_page(filled, wanted(""), limit=210)).next is None
    assert (await task_page(filled, wanted(""), limit=209)).next is not None


async def test_rows_that_arrive_are_before_the_top_and_after_no_page(filled: asyncpg.Connection) -> None:
    top = await task_page(filled, wanted(""), limit=5)
    await insert(filled, "new-1", created_at="now() + interval '1 s'")
    await insert(filled, "new-2", created_at="now() + interval '2 s'")
    newer = await task_page(filled, wanted(""), after=cursor_of(top.rows[0], Sort.NEWEST), backwards=True)
    assert [row.id for row in newer.rows] == ["new-2", "new-1"]
    again = await task_page(filled, wanted(""), limit=5, after=newer.next)
    assert again.rows == top.rows


async def test_a_cursor_can_stand_at_a_time(filled: asyncpg.Connection) -> None:
    now = await filled.fetchval("SELECT max(created_at) FROM horsies_tasks")
    at = Cursor(now - timedelta(minutes=4))
    page = await task_page(filled, wanted(""), limit=300, after=at)
    assert page.rows
    assert all(row.created_at < at.time for row in page.rows)
    newer = await task_page(filled, wanted(""), limit=300, after=at, backwards=True)
    assert len(page.rows) + len(newer.rows) == 210


async def test_an_empty_table_has_an_empty_page_with_the_time(conn: asyncpg.Connection) -> None:
    page = await task_page(conn, wanted(""))
    assert (page.rows, page.next, page.previous, page.reached) == ((), None, None, None)
    assert page.now == pytest.approx(await conn.fetchval("SELECT now()"), abs=timedelta(seconds=5))


async def test_a_running_task_shows_the_newest_beat_of_this_execution_only(conn: asyncpg.Connection) -> None:
    await insert(
        conn, "run", status="'RUNNING'", claimed_at="now() - interval '50 s'", started_at="now() - interval '40 s'",
        enqueued_at="now() - interval '100 s'", created_at="now() - interval '110 s'", retry_count="1", max_retries="3",
    )  # fmt: skip
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ('run', 'w:1', 'runner', now() - interval '60 s'), ('run', 'w', 'claimer', now())"
    )
    page = await task_page(conn, wanted(""))
    assert page.rows[0].beat_at is None
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " SELECT 'run', 'w:1', 'runner', now() - n * interval '10 s' FROM generate_series(1, 3) n"
    )
    page = await task_page(conn, wanted(""))
    row = page.rows[0]
    assert row.beat_at is not None
    assert round((page.now - row.beat_at).total_seconds()) == 10
    assert (row.attempt, row.attempts_allowed) == (2, 4)
    assert round(row.age(page.now).total_seconds()) == 110
    assert [round(span.total_seconds()) for span in (row.wait(page.now), row.run(page.now)) if span] == [60, 40]


async def test_a_task_between_two_tries_is_retry_with_the_code_of_the_last_one(conn: asyncpg.Connection) -> None:
    await insert(
        conn, "later", retry_count="1", next_retry_at="now() + interval '41 s'", enqueued_at="now() + interval '41 s'"
    )
    await insert(conn, "over", retry_count="1", next_retry_at="now() - interval '41 s'")
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code)"
        " VALUES ('later', 1, 'FAILED', true, now(), now(), 'TIMEOUT')"
    )
    page = await task_page(conn, wanted(""))
    rows = {row.id: row for row in page.rows}
    assert (rows["later"].state, rows["later"].error_code) == ("RETRY", "TIMEOUT")
    assert rows["later"].wait(page.now) is None
    assert rows["later"].due_at == rows["later"].next_retry_at
    assert rows["over"].state == "PENDING"


async def test_the_message_of_the_last_attempt_is_in_the_list_and_only_its_beginning(conn: asyncpg.Connection) -> None:
    await insert(conn, "failed", status="'FAILED'", failed_at="now()", retry_count="1")
    await insert(conn, "crashed", status="'FAILED'", failed_at="now()")
    await insert(conn, "waits", retry_count="1")
    await insert(conn, "done", status="'COMPLETED'", completed_at="now()")
    await conn.execute(
        "INSERT INTO horsies_task_attempts"
        " (task_id, attempt, outcome, started_at, finished_at, error_code, error_message, failed_reason)"
        " SELECT id, attempt, outcome, now(), now(), 'CODE', message, reason FROM (VALUES"
        " ('failed', 1, 'FAILED', 'the first', NULL), ('failed', 2, 'FAILED', repeat('é', 1000000), NULL),"
        " ('crashed', 1, 'WORKER_FAILURE', NULL, 'the worker died'), ('waits', 1, 'FAILED', 'no route', NULL),"
        " ('done', 1, 'COMPLETED', NULL, NULL)) AS made (id, attempt, outcome, message, reason)"
    )
    rows = {row.id: (row.error_code, row.error_message) for row in (await task_page(conn, wanted(""))).rows}
    assert rows == {
        "failed": (None, "é" * 200),  # the code is the task's own, which has none
        "crashed": (None, "the worker died"),
        "waits": ("CODE", "no route"),
        "done": (None, None),
    }


async def test_what_upstream_leaves_in_a_waiting_row_is_not_taken_for_a_run(conn: asyncpg.Connection) -> None:
    await insert(conn, "again", retry_count="1", started_at="now() - interval '1 h'", claimed_by_worker_id="'w'")
    page = await task_page(conn, wanted(""))
    assert page.rows[0].started_at is None
    assert page.rows[0].run(page.now) is None


async def test_a_run_that_was_stopped_at_a_shutdown_is_interrupted(conn: asyncpg.Connection) -> None:
    await insert(conn, "stopped", status="'FAILED'", failed_at="now()", error_code="'TASK_INTERRUPTED'")
    await insert(conn, "failed", status="'FAILED'", failed_at="now()")
    states = {row.id: row.state for row in (await task_page(conn, wanted(""))).rows}
    assert states == {"stopped": "INTERRUPTED", "failed": "FAILED"}
    assert await every_id(conn, "status:interrupted") == ["stopped"]


ONE = "019a7c2e-0000-7000-8000-00001cd6ba9a"
TWO = "019a7c2e-1111-7000-8000-00002222beef"


async def told(conn: asyncpg.Connection, text: str) -> TaskDetail:
    detail = await task_detail(conn, text)
    assert isinstance(detail, TaskDetail)
    return detail


async def test_an_id_is_found_by_its_beginning_its_end_and_as_screens_shorten_it(conn: asyncpg.Connection) -> None:
    await insert(conn, ONE)
    await insert(conn, TWO, created_at="now() + interval '1 s'")
    for text in (ONE, ONE.upper(), ONE[:10], "1cd6ba9a", "…1cd6ba9a", "1CD6BA9A"):
        assert await find_task(conn, text) == ONE, text
    assert await find_task(conn, "019a7c2e") == Ambiguous("019a7c2e", (TWO, ONE), more=False)
    assert await find_task(conn, "019a7c2f") is None
    assert await find_task(conn, "%") is None
    assert await find_task(conn, " ") is None


async def test_of_many_that_begin_so_the_newest_are_told(conn: asyncpg.Connection) -> None:
    for number in range(12):
        await insert(conn, f"batch-{number:02}", created_at=f"now() + {number} * interval '1 s'")
    found = await find_task(conn, "batch-")
    assert found == Ambiguous("batch-", tuple(f"batch-{number:02}" for number in range(11, 1, -1)), more=True)
    assert await task_detail(conn, "batch-") == found


async def test_a_plain_task_is_told_as_it_is_stored(conn: asyncpg.Connection) -> None:
    await insert(conn, ONE, args="'[1,\"é\"]'", kwargs=f"'{'x' * 300}'", result="'{}'")
    detail = await told(conn, ONE)
    assert detail.row.id == ONE
    assert detail.args == Stored('[1,"é"]', 8, cut=False)
    assert detail.result == Stored("{}", 2, cut=False)
    assert (detail.options, detail.failed_reason, detail.node) == (None, None, None)
    assert (detail.attempts, detail.executions, detail.audit, detail.reruns) == ((), (), (), ())
    shortened = await task_detail(conn, ONE, most_characters=100)
    assert isinstance(shortened, TaskDetail)
    assert shortened.kwargs == Stored("x" * 100, 300, cut=True)


async def test_each_execution_has_its_own_beats(conn: asyncpg.Connection) -> None:
    await insert(
        conn, ONE, status="'RUNNING'", retry_count="1", created_at="now() - interval '100 s'",
        claimed_at="now() - interval '30 s'", started_at="now() - interval '20 s'", claimed_by_worker_id="'w'",
    )  # fmt: skip
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code)"
        f" VALUES ('{ONE}', 1, 'FAILED', true, now() - interval '90 s', now() - interval '60 s', 'TIMEOUT');"
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        f" SELECT '{ONE}', sender, role, now() - ago * interval '1 s' FROM (VALUES ('w', 'claimer', 95),"
        " ('w:1', 'runner', 85), ('w:1', 'runner', 70), ('w:1', 'runner', 50), ('w', 'claimer', 25),"
        " ('w:2', 'runner', 15), ('w:2', 'runner', 5)) beat (sender, role, ago)"
    )
    detail = await told(conn, ONE)
    assert [attempt.error_code for attempt in detail.attempts] == ["TIMEOUT"]

    def ago(times: tuple[object, ...]) -> list[int]:
        return [round((detail.now - time).total_seconds()) for time in times]

    first, second = detail.executions
    assert (first.attempt, ago(first.claimer), ago(first.runner), first.runner_sender) == (1, [95], [85, 70], "w:1")
    assert (second.attempt, ago(second.claimer), ago(second.runner), second.runner_sender) == (2, [25], [15, 5], "w:2")
    assert not first.cut


async def test_of_a_long_history_the_newest_part_is_told_and_how_much_is_left_out(conn: asyncpg.Connection) -> None:
    await insert(
        conn, ONE, status="'RUNNING'", retry_count="60", claimed_at="now()", started_at="now() - interval '9 h'"
    )
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        f" SELECT '{ONE}', n, 'FAILED', now() - interval '1 d', now() - interval '1 d' FROM generate_series(1, 60) n;"
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        f" SELECT '{ONE}', 'w:1', 'runner', now() - n * interval '30 s' FROM generate_series(1, 1000) n"
    )
    detail = await told(conn, ONE)
    assert [attempt.attempt for attempt in detail.attempts] == list(range(11, 61))
    assert detail.earlier_attempts == 10
    present = detail.executions[-1]
    assert (present.attempt, len(present.runner), present.cut) == (61, 120, True)
    assert present.runner[-1] == detail.row.beat_at


async def test_a_task_leads_to_its_workflow_its_copies_and_what_was_done_to_it(conn: asyncpg.Connection) -> None:
    await insert(conn, ONE, is_workflow_task="true")
    await insert(conn, TWO, rerun_of=f"'{ONE}'")
    await conn.execute(
        "INSERT INTO horsies_workflows (id, name, status) VALUES ('wf', 'month_end', 'RUNNING');"
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, status, task_id)"
        f" VALUES ('n', 'wf', 3, 'import', 'demo.add', 'ENQUEUED', '{ONE}')"
    )
    operation = uuid4()
    first = await conn.fetchval(
        "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, before_state)"
        " VALUES ($1, 'cancel', 'task', $2, 'applied', '{\"status\": \"PENDING\"}') RETURNING id",
        operation,
        ONE,
    )
    await conn.execute(
        "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, undoes)"
        " VALUES (gen_random_uuid(), 'undo', 'task', $1, 'applied', $2)",
        ONE,
        first,
    )
    detail = await told(conn, ONE)
    assert detail.node is not None
    assert (detail.node.workflow_id, detail.node.workflow_name, detail.node.node_id) == ("wf", "month_end", "import")
    assert (detail.node.workflow_status, detail.node.task_index, detail.node.node_status) == ("RUNNING", 3, "ENQUEUED")
    assert detail.reruns == (TWO,)
    assert [(row.verb, row.undoes, row.undone_by) for row in detail.audit] == [
        ("undo", first, None),
        ("cancel", None, first + 1),
    ]
    assert detail.audit[1].before_state == {"status": "PENDING"}
    assert (await told(conn, TWO)).row.rerun_of == ONE


async def test_the_audit_trail_is_paged_newest_first_and_by_operation_and_target(conn: asyncpg.Connection) -> None:
    await conn.execute(as_written(
        "INSERT INTO horsies_operator_actions (operation_id, acted_at, verb, target_kind, target_id, outcome)"
        " SELECT CASE WHEN n % 2 = 0 THEN '00000000-0000-0000-0000-000000000001'::uuid ELSE gen_random_uuid() END,"
        " now() - (n / 4) * interval '1 s', 'fail', CASE WHEN n = 3 THEN 'queue' ELSE 'task' END, 't' || n, 'applied'"
        " FROM generate_series(1, 30) n"
    ))  # fmt: skip
    expected = [row["id"] for row in await conn.fetch(
        "SELECT id FROM horsies_operator_actions ORDER BY acted_at DESC, id DESC"
    )]  # fmt: skip
    seen: list[int] = []
    after: AuditCursor | None = None
    while True:
        page = await audit_page(conn, limit=7, after=after)
        seen += [row.id for row in page.rows]
        after = page.next
        if after is None:
            break
    assert seen == expected
    of_operation = await audit_page(conn, operation_id=page.rows[0].operation_id)
    assert len(of_operation.rows) in (1, 15)
    assert [row.target_id for row in (await audit_page(conn, target=("queue", "t3"))).rows] == ["t3"]
    assert (await audit_page(conn, target=("task", "t3"))).rows == ()
