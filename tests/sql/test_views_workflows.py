"""The workflow list: pages under a filter, counts, progress; each filter finds the rows that it names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from view_steps import reader
from workflow_view_steps import (
    every_workflow,
    every_workflow_id,
    insert_node,
    insert_workflow,
    told,
    wanted_workflows,
)

from horsies.views import (
    Count,
    Cursor,
    WorkflowSort,
    node_story,
    workflow_counts,
    workflow_matching,
    workflow_page,
    workflow_values,
)

# Few values of each, so that there are many ties.
FILL = """
INSERT INTO horsies_workflows (id, name, status, definition_key, parent_workflow_id, created_at, sent_at, error)
SELECT 'w-' || n, 'shop.wf_' || n % 4, (ARRAY['PENDING', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'CANCELLED'])
       [1 + n % 6], CASE WHEN n % 3 > 0 THEN 'shop.wf_' || n % 4 || '.v' || n % 3 END,
       CASE WHEN n > 100 AND n % 7 = 0 THEN 'w-' || n % 5 + 1 END,
       now() - n % 9 * interval '1 min', now() - n % 9 * interval '1 min',
       CASE WHEN n % 6 = 4 THEN '{"__task_error__":true,"error_code":' || CASE n % 4 WHEN 0 THEN '"CARD_DECLINED"'
            ELSE '{"__builtin_task_code__":"WORKER_CRASHED"}' END || ',"data":null,"message":"no"}' END
  FROM generate_series(1, 210) n
