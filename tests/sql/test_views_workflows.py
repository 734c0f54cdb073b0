"""The workflow list with its filters, counts and progress; and the details of one workflow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from advance_steps import complete, fail, grow
from view_steps import insert, reader
from workflow_plans import node
from workflow_view_steps import (
    every_workflow,
    every_workflow_id,
    insert_node,
    insert_workflow,
    node_of,
    told,
    wanted_workflows,
)

from horsies.domain.plan import MAP_DEFINITION
from horsies.views import (
    Ambiguous,
    Count,
    Cursor,
    ParentLink,
    Stored,
    WorkflowSort,
    find_workflow,
    node_story,
    workflow_counts,
    workflow_matching,
    workflow_page,
    workflow_runs,
    workflow_story,
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


async def test_a_database_made_by_upstream_is_read_like_any_other(upstream_database: str) -> None:
    conn = await reader(upstream_database)
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


ONE = "019a7c2e-0000-7000-8000-00001cd6ba9a"
TWO = "019a7c2e-1111-7000-8000-00002222beef"


async def test_an_id_is_found_by_its_beginning_its_end_and_as_screens_shorten_it(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, ONE)
    await insert_workflow(conn, TWO, created_at="now() + interval '1 s'")
    await insert_workflow(conn, "Order-7")
    for text in (ONE, ONE.upper(), ONE[:10], "1cd6ba9a", "…1cd6ba9a", "1CD6BA9A"):
        assert await find_workflow(conn, text) == ONE, text
    assert await find_workflow(conn, "Order-7") == "Order-7"
    assert await find_workflow(conn, "019a7c2e") == Ambiguous("019a7c2e", (TWO, ONE), more=False)
    assert await workflow_story(conn, "019a7c2e") == Ambiguous("019a7c2e", (TWO, ONE), more=False)
    for nothing in ("019a7c2f", "%", " "):
        assert await workflow_story(conn, nothing) is None


async def test_a_node_is_told_as_it_is_stored(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w")
    await insert_node(conn, "w", 0, "COMPLETED")
    await insert_node(
        conn,
        "w",
        1,
        "PENDING",
        node_id="NULL",
        task_name="'demo.sum'",
        dependencies="'{0}'",
        join_type="'quorum'",
        min_success="1",
        allow_failed_deps="true",
        args_from="""'{"left": 0}'""",
        workflow_ctx_from="'{n0}'",
        queue_name="'mail'",
        priority="7",
    )
    first, second = (await told(conn, "w")).nodes
    assert (first.label, first.dependencies, first.join, first.args_from, first.ctx_from) == ("n0", (), "all", {}, ())
    expected = ("demo.sum:1", "demo.sum", "PENDING", (0,))
    assert (second.label, second.name, second.status, second.dependencies) == expected
    assert (second.join, second.min_success, second.allow_failed_deps) == ("quorum", 1, True)
    assert (second.args_from, second.ctx_from, second.queue, second.priority) == ({"left": 0}, ("n0",), "mail", 7)
    assert (second.task_id, second.task_status, second.sub_total, second.last_beat) == (None, None, None, None)


async def test_a_running_node_shows_its_task_and_its_newest_beat(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w")
    await insert_node(conn, "w", 0, "ENQUEUED", task_id="'t'", started_at="now() - interval '1 h'")
    await insert(conn, "t", status="'PENDING'", max_retries="2")
    waiting = await node_of(conn, "w", 0)
    expected = ("ENQUEUED", "PENDING", None, 2)
    assert (waiting.state, waiting.task_status, waiting.started_at, waiting.max_retries) == expected
    await conn.execute(
        "UPDATE horsies_tasks SET status = 'RUNNING', started_at = now(), claimed_at = now(),"
        " worker_hostname = 'web-1', worker_pid = 7, claimed_by_worker_id = 'w-1';"
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at) VALUES"
        " ('t', 'w-1:7', 'runner', now() + interval '3 s'), ('t', 'w-1:7', 'runner', now() + interval '1 s')"
    )
    running = await node_of(conn, "w", 0)
    assert (running.status, running.state) == ("ENQUEUED", "RUNNING")
    assert (running.worker_id, running.worker_hostname, running.worker_pid) == ("w-1", "web-1", 7)
    assert running.started_at is not None
    assert running.last_beat is not None
    assert running.last_beat - running.started_at == timedelta(seconds=3)


async def test_a_node_whose_task_waits_for_its_next_try_tells_when_and_why(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w")
    await insert_node(conn, "w", 0, "RUNNING", task_id="'t'")
    await insert(
        conn, "t", status="'PENDING'", retry_count="1", max_retries="3", next_retry_at="now() + interval '1 h'"
    )
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code)"
        " VALUES ('t', 1, 'FAILED', true, now(), now(), 'BUSY')"
    )
    node = await node_of(conn, "w", 0)
    assert (node.state, node.retry_count, node.max_retries, node.error_code) == ("RETRY", 1, 3, "BUSY")
    assert node.next_retry_at is not None


async def test_a_failed_node_has_the_code_of_its_result_or_else_of_its_task(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w", status="'FAILED'")
    error = '{"__task_error__":true,"error_code":{"__builtin_task_code__":"SUBWORKFLOW_FAILED"}}'
    result = f'{{"__task_result__":true,"ok":null,"err":{error}}}'
    await insert_node(conn, "w", 0, "FAILED", result=f"'{result}'")
    await insert_node(conn, "w", 1, "FAILED", task_id="'t'", result="'damaged'")
    await insert(conn, "t", status="'FAILED'", error_code="'TIMEOUT'")
    await insert_node(conn, "w", 2, "FAILED", task_id="'gone'")
    codes = [(node.error_code, node.task_status) for node in (await told(conn, "w")).nodes]
    assert codes == [("SUBWORKFLOW_FAILED", None), ("TIMEOUT", "FAILED"), (None, None)]


async def test_a_skipped_node_has_not_started_whatever_upstream_wrote(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w", status="'CANCELLED'")
    await insert_node(conn, "w", 0, "SKIPPED", started_at="now()", task_id="'t'")
    await insert(conn, "t", status="'CANCELLED'")
    assert (await node_of(conn, "w", 0)).started_at is None


async def test_a_sub_workflow_is_told_with_its_progress_and_its_way_back(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "parent", name="'month_end'")
    await insert_workflow(
        conn, "child", parent_workflow_id="'parent'", parent_task_index="1", root_workflow_id="'parent'", depth="1"
    )
    await insert_node(conn, "parent", 0, "RUNNING", is_subworkflow="true", sub_definition_key=f"'{MAP_DEFINITION}'")
    await insert_node(
        conn, "parent", 1, "RUNNING", is_subworkflow="true", sub_workflow_id="'child'", sub_definition_key="'d.v1'"
    )
    for index, status in enumerate(["COMPLETED", "FAILED", "SKIPPED", "RUNNING"]):
        await insert_node(conn, "child", index, status)
    mapped, opened = (await told(conn, "parent")).nodes
    assert (mapped.is_map, mapped.sub_status, mapped.sub_total, mapped.sub_done) == (True, None, None, None)
    assert (opened.is_map, opened.sub_workflow_id, opened.sub_status) == (False, "child", "RUNNING")
    assert (opened.sub_total, opened.sub_done, opened.sub_failed) == (4, 3, 1)
    child = await told(conn, "child")
    assert child.parent == ParentLink("parent", "month_end", "RUNNING", 1, "n1", "RUNNING")
    assert (child.row.depth, child.row.root_workflow_id, (await told(conn, "parent")).parent) == (1, "parent", None)


async def test_texts_are_cut_and_say_how_large_they_are(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w", result="repeat('é', 20)", error="'{}'", success_policy="""'{"cases": []}'""")
    await insert_node(
        conn, "w", 0, "COMPLETED", task_args="'[]'", task_kwargs="repeat('k', 30)", task_options="'o'", result="'r'",
        sub_workflow_summary="'s'",
    )  # fmt: skip
    story = await workflow_story(conn, "w", most_characters=10)
    assert not isinstance(story, Ambiguous | None)
    assert story.result == Stored("é" * 10, 40, cut=True)
    assert (story.error, story.success_policy) == (Stored("{}", 2, cut=False), Stored('{"cases": ', 13, cut=True))
    node = await node_story(conn, "w", 0, most_characters=10)
    assert node is not None
    assert node.kwargs == Stored("k" * 10, 30, cut=True)
    expected = ["[]", "o", "r", "s"]
    assert [text and text.text for text in (node.args, node.options, node.result, node.summary)] == expected
    assert (node.workflow_id, node.workflow_name, node.workflow_status, node.node.index) == ("w", "order", "RUNNING", 0)
    assert await node_story(conn, "w", 1) is None
    assert await node_story(conn, "v", 0) is None


async def test_what_was_done_by_hand_is_told_of_the_workflow_and_of_the_node(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w")
    await insert_node(conn, "w", 3, "SKIPPED")
    await conn.execute(
        "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome) VALUES"
        " (gen_random_uuid(), 'pause', 'workflow', 'w', 'applied'),"
        " (gen_random_uuid(), 'skip', 'node', 'w:3', 'applied')"
    )
    assert [action.verb for action in (await told(conn, "w")).audit] == ["pause"]
    node = await node_story(conn, "w", 3)
    assert node is not None
    assert [action.verb for action in node.audit] == ["skip"]


async def test_of_very_many_nodes_the_first_are_told_and_all_are_counted(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w")
    await conn.execute(
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status)"
        " SELECT gen_random_uuid(), 'w', n, 'demo.add', 'PENDING' FROM generate_series(0, 49) n"
    )
    story = await workflow_story(conn, "w", most_nodes=20)
    assert not isinstance(story, Ambiguous | None)
    assert [node.index for node in story.nodes] == list(range(20))
    assert story.row.total == 50


async def test_what_the_engine_plants_and_advances_is_told_as_it_is(conn: asyncpg.Connection) -> None:
    workflow_id = await grow(
        conn, node(0), node(1, 0, args_from={"left": 0}), node(2, 0), node(3, 1, 2, join="any"), name="month_end"
    )
    story = await told(conn, workflow_id)
    assert [each.state for each in story.nodes] == ["ENQUEUED", "PENDING", "PENDING", "PENDING"]
    assert (story.row.name, story.row.status, story.row.waiting) == ("month_end", "RUNNING", 4)
    await complete(conn, workflow_id, 0, 7)
    await fail(conn, workflow_id, 1, "TIMEOUT")
    story = await told(conn, workflow_id)
    expected = [("COMPLETED", None), ("FAILED", "TIMEOUT"), ("ENQUEUED", None), ("PENDING", None)]
    assert [(each.state, each.error_code) for each in story.nodes] == expected
    assert (story.row.failed_node, story.row.error_code, story.row.done) == ("n1", "TIMEOUT", 2)
    taken = await node_story(conn, workflow_id, 1)
    assert taken is not None
    assert taken.result is not None
    assert "TIMEOUT" in taken.result.text


async def test_the_runs_of_all_nodes_are_told_in_their_order(conn: asyncpg.Connection) -> None:
    await insert_workflow(conn, "w")
    await insert_workflow(conn, "other")
    for workflow_id, index, task_id in (("w", 0, "a"), ("w", 1, "b"), ("other", 0, "c")):
        await insert(conn, task_id)
        await insert_node(conn, workflow_id, index, "RUNNING", task_id=f"'{task_id}'")
        await conn.execute(
            "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
            " SELECT $1, n, CASE n WHEN 1 THEN 'FAILED' ELSE 'COMPLETED' END, now() + n * interval '1 min',"
            " now() + n * interval '1 min' + interval '5 s' FROM generate_series(1, 2) n",
            task_id,
        )
    runs = await workflow_runs(conn, "w")
    assert [(run.index, run.outcome) for run in runs] == [
        *[(0, "FAILED"), (0, "COMPLETED"), (1, "FAILED"), (1, "COMPLETED")]
    ]
    assert {run.finished_at - run.started_at for run in runs} == {timedelta(seconds=5)}
    assert len(await workflow_runs(conn, "w", most=3)) == 3
    assert await workflow_runs(conn, "none") == ()
