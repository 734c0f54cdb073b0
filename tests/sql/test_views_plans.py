"""Every view reads a bounded number of rows by index, with 240,000 tasks and any request."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from database_server import uuid7
from plan_steps import nodes
from statements import statement
from view_steps import cost, every_id, wanted

from horsies.query import parse_activity
from horsies.views import (
    GROUPINGS,
    Buckets,
    Cursor,
    Sort,
    audit_page,
    changes,
    chart_marks,
    cluster_status,
    matching,
    newest_action,
    operation_page,
    queue_rows,
    task_counts,
    task_detail,
    task_groups,
    task_page,
    task_statistics,
    tasks as search,
    usual_durations,
)
from horsies.views.cluster import exported
from horsies.views.searching import Source, Stretch, over
from horsies.views.statistics import _NEWEST_OF_EACH, _TASKS, MOST_OF_A_NAME
from horsies.views.tasks import TASKS

# One in fifty failed, one in twenty has a random id as upstream makes them; a tenth of the waiting ones is new.
FILL = f"""
SET session_replication_role = replica; -- nobody listens to 240 000 notifications
INSERT INTO horsies_tasks (id, task_name, queue_name, priority, args, status, claimed_by_worker_id, claimed_at,
                           created_at, sent_at, enqueued_at, started_at, completed_at, failed_at, error_code)
SELECT CASE WHEN n % 20 = 0 THEN gen_random_uuid() ELSE {uuid7("at")} END, 'shop.task_' || n % 40, 'q' || n % 6,
       1 + n % 10, '[' || n || ',"order"]', status, 'web-' || n % 500, at, at, at, at, at + interval '1 s',
       CASE status WHEN 'COMPLETED' THEN at + interval '3 s' END,
       CASE WHEN status IN ('FAILED', 'EXPIRED') THEN at + interval '3 s' END,
       CASE status WHEN 'FAILED' THEN 'CODE_' || n % 7 END
  FROM generate_series(200000, 1, -1) n
 CROSS JOIN LATERAL (SELECT now() - n * interval '10 s' AS at,
                            CASE WHEN n % 50 = 0 THEN 'FAILED' WHEN n % 501 = 0 THEN 'EXPIRED'
                                 WHEN n % 503 = 0 THEN 'CANCELLED' ELSE 'COMPLETED' END AS status) row;
INSERT INTO horsies_tasks (id, task_name, queue_name, priority, status, created_at, enqueued_at, next_retry_at)
SELECT {uuid7()}, 'shop.task_' || n % 40, 'q' || n % 6, 1 + n % 10, 'PENDING', at, at,
       CASE WHEN n % 10 = 1 THEN now() + interval '1 h' END
  FROM generate_series(1, 40000) n
 CROSS JOIN LATERAL (SELECT now() - CASE WHEN n % 10 = 0 THEN n * interval '1 ms' ELSE interval '30 d' END AS at) row;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed, claimed_by_worker_id, claimed_at, started_at)
SELECT {uuid7()}, 'shop.task_' || n % 40, 'q' || n % 6, status, status = 'CLAIMED', 'web-' || n % 500, now(),
       CASE status WHEN 'RUNNING' THEN now() END
  FROM generate_series(1, 2000) n
 CROSS JOIN LATERAL (SELECT (ARRAY['CLAIMED', 'RUNNING'])[1 + n / 500 % 2] AS status) row;
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
SELECT id, claimed_by_worker_id, CASE status WHEN 'RUNNING' THEN 'runner' ELSE 'claimer' END,
       now() + k * interval '30 s'
  FROM horsies_tasks CROSS JOIN generate_series(0, 20) k WHERE status IN ('RUNNING', 'CLAIMED');
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)
SELECT id, 1, 'FAILED', started_at, failed_at FROM horsies_tasks WHERE status = 'FAILED';
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, worker_started_at)
SELECT 'web-' || w, now() - n * interval '5 s', 'host', 1, 8, 8, 8, '{{q0,q1,q2}}', now()
  FROM generate_series(0, 499) w CROSS JOIN generate_series(1, 120) n;
SET session_replication_role = replica;
INSERT INTO horsies_operator_actions (operation_id, acted_at, verb, target_kind, target_id, outcome)
SELECT CASE WHEN n % 4 = 0 THEN '00000000-0000-0000-0000-000000000001' ELSE gen_random_uuid() END,
       now() - n * interval '1 s', 'fail', 'task', 't-' || n % 1000, 'applied' FROM generate_series(1, 40000) n;
