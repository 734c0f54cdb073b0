"""The details of one task, found by its id or a part of it."""

from __future__ import annotations

from uuid import uuid4

import asyncpg
from database_server import as_written
from view_steps import insert

from horsies.views import Ambiguous, AuditCursor, Stored, TaskDetail, audit_page, find_task, task_detail

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
