"""Each view of workflows reads a bounded number of rows by index, with 200,000 workflows."""

from __future__ import annotations

import json

import asyncpg
import pytest
from database_server import uuid7
from plan_steps import nodes
from statements import statement
from view_steps import cost
from workflow_view_steps import every_workflow_id, wanted_workflows

from horsies.views import (
    Cursor,
    WorkflowSort,
    find_workflow,
    node_story,
    workflow_counts,
    workflow_matching,
    workflow_page,
    workflow_runs,
    workflow_story,
    workflow_values,
    workflows as search,
)
from horsies.views.cluster import exported
from horsies.views.searching import Source, Stretch, over
from horsies.views.workflows import WORKFLOWS

# One in twenty failed, one in twenty has a random id as upstream makes them; the newest has 1,000 nodes.
FILL = f"""
SET session_replication_role = replica; -- nobody listens to 200 000 notifications
INSERT INTO horsies_workflows (id, name, status, definition_key, parent_workflow_id, created_at, sent_at, started_at,
                               completed_at, error)
SELECT CASE WHEN n % 20 = 0 THEN gen_random_uuid() ELSE {uuid7("at")} END, 'shop.wf_' || n % 40, status,
       'shop.wf_' || n % 40 || '.v1', CASE WHEN n % 10 = 3 THEN 'w-' || n / 1000 END, at, at, at,
       CASE WHEN status NOT IN ('RUNNING', 'PAUSED') THEN at + interval '1 min' END,
       CASE status WHEN 'FAILED' THEN '{{"__task_error__":true,"error_code":"CODE_' || n % 7 || '"}}' END
  FROM generate_series(200000, 1, -1) n
 CROSS JOIN LATERAL (SELECT now() - n * interval '10 s' AS at,
                            CASE WHEN n % 20 = 1 THEN 'FAILED' WHEN n % 501 = 0 THEN 'CANCELLED'
                                 WHEN n % 300 = 2 THEN 'RUNNING' WHEN n % 5003 = 3 THEN 'PAUSED'
                                 ELSE 'COMPLETED' END AS status) row;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, dependencies, status, task_id)
SELECT gen_random_uuid(), workflow.id, k, 'n' || k, 'shop.task', CASE k WHEN 0 THEN '{{}}' ELSE ARRAY[k - 1] END,
       'COMPLETED', gen_random_uuid()
  FROM (SELECT id, row_number() OVER (ORDER BY created_at DESC) AS place FROM horsies_workflows) workflow
 CROSS JOIN LATERAL generate_series(0, CASE place WHEN 1 THEN 999 ELSE 2 END) k
 WHERE place <= 20000;
"""

FILTERS = (
    "", "status:failed", "status:failed,cancelled", "status:completed", "status:live", "status:paused", "-status:done",
    "error:CODE_3", "error:NONE", "error:CODE_*", "name:shop.wf_3", "name:none", "name:*_39", "definition:none",
    "definition:*_3.v1", "id:00000000-0000-0000-0000-000000000000", "id:ffff", "parent:no", "parent:yes", "parent:w-7",
    "parent:019a7c2e-0000-7000-8000-00001cd6ba9a", "since:1h", "since:1h name:none", "until:20d name:none", "none",
    "status:failed name:none", "status:live name:none", "-wf",
)  # fmt: skip

MOST = 45_000
"""A page reads 10,000 entries for its edge, the rows up to there, and the nodes of its workflows."""

INDEX_OF = {
    search.CREATED: "ix_horsies_workflows_created",
    search.LIVE: "ix_horsies_workflows_live_created",
    search.UNSUCCESSFUL: "ix_horsies_workflows_unsuccessful_created",
    search.ENDED: "ix_horsies_workflows_finished",
}


@pytest.mark.parametrize("text", FILTERS)
async def test_a_page_is_bounded_whatever_the_filter_and_wherever_it_begins(
    full: asyncpg.Connection, text: str
) -> None:
    middle = Cursor(await full.fetchval("SELECT now() - interval '12 d'"), "8")
    for after, backwards in ((None, False), (middle, False), (middle, True)):

        async def page() -> None:
            await workflow_page(full, wanted_workflows(text), after=after, backwards=backwards)  # noqa: B023

        whole, entries = await cost(full, page)
        assert whole == 0, f"{after} {backwards}"
        assert entries < MOST, f"{after} {backwards}: {entries} entries"


@pytest.mark.parametrize("sort", [sort for sort in WorkflowSort if sort is not WorkflowSort.NEWEST])
async def test_a_page_is_bounded_in_every_order(full: asyncpg.Connection, sort: WorkflowSort) -> None:
    middle = Cursor(await full.fetchval("SELECT now() - interval '12 d'"), "8")
    for text in FILTERS[::3]:
        for after, backwards in ((None, False), (middle, False), (middle, True)):

            async def page() -> None:
                wanted = wanted_workflows(text)  # noqa: B023
                await workflow_page(full, wanted, sort=sort, after=after, backwards=backwards)  # noqa: B023

            whole, entries = await cost(full, page)
            assert (whole, entries < MOST) == (0, True), f"{text!r} {after} {backwards}: {entries} entries"
    whole, entries = await cost(full, lambda: workflow_page(full, wanted_workflows(""), sort=sort, limit=50))
    assert (whole, entries < 1_500) == (0, True), entries  # the newest one has 1,000 nodes