RESET session_replication_role;
"""

FILTERS = (
    "", "status:failed", "status:cancelled,expired", "status:completed", "status:running", "status:pending",
    "status:live", "status:retry", "status:interrupted", "error:CODE_3", "error:NONE", "error:CODE_*", "has:error",
    "name:shop.task_3", "name:none", "name:*_39", "queue:q1", "queue:none", "worker:web-7", "worker:none",
    "id:00000000-0000-0000-0000-000000000000", "id:ffff", "args:nowhere", "since:1h", "since:1h name:none",
    "until:20d name:none", "workflow:0000beef-0000-7000-8000-000000000001", "workflow:beef", "workflow:yes",
    "tries:>3", "wait:>100d", "run:>100d", "unique:none", "has:rerun", "none",
    "status:pending name:none", "status:failed queue:none",
)  # fmt: skip

MOST = 85_000
"""A page reads 20,000 entries for its edge, the rows up to there, and for each perhaps a node of a workflow."""


@pytest.mark.parametrize("sort", Sort)
async def test_a_page_is_bounded_whatever_the_filter_and_wherever_it_begins(
    full: asyncpg.Connection, sort: Sort
) -> None:
    middle = Cursor(await full.fetchval("SELECT now() - interval '12 d'"), "8", 5)
    for text in FILTERS if sort is Sort.NEWEST else FILTERS[::3]:
        for after, backwards in ((None, False), (middle, False), (middle, True)):

            async def page() -> None:
                await task_page(full, wanted(text), sort=sort, after=after, backwards=backwards)  # noqa: B023

            whole, entries = await cost(full, page)
            assert whole == 0, f"{text!r} {after} {backwards}"
            assert entries < MOST, f"{text!r} {after} {backwards}: {entries} entries"


@pytest.mark.parametrize("sort", Sort)
async def test_a_page_without_a_filter_reads_little_more_than_it_shows(full: asyncpg.Connection, sort: Sort) -> None:
    whole, entries = await cost(full, lambda: task_page(full, wanted(""), sort=sort, limit=50))
    assert whole == 0
    assert entries < {Sort.RUNNING: 2_500, Sort.WAITING: 500}.get(sort, 250)


async def test_rare_matches_are_found_one_stretch_after_the_other(full: asyncpg.Connection) -> None:
    await full.execute(
        "UPDATE horsies_tasks SET claimed_by_worker_id = 'rare' WHERE args IN ('[199999,\"order\"]', '[5,\"order\"]')"
    )
    page = await task_page(full, wanted("worker:rare"))
    assert len(page.rows) == 1
    assert page.reached is not None
    assert page.next == page.reached
    assert page.rows[0].created_at > page.reached.time
    expected = [row["id"] for row in await full.fetch(
        "SELECT id FROM horsies_tasks WHERE claimed_by_worker_id = 'rare' ORDER BY created_at DESC"
    )]  # fmt: skip
    assert len(expected) == 2
    assert await every_id(full, "worker:rare") == expected
    assert await every_id(full, "worker:rare", sort=Sort.OLDEST) == expected[::-1]
    assert await every_id(full, "worker:rare", sort=Sort.FINISHED) == expected
    assert [seen.task_id for seen in await matching(full, wanted("worker:rare"), 10)] == expected


async def test_waiting_tasks_are_found_in_their_order_across_stretches(full: asyncpg.Connection) -> None:
    rows = await full.fetch(
        "SELECT id FROM horsies_tasks WHERE status = 'PENDING' AND task_name = 'shop.task_3'"
        " ORDER BY priority, enqueued_at, id"
    )
    assert await every_id(full, "name:shop.task_3", sort=Sort.WAITING) == [row["id"] for row in rows]


@pytest.mark.parametrize("text", FILTERS)
async def test_counts_are_bounded(full: asyncpg.Connection, text: str) -> None:
    whole, entries = await cost(full, lambda: task_counts(full, wanted(text)))
    assert whole == 0
    assert entries < 2 * MOST


async def test_counts_are_exact_for_live_rows_and_a_minimum_for_ended_ones(full: asyncpg.Connection) -> None:
    counts = (await task_counts(full, wanted(""))).states
    expected = ["36000", "4000", "1000", "1000"]
    assert [str(counts[state]) for state in ("PENDING", "RETRY", "CLAIMED", "RUNNING")] == expected
    assert counts["COMPLETED"].at_least
    assert counts["FAILED"].at_least
    failed = (await task_counts(full, wanted("status:failed since:1d"))).states["FAILED"]
    assert (failed.number, failed.at_least) == (172, False)


@pytest.mark.parametrize("by", GROUPINGS)
async def test_groups_are_bounded(full: asyncpg.Connection, by: Any) -> None:
    for text in ("", "status:failed", "status:live", "name:none"):
        whole, entries = await cost(full, lambda: task_groups(full, wanted(text), by=by))  # noqa: B023
        assert whole == 0, text
        assert entries < MOST, text


async def test_usual_durations_read_the_newest_tasks_of_each_name_however_rare_it_is(full: asyncpg.Connection) -> None:
    await full.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, started_at, completed_at)"
        " SELECT 'rare' || n, 'shop.rare', 'q1', 'COMPLETED', at, at, at + interval '9 s'"
        "   FROM (SELECT n, now() - n * interval '2 h' AS at FROM generate_series(1, 5) n) rows"
    )
    names = ["shop.task_3", "shop.task_4", "shop.rare", "shop.none"]
    whole, entries = await cost(full, lambda: usual_durations(full, names))
    assert whole == 0
    assert entries < 3 * MOST_OF_A_NAME
    assert (await usual_durations(full, names))["shop.rare"].runs == 5


@pytest.mark.parametrize("text", ["", "queue:none", "name:shop.task_3", "status:failed error:CODE_3"])
async def test_statistics_read_a_bounded_number_of_tasks_however_long_the_window(
    full: asyncpg.Connection, text: str
) -> None:
    for window, most in ((timedelta(hours=1), 1_000), (timedelta(days=1), 10_000), (timedelta(days=40), 70_000)):
        whole, entries = await cost(full, lambda: task_statistics(full, wanted(text), window))  # noqa: B023
        assert whole == 0, text
        assert entries < most, f"{text!r} {window}: {entries} entries"


async def test_statistics_and_usual_durations_begin_at_the_newest_task_of_a_name_and_end_with_the_window(
    full: asyncpg.Connection,
) -> None:
    names = [f"shop.task_{number}" for number in range(40)]
    since = await full.fetchval("SELECT now() - interval '1 h'")
    whole = Stretch(_NEWEST_OF_EACH, ascending=False, after=None, edge=None, most=1_000)
    query, values = over(
        _TASKS, wanted(""), whole, statement("view_task_statistics"), names, since, since + timedelta(hours=1), 1_000
    )
    usual = statement("view_usual_durations")
    for text, given in ((query, values), (usual, [names, timedelta(hours=1), 1_000])):
        plan = json.loads(await full.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", *given))[0]["Plan"]
        steps = [step for step in nodes(plan) if step.get("Relation Name") == "horsies_tasks"]
        assert {step.get("Index Name") for step in steps} == {"ix_horsies_tasks_finished_by_name"}
        # Entries that are passed over count as read nowhere, only their pages: the index has 1,500.
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 900


async def test_a_detail_reads_only_rows_of_its_task(full: asyncpg.Connection) -> None:
    for status in ("RUNNING", "FAILED", "PENDING"):
        task_id = await full.fetchval("SELECT id FROM horsies_tasks WHERE status = $1 LIMIT 1", status)
        assert await task_detail(full, task_id) is not None
        whole, entries = await cost(full, lambda: task_detail(full, task_id))  # noqa: B023
        assert whole == 0, status
        assert entries < 300, status


async def test_a_beginning_is_found_by_the_primary_key_and_an_end_in_an_index(full: asyncpg.Connection) -> None:
    await full.execute("PREPARE finding AS " + statement("view_find_id", table="horsies_tasks"))
    plan = await full.fetchval("EXPLAIN (FORMAT JSON) EXECUTE finding ('019a', 11, 1000000)")
    steps = list(nodes(json.loads(plan)[0]["Plan"]))
    read = {step["Index Name"]: step["Node Type"] for step in steps if "Index Name" in step}
    assert set(read) == {"horsies_tasks_pkey", "ix_horsies_tasks_created"}
    assert read["ix_horsies_tasks_created"] == "Index Only Scan"


async def test_queues_and_status_are_bounded(full: asyncpg.Connection) -> None:
    for read in (lambda: queue_rows(full), lambda: cluster_status(full), lambda: exported(full)):
        whole, entries = await cost(full, read)
        assert whole == 0
        assert entries < MOST


async def test_the_marks_of_a_chart_are_probes(full: asyncpg.Connection) -> None:
    day = Buckets.until(await full.fetchval("SELECT now()"), timedelta(days=1), timedelta(minutes=15))
    whole, entries = await cost(full, lambda: chart_marks(full, day))
    assert (whole, entries < 10_000) == (0, True), entries  # 500 workers are hopped over, as on their screen


async def test_a_page_of_the_audit_trail_is_bounded(full: asyncpg.Connection) -> None:
    whole, entries = await cost(full, lambda: audit_page(full))
    assert (whole, entries < 300) == (0, True)
    whole, entries = await cost(full, lambda: audit_page(full, target=("task", "t-7")))
    assert (whole, entries < 300) == (0, True)
    operation = await full.fetchval("SELECT operation_id FROM horsies_operator_actions WHERE target_id = 't-4' LIMIT 1")
    whole, entries = await cost(full, lambda: audit_page(full, operation_id=operation))
    assert (whole, entries < 20_000) == (0, True)


@pytest.mark.parametrize("text", ["", "by:ops", "verb:none", "kind:queue", "none", "since:1h", "until:6h -verb:fail"])
async def test_a_page_of_operations_and_of_changes_is_bounded_whatever_the_filter(
    full: asyncpg.Connection, text: str
) -> None:
    asked = parse_activity(text)
    whole, entries = await cost(full, lambda: operation_page(full, asked, count_up_to=1_000))
    assert (whole, entries < 10_000) == (0, True), entries
    whole, entries = await cost(full, lambda: changes(full, asked))
    assert (whole, entries < 10_000) == (0, True), entries
    whole, entries = await cost(full, lambda: newest_action(full))
    assert (whole, entries < 20) == (0, True), entries


# The index of each source, with the later steps of its order: a source read in order may only sort ties.
INDEX_OF = {
    search.CREATED: "ix_horsies_tasks_created",
    search.UNSUCCESSFUL: "ix_horsies_tasks_unsuccessful_created",
    search.FINISHED: "ix_horsies_tasks_finished",
    search.FINISHED_UNSUCCESSFUL: "ix_horsies_tasks_unsuccessful",
    search.WAITING: "ix_horsies_tasks_ready",
    search.RUNNING: "ix_horsies_tasks_in_flight",
}


@pytest.mark.parametrize("source", INDEX_OF, ids=lambda source: source.name)
@pytest.mark.parametrize("ascending", [True, False])
async def test_each_source_is_read_along_its_index_in_either_direction(
    full: asyncpg.Connection, source: Source, ascending: bool
) -> None:
    parameters = wanted("status:failed" if source is search.FINISHED_UNSUCCESSFUL else "")
    stretch = Stretch(source, ascending, None, None, 101)
    query, values = over(TASKS, parameters, stretch, statement("view_task_page"), 101)
    plan = json.loads(await full.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", *values))
    steps = [step for step in nodes(plan[0]["Plan"]) if step.get("Relation Name") == "horsies_tasks"]
    assert {step.get("Index Name", INDEX_OF[source]) for step in steps} == {INDEX_OF[source]}
    assert "Seq Scan" not in {step["Node Type"] for step in steps}
    if source not in (search.RUNNING, search.WAITING):
        assert sum(step["Actual Rows"] * step["Actual Loops"] for step in steps) < 300


@pytest.mark.parametrize("text", ["workflow:beef", "-workflow:beef"])
async def test_the_nodes_of_a_task_are_looked_up_and_not_all_nodes_joined(full: asyncpg.Connection, text: str) -> None:
    stretch = Stretch(search.CREATED, False, None, None, 10_000)
    query, values = over(TASKS, wanted(text), stretch, statement("view_task_counts"))
    plan = json.loads(await full.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *values))
    joins = {step.get("Join Type") for step in nodes(plan[0]["Plan"])}
    assert not joins & {"Semi", "Anti", "Right Semi", "Right Anti"}