"""
NEWEST = "ORDER BY created_at DESC, id DESC"
FILTERS = {
    "": "true",
    "status:failed": "status = 'FAILED'",
    "status:failed,cancelled": "status IN ('FAILED', 'CANCELLED')",
    "status:live": "status IN ('PENDING', 'RUNNING', 'PAUSED')",
    "-status:live": "status IN ('COMPLETED', 'FAILED', 'CANCELLED')",
    "status:paused": "status = 'PAUSED'",
    "name:shop.wf_2": "name = 'shop.wf_2'",
    "name:*_2,*_3": "name IN ('shop.wf_2', 'shop.wf_3')",
    "definition:shop.wf_1.v1": "definition_key = 'shop.wf_1.v1'",
    "-definition:*.v1": "definition_key IS NULL OR definition_key NOT LIKE '%.v1'",
    "error:CARD_DECLINED": "error LIKE '%CARD_DECLINED%'",
    "error:WORKER_*": "error LIKE '%WORKER_CRASHED%'",
    "-error:CARD_DECLINED status:failed": "status = 'FAILED' AND error NOT LIKE '%CARD%'",
    "parent:no": "parent_workflow_id IS NULL",
    "parent:yes": "parent_workflow_id IS NOT NULL",
    "parent:w-2,w-3": "parent_workflow_id IN ('w-2', 'w-3')",
    "-parent:w-2": "parent_workflow_id IS DISTINCT FROM 'w-2'",
    "id:w-17": "id LIKE 'w-17%' OR id LIKE '%w-17'",
    "since:210s": "created_at >= now() - interval '210 s'",
    "until:210s status:live": "created_at <= now() - interval '210 s' AND status IN ('PENDING', 'RUNNING', 'PAUSED')",
    "wf_1": "name LIKE '%wf_1%'",
    "-wf_1 -wf_2": "name NOT LIKE '%wf_1%' AND name NOT LIKE '%wf_2%'",
}
MADE_BY_UPSTREAM = Path(__file__).with_name("upstream_shape.sql").read_text("utf-8")


@pytest.fixture
async def filled(conn: asyncpg.Connection) -> asyncpg.Connection:
    await conn.execute(FILL)
    return conn


@pytest.mark.parametrize("text", FILTERS)
async def test_a_filter_finds_what_its_words_say_page_by_page(filled: asyncpg.Connection, text: str) -> None:
    rows = await filled.fetch(f"SELECT id, status FROM horsies_workflows WHERE ({FILTERS[text]}) {NEWEST}")
    expected = [row["id"] for row in rows]
    assert expected
    for limit in (9, 500):
        assert await every_workflow_id(filled, text, limit=limit) == expected
    assert await workflow_matching(filled, wanted_workflows(text), 1000) == expected
    assert await workflow_matching(filled, wanted_workflows(text), 3) == expected[:3]
    counts = await workflow_counts(filled, wanted_workflows(text))
    assert counts.total == Count(len(expected))
    assert {status: count.number for status, count in counts.states.items()} == {
        status: sum(row["status"] == status for row in rows) for status in {row["status"] for row in rows}
    }


@pytest.mark.parametrize(
    ("sort", "rows"),
    [
        (WorkflowSort.NEWEST, "true ORDER BY created_at DESC, id DESC"),
        (WorkflowSort.OLDEST, "true ORDER BY created_at, id"),
        (WorkflowSort.OPEN, "status IN ('PENDING', 'RUNNING', 'PAUSED') ORDER BY created_at, id"),
        (
            WorkflowSort.ENDED,
            "status IN ('COMPLETED', 'FAILED', 'CANCELLED')"
            " ORDER BY COALESCE(completed_at, updated_at, created_at) DESC, id DESC",
        ),
    ],
)
async def test_every_order_shows_its_rows_once_page_by_page_in_both_directions(
    filled: asyncpg.Connection, sort: WorkflowSort, rows: str
) -> None:
    await filled.execute(
        "UPDATE horsies_workflows SET completed_at = now() - hashtext(id) % 5 * interval '1 s'"
        " WHERE status IN ('COMPLETED', 'FAILED')"
    )
    expected = [row["id"] for row in await filled.fetch(f"SELECT id FROM horsies_workflows WHERE {rows}")]
    assert len(expected) > 100
    for backwards in (False, True):
        found: list[str] = []
        after: Cursor | None = None
        while True:
            page = await workflow_page(
                filled, wanted_workflows(""), sort=sort, limit=40, after=after, backwards=backwards
            )
            ids = [row.id for row in page.rows]
            found = [*ids, *found] if backwards else [*found, *ids]
            after = page.previous if backwards else page.next
            if after is None:
                break
        assert found == expected


async def test_a_row_tells_how_far_it_has_come_and_what_failed_first(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w", parent_workflow_id="NULL", root_workflow_id="NULL")
    statuses = ["COMPLETED", "COMPLETED", "RUNNING", "FAILED", "FAILED", "SKIPPED", "PENDING", "READY", "ENQUEUED"]
    for index, status in enumerate(statuses):
        await insert_node(conn, "w", index, status)
    (row,) = await every_workflow(conn)
    assert (row.total, row.completed, row.failed, row.skipped, row.running, row.waiting) == (9, 2, 2, 1, 1, 3)
    assert row.total == row.completed + row.failed + row.skipped + row.running + row.waiting
    assert (row.done, row.failed_node, row.root_workflow_id) == (5, "n3", "w")
    await conn.execute("UPDATE horsies_workflow_tasks SET node_id = NULL")
    (row,) = await every_workflow(conn)
    assert row.failed_node == "3"


async def test_a_workflow_without_nodes_is_shown_with_none(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w")
    (row,) = await every_workflow(conn)
    assert (row.total, row.completed, row.failed, row.skipped, row.running, row.waiting) == (0, 0, 0, 0, 0, 0)
    assert (row.failed_node, (await told(conn, "w")).nodes) == (None, ())


@pytest.mark.parametrize(
    ("stored", "code"),
    [
        ('{"__task_error__":true,"error_code":"CARD_DECLINED","data":null,"message":"no"}', "CARD_DECLINED"),
        ('{"__task_error__": true, "error_code": {"__builtin_task_code__": "WORKER_CRASHED"}}', "WORKER_CRASHED"),
        ('{"error_code":"PLAIN"}', "PLAIN"),
        ('{"__task_error__":true,"error_code":"CUT_OFF","da', "CUT_OFF"),
        ('{"__task_error__":true,"error_code":null,"data":{"error_code":"INSIDE"}}', None),
        ('{"message":"no"}', None),
        ("not JSON at all", None),
        ("", None),
    ],
)
async def test_the_code_of_an_error_is_read_even_where_the_rest_is_damaged(
    conn: asyncpg.Connection, stored: str, code: str | None
) -> None:
    await insert_workflow(conn, "w", status="'FAILED'", error=f"'{stored}'")
    (row,) = await every_workflow(conn)
    assert row.error_code == code
    assert await every_workflow_id(conn, "error:*") == (["w"] if code else [])
    await insert_workflow(conn, "v")
    result = f'{{"__task_result__":true,"ok":null,"err":{stored}}}'
    await insert_node(conn, "v", 0, "FAILED", result=f"'{result}'")
    assert (await told(conn, "v")).nodes[0].error_code == code


async def test_the_values_that_a_filter_completes_come_with_the_most_frequent_first(filled: asyncpg.Connection) -> None:
    await insert_workflow(filled, "x", name="'shop.wf_1'")
    rows = await filled.fetch("SELECT name FROM horsies_workflows GROUP BY name ORDER BY count(*) DESC, name")
    assert await workflow_values(filled, "name") == tuple(row["name"] for row in rows)
    assert await workflow_values(filled, "name", limit=1) == ("shop.wf_1",)
    assert set(await workflow_values(filled, "error_code")) == {"CARD_DECLINED", "WORKER_CRASHED"}
    definitions = await workflow_values(filled, "definition_key")
    assert len(definitions) == 8
    assert None not in definitions


def at(minute: int) -> datetime:
    return datetime(2026, 11, 18, 12, minute, tzinfo=UTC)


async def test_a_run_lasts_from_its_start_to_its_end_or_now(conn: asyncpg.Connection) -> None:
    start = "'2026-11-18T12:00Z'"
    await insert_workflow(conn, "live", started_at=start)
    await insert_workflow(conn, "ended", status="'COMPLETED'", started_at=start, completed_at="'2026-11-18T12:02Z'")
    await insert_workflow(conn, "cut", status="'CANCELLED'", started_at=start, updated_at="'2026-11-18T12:03Z'")
    lasted = {row.id: row.run(at(9)) for row in await every_workflow(conn)}
    minutes = {name: timedelta(minutes=count) for name, count in {"live": 9, "ended": 2, "cut": 3}.items()}
    assert lasted == minutes


async def test_a_database_made_by_upstream_is_read_like_any_other(empty_database: str) -> None:
    maker = await asyncpg.connect(empty_database)
    await maker.execute(MADE_BY_UPSTREAM)
    await maker.close()
    conn = await reader(empty_database)
    try:
        assert set(await every_workflow_id(conn)) == {"wf-1", "wf-2"}
        assert await every_workflow_id(conn, "parent:wf-1") == ["wf-2"]
        assert (await workflow_counts(conn, wanted_workflows(""))).total == Count(2)
        story = await told(conn, "wf-1")
        assert story.row.created_at == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
        assert [node.label for node in story.nodes] == ["ship:0", "ship:1"]
        child = story.nodes[1]
        assert (child.sub_status, child.sub_total, child.sub_done) == ("COMPLETED", 2, 0)
        assert (child.join, child.args_from, child.ctx_from) == ("any", {"left": 0}, ("ship:0",))
        assert story.success_policy is not None
        parent = (await told(conn, "wf-2")).parent
        assert parent is not None
        assert parent.workflow_id == "wf-1"
        node = await node_story(conn, "wf-1", 1)
        assert node is not None
        assert node.kwargs is not None
        assert (node.kwargs.text, node.audit) == ("{}", ())
    finally:
        await conn.close()