@pytest.mark.parametrize("text", ["", "status:live", "status:failed,cancelled"])
async def test_a_page_of_a_whole_source_reads_little_more_than_it_shows(full: asyncpg.Connection, text: str) -> None:
    middle = Cursor(await full.fetchval("SELECT now() - interval '12 h'"), "8")
    whole, entries = await cost(full, lambda: workflow_page(full, wanted_workflows(text), limit=50, after=middle))
    assert whole == 0
    assert entries < 300  # 51 rows and their three nodes each


@pytest.mark.parametrize("text", FILTERS)
async def test_counts_are_bounded(full: asyncpg.Connection, text: str) -> None:
    whole, entries = await cost(full, lambda: workflow_counts(full, wanted_workflows(text)))
    assert whole == 0
    assert entries < 2 * MOST


async def test_what_the_exporter_reads_is_bounded(full: asyncpg.Connection) -> None:
    whole, entries = await cost(full, lambda: exported(full))
    assert whole == 0
    assert entries < 3_000  # the live workflows


async def test_counts_are_exact_for_live_rows_and_a_minimum_for_ended_ones(full: asyncpg.Connection) -> None:
    counts = await workflow_counts(full, wanted_workflows(""))
    live = await full.fetch("SELECT status, count(*) FROM horsies_workflows WHERE status IN ('RUNNING', 'PAUSED')"
                            " GROUP BY status")  # fmt: skip
    assert {status: str(counts.states[status]) for status in ("RUNNING", "PAUSED")} == {
        status: str(number) for status, number in live
    }
    assert counts.states["COMPLETED"].at_least
    assert counts.states["FAILED"].at_least
    assert counts.reached is not None
    lately = await workflow_counts(full, wanted_workflows("status:failed since:1d"))
    assert (str(lately.states["FAILED"]), lately.reached) == ("432", None)


async def test_values_are_read_from_the_newest(full: asyncpg.Connection) -> None:
    for by in ("name", "definition_key", "error_code"):
        whole, entries = await cost(full, lambda: workflow_values(full, by))  # noqa: B023
        assert whole == 0, by
        assert entries < MOST, by


async def test_rare_matches_are_found_one_stretch_after_the_other(full: asyncpg.Connection) -> None:
    await full.execute(
        "UPDATE horsies_workflows SET name = 'rare' WHERE id IN"
        " ((SELECT id FROM horsies_workflows WHERE status = 'COMPLETED' ORDER BY created_at LIMIT 1),"
        "  (SELECT id FROM horsies_workflows WHERE status = 'COMPLETED' ORDER BY created_at DESC LIMIT 1))"
    )
    page = await workflow_page(full, wanted_workflows("name:rare"))
    assert len(page.rows) == 1
    assert page.reached is not None
    assert page.next == page.reached
    rows = await full.fetch("SELECT id FROM horsies_workflows WHERE name = 'rare' ORDER BY created_at DESC")
    expected = [row["id"] for row in rows]
    assert len(expected) == 2
    assert await every_workflow_id(full, "name:rare") == expected
    assert await workflow_matching(full, wanted_workflows("name:rare"), 10) == expected


async def test_a_story_reads_only_rows_of_its_nodes(full: asyncpg.Connection) -> None:
    newest = await full.fetchval("SELECT id FROM horsies_workflows ORDER BY created_at DESC LIMIT 1")
    whole, entries = await cost(full, lambda: workflow_story(full, newest))
    assert (whole, entries < 3_000) == (0, True)  # 1 000 nodes counted, and read in order
    whole, entries = await cost(full, lambda: node_story(full, newest, 500))
    assert (whole, entries < 20) == (0, True)


async def test_the_runs_of_a_workflow_are_read_by_its_nodes(full: asyncpg.Connection) -> None:
    newest = await full.fetchval("SELECT id FROM horsies_workflows ORDER BY created_at DESC LIMIT 1")
    whole, entries = await cost(full, lambda: workflow_runs(full, newest))
    assert (whole, entries < 5_000) == (0, True), entries


async def test_a_beginning_is_found_by_the_primary_key_and_an_end_in_an_index(full: asyncpg.Connection) -> None:
    newest = await full.fetchval("SELECT id FROM horsies_workflows ORDER BY created_at DESC LIMIT 1")
    assert await find_workflow(full, newest[-9:]) == newest
    await full.execute("PREPARE finding AS " + statement("view_find_id", table="horsies_workflows"))
    plan = await full.fetchval("EXPLAIN (FORMAT JSON) EXECUTE finding ('019a', 11, 1000000)")
    read = {
        step["Index Name"]: step["Node Type"] for step in nodes(json.loads(plan)[0]["Plan"]) if "Index Name" in step
    }
    assert read == {
        "horsies_workflows_pkey": "Index Scan",
        "ix_horsies_workflows_created": "Index Only Scan",
    }


@pytest.mark.parametrize("source", INDEX_OF, ids=lambda source: source.name)
@pytest.mark.parametrize("ascending", [True, False])
async def test_each_source_is_read_along_its_index_in_either_direction(
    full: asyncpg.Connection, source: Source, ascending: bool
) -> None:
    stretch = Stretch(source, ascending, None, None, 101)
    query, values = over(WORKFLOWS, wanted_workflows(""), stretch, statement("view_workflow_page"), 101)
    plan = json.loads(await full.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", *values))
    read = [step for step in nodes(plan[0]["Plan"]) if step.get("Relation Name") == "horsies_workflows"]
    assert {step.get("Index Name") for step in read} == {INDEX_OF[source]}
    assert sum(step["Actual Rows"] * step["Actual Loops"] for step in read) < 300
