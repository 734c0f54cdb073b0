"""Each key of the filter language finds its rows, in pages, in counts, in groups and in operations."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
from view_steps import every_id, insert, reader, wanted

from horsies.views import GROUPINGS, Count, Sort, matching, task_counts, task_groups
from horsies.views.tasks import ExpectedState

ROWS: dict[str, dict[str, str]] = {
    "019a7c2e-0000-7000-8000-00001cd6ba9a": {
        "task_name": "'send_mail'", "queue_name": "'mail'", "created_at": "now() - interval '2 h'",
        "args": """'["order 42",100]'""", "unique_key": "'invoice-1'", "good_until": "now() + interval '1 h'",
        "enqueued_at": "now() - interval '2 h'",
    },
    "retry": {
        "task_name": "'send_sms'", "queue_name": "'sms'", "retry_count": "2", "max_retries": "4",
        "next_retry_at": "now() + interval '1 h'", "enqueued_at": "now() + interval '1 h'",
    },
    "claimed": {
        "status": "'CLAIMED'", "claimed": "true", "claimed_by_worker_id": "'web-1-7'", "claimed_at": "now()",
    },
    "running": {
        "status": "'RUNNING'", "claimed_by_worker_id": "'web-2-9'", "claimed_at": "now()",
        "enqueued_at": "now() - interval '20 min'", "started_at": "now() - interval '10 min'",
        "is_workflow_task": "true",
    },
    "completed": {
        "status": "'COMPLETED'", "claimed_by_worker_id": "'web-1-7'", "kwargs": """'{"path":"a_b%c"}'""",
        "enqueued_at": "now() - interval '3 h'", "started_at": "now() - interval '3 h'",
        "completed_at": "now() - interval '1 h'", "rerun_of": "'claimed'",
    },
    "timeout": {
        "status": "'FAILED'", "failed_at": "now()", "error_code": "'TIMEOUT'", "retry_count": "3",
        "created_at": "now() - interval '3 d'", "started_at": "now() - interval '1 s'",
    },
    "stopped": {"status": "'FAILED'", "failed_at": "now()", "error_code": "'TASK_INTERRUPTED'"},
    "cancelled": {"status": "'CANCELLED'"},
    "expired": {"status": "'EXPIRED'", "failed_at": "now()", "good_until": "now()", "error_code": "'TASK_EXPIRED'"},
}  # fmt: skip
LONG = "019a7c2e-0000-7000-8000-00001cd6ba9a"
EVERYTHING = set(ROWS)

FOUND: dict[str, set[str]] = {
    "": EVERYTHING,
    "status:pending": {LONG},
    "status:retry": {"retry"},
    "status:pending,retry": {LONG, "retry"},
    "status:scheduled": set(),
    "status:live": {LONG, "retry", "claimed", "running"},
    "status:done": {"completed", "timeout", "stopped", "cancelled", "expired"},
    "status:interrupted": {"stopped"},
    "status:failed -status:interrupted": {"timeout"},
    "status:cancelled,expired": {"cancelled", "expired"},
    "-status:done": {LONG, "retry", "claimed", "running"},
    f"id:{LONG}": {LONG},
    "id:019a7c": {LONG},
    "id:1cd6ba9a": {LONG},
    "-id:1cd6ba9a": EVERYTHING - {LONG},
    "queue:mail,sms": {LONG, "retry"},
    "queue:*m*": {LONG, "retry"},
    "-queue:default": {LONG, "retry"},
    "-queue:*a*": {"retry"},
    "name:send_mail": {LONG},
    "name:send_*": {LONG, "retry"},
    "-name:demo.add": {LONG, "retry"},
    "-name:send_*": EVERYTHING - {LONG, "retry"},
    "error:TIMEOUT": {"timeout"},
    "error:T*": {"timeout", "stopped", "expired"},
    "-error:TIMEOUT": EVERYTHING - {"timeout"},
    "-error:T*": EVERYTHING - {"timeout", "stopped", "expired"},
    "status:pending,failed error:TIMEOUT": {"timeout"},
    "worker:web-1-7": {"claimed", "completed"},
    "worker:web-*": {"claimed", "running", "completed"},
    "-worker:web-1-7": EVERYTHING - {"claimed", "completed"},
    "-worker:web-*": EVERYTHING - {"claimed", "running", "completed"},
    "unique:invoice-1": {LONG},
    "unique:inv*": {LONG},
    "-unique:invoice-1": EVERYTHING - {LONG},
    "-unique:inv*": EVERYTHING - {LONG},
    "workflow:yes": {"running"},
    "workflow:no": EVERYTHING - {"running"},
    "workflow:0000beef-0000-7000-8000-000000000001": {"running"},
    "workflow:0000beef": {"running"},
    "-workflow:0000beef-0000-7000-8000-000000000001": EVERYTHING - {"running"},
    "-workflow:0000beef": EVERYTHING - {"running"},
    "send": {LONG, "retry"},
    "1cd6ba9a": {LONG},
    "-send": EVERYTHING - {LONG, "retry"},
    "-1cd6ba9a": EVERYTHING - {LONG},
    'args:"order 42"': {LONG},
    "args:a_b%c": {"completed"},
    "args:axb": set(),
    '-args:"order 42"': EVERYTHING - {LONG},
    "has:error": {"timeout", "stopped", "expired"},
    "-has:error": EVERYTHING - {"timeout", "stopped", "expired"},
    "has:deadline": {LONG, "expired"},
    "has:unique": {LONG},
    "-has:unique": EVERYTHING - {LONG},
    "has:rerun": {"completed"},
    "-has:rerun": EVERYTHING - {"completed"},
    "since:1h": EVERYTHING - {LONG, "timeout"},
    "until:1h": {LONG, "timeout"},
    "since:1d until:1h": {LONG},
    "since:2000-01-01 until:2000-01-02": set(),
    "since:2000-01-01": EVERYTHING,
    "status:failed since:1d": {"stopped"},
    "ended:>=2000-01-01": EVERYTHING - {LONG, "retry", "claimed", "running", "cancelled"},
    "ended:<2000-01-01": set(),
    "ended:2000-01-01..2000-01-02": set(),
    "tries:>2": {"retry", "timeout"},
    "tries:<=3": EVERYTHING - {"timeout"},
    "wait:>1h": {LONG},
    "wait:5m..15m": {"running"},
    "wait:<5m status:claimed": {"claimed"},
    "run:>5m": {"running", "completed"},
    "run:<1m": {"timeout"},
}


@pytest.fixture
async def conn(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await reader(database)
    for task_id, columns in ROWS.items():
        await insert(connected, task_id, **columns)
    await connected.execute(
        "INSERT INTO horsies_workflows (id, name, status)"
        " VALUES ('0000beef-0000-7000-8000-000000000001', 'month_end', 'RUNNING');"
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)"
        " VALUES ('n', '0000beef-0000-7000-8000-000000000001', 0, 'demo.add', 'RUNNING', 'running')"
    )
    yield connected
    await connected.close()


async def test_each_key_finds_its_rows_in_pages_in_counts_in_groups_and_for_operations(
    conn: asyncpg.Connection,
) -> None:
    for text, expected in FOUND.items():
        parameters = wanted(text)
        assert set(await every_id(conn, text, limit=3)) == expected, text
        assert {seen.task_id for seen in await matching(conn, parameters, 100)} == expected, text
        # A task cancelled by upstream has no time of its end: it is in every list but this one.
        finished = set(await every_id(conn, text, sort=Sort.FINISHED))
        assert finished == expected - {LONG, "retry", "claimed", "running", "cancelled"}, text
        assert set(await every_id(conn, text, sort=Sort.WAITING)) == expected & {LONG, "retry"}, text
        assert set(await every_id(conn, text, sort=Sort.RUNNING)) == expected & {"running"}, text
        counts = await task_counts(conn, parameters)
        assert (counts.total, counts.reached) == (Count(len(expected)), None), text
        for by in GROUPINGS[1:]:
            groups = await task_groups(conn, parameters, by=by)
            assert sum(group.number for group in groups.groups) == len(expected), text


async def test_no_text_of_a_filter_is_ever_part_of_a_statement(conn: asyncpg.Connection) -> None:
    for text in ('name:"\'; DROP TABLE horsies_tasks; --"', 'args:"$1"', "queue:%", r"name:\*"):
        assert await every_id(conn, text) == [], text
    assert len(await every_id(conn)) == len(ROWS)


async def test_what_waits_for_its_time_or_for_its_next_try_is_not_meant_by_another_word(
    conn: asyncpg.Connection,
) -> None:
    await insert(conn, "scheduled", task_name="'send_mail'", enqueued_at="now() + interval '1 h'")
    for text, expected in {
        "status:pending": {LONG, "scheduled"},
        "status:scheduled": {"scheduled"},
        "status:pending -status:scheduled": {LONG},
        "status:scheduled,retry": {"scheduled", "retry"},
        "status:retry": {"retry"},
        "status:pending,retry": {LONG, "scheduled", "retry"},
        "status:scheduled,failed": {"scheduled", "timeout", "stopped"},
        "-status:scheduled,done": {LONG, "retry", "claimed", "running"},
    }.items():
        assert set(await every_id(conn, text)) == expected, text
        assert {seen.task_id for seen in await matching(conn, wanted(text), 100)} == expected, text
        assert (await task_counts(conn, wanted(text))).total == Count(len(expected)), text


async def test_counts_tell_retry_and_interrupted_from_pending_and_failed(conn: asyncpg.Connection) -> None:
    counts = await task_counts(conn, wanted(""))
    assert counts.states == {
        state: Count(1)
        for state in (
            "PENDING", "RETRY", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "INTERRUPTED", "CANCELLED", "EXPIRED",
        )
    }  # fmt: skip
    assert counts.total == Count(9)
    assert counts.in_table is None
    await conn.execute("ANALYZE horsies_tasks")
    assert (await task_counts(conn, wanted(""))).in_table == 9


async def test_groups_are_the_values_of_a_column_with_the_largest_first(conn: asyncpg.Connection) -> None:
    by_queue = await task_groups(conn, wanted(""), by="queue_name")
    assert [(group.key, group.number) for group in by_queue.groups] == [("default", 7), ("mail", 1), ("sms", 1)]
    assert by_queue.groups[0].oldest < by_queue.groups[0].newest <= by_queue.now
    by_error = await task_groups(conn, wanted(""), by="error_code")
    assert {group.key: group.number for group in by_error.groups} == {
        None: 1, "TIMEOUT": 1, "TASK_INTERRUPTED": 1, "TASK_EXPIRED": 1,
    }  # fmt: skip
    by_worker = await task_groups(conn, wanted("status:done"), by="worker", limit=1)
    assert [(group.key, group.number) for group in by_worker.groups] == [(None, 4)]


async def test_operations_get_what_they_compare_with_the_row(conn: asyncpg.Connection) -> None:
    (seen,) = await matching(conn, wanted("status:running"), 10)
    row = await conn.fetchrow("SELECT * FROM horsies_tasks WHERE id = 'running'")
    assert seen == ExpectedState(
        "running", "demo.add", "default", "RUNNING", "web-2-9", row["claimed_at"], 0, None, None, None,
        is_workflow_task=True,
    )  # fmt: skip
    assert [seen.task_id for seen in await matching(conn, wanted("status:failed"), 1)] == ["stopped"]
