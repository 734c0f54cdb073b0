"""A node's join has one rule: the advance, the repair, the sweep's scan and the recovery report agree on every row."""

from __future__ import annotations

import itertools
from datetime import timedelta

import asyncpg
from statements import statement

from horsies.lifecycle.reconciling import stuck_workflows
from horsies.lifecycle.repairs import DamagedWorkflowError, repairs_of
from horsies.lifecycle.workflow_rows import FamilyWorkflowRow, NodeRow, read_flows, read_nodes

JOINS = (("all", None), ("any", None), ("most", None), *(("quorum", least) for least in (None, 0, 1, 2, 3)))
STATES = ("RUNNING", "COMPLETED", "FAILED", "SKIPPED")

# One workflow for each case: a node with the join and up to two nodes on which it depends.
PLANT = """
WITH flow AS (
    INSERT INTO horsies_workflows (id, name, status)
    SELECT 'w' || number, 'case', 'RUNNING' FROM generate_subscripts($1::text[], 1) AS number
    RETURNING id
)
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id, dependencies, join_type,
                                    min_success, allow_failed_deps, node_id, workflow_ctx_from)
SELECT flow || '-' || index, flow, index, 'demo.add', status, CASE WHEN status = 'RUNNING' THEN 'runs' END,
       string_to_array(dependencies, ',')::integer[], join_type, min_success, allowed, index::text,
       CASE WHEN context THEN string_to_array(dependencies, ',') END
  FROM unnest($2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::boolean[],
              $9::boolean[])
       AS given (flow, index, status, dependencies, join_type, min_success, allowed, context)
"""


def expected(join: str, least: int | None, states: tuple[str, ...], *, allowed: bool, context: bool) -> str | None:
    """READY, SKIPPED, PENDING, or None if nothing can be said of such a row. A context needs all of its nodes."""
    if join not in ("all", "any", "quorum") or (join == "quorum" and least is None):
        return None
    if not states:
        return "READY"
    completed, running = states.count("COMPLETED"), states.count("RUNNING")
    if join == "all":
        good = allowed or completed == len(states)
        return "PENDING" if running else "READY" if good else "SKIPPED"
    needed = 1 if join == "any" else least or 0
    met = "PENDING" if context and running else "READY"
    return met if completed >= needed else "PENDING" if completed + running >= needed else "SKIPPED"


def repaired(flow: FamilyWorkflowRow, nodes: list[NodeRow]) -> str | None:
    """What the repair makes of the last node."""
    try:
        repairs = {one.index: one.after for one in repairs_of(flow, nodes, timedelta())}
    except DamagedWorkflowError:
        return None
    after = repairs.get(nodes[-1].index, "PENDING")
    return "READY" if after == "ENQUEUED" else after


async def test_all_that_judge_a_join_come_to_the_same_verdict(connection: asyncpg.Connection) -> None:
    cases = [
        (join, least, states, allowed, context)
        for join, least in JOINS
        for count in range(3)
        for states in itertools.product(STATES, repeat=count)
        for allowed, context in itertools.product((False, True), repeat=2)
    ]
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status)"
        " VALUES ('runs', 'demo.add', 'default', 'RUNNING')"
    )
    nodes = [
        (f"w{number}", index, status, dependencies, join, least, allowed, context)
        for number, (of_last, needs, states, may_fail, takes_context) in enumerate(cases, 1)
        for index, status, dependencies, join, least, allowed, context in (
            *((index, state, "", "all", None, False, False) for index, state in enumerate(states)),
            (len(states), "PENDING", ",".join(map(str, range(len(states)))), of_last, needs, may_fail, takes_context),
        )
    ]
    await connection.execute(PLANT, [""] * len(cases), *map(list, zip(*nodes, strict=True)))
    ids = [f"w{number}" for number in range(1, len(cases) + 1)]
    verdicts = dict(zip(ids, (expected(*case[:3], allowed=case[3], context=case[4]) for case in cases), strict=True))
    damaged = {name for name, verdict in verdicts.items() if verdict is None}
    assert set(verdicts.values()) == {"READY", "SKIPPED", "PENDING", None}

    rows = await connection.fetch(statement("damaged_workflows"), 10_000)
    assert {row["ids"][0] for row in rows} == damaged
    found, last = set(), ""
    while page := await stuck_workflows(connection, 0, 500, after=last):
        found, last = found | set(page), page[-1]
    assert found - damaged == {name for name, verdict in verdicts.items() if verdict in ("READY", "SKIPPED")}

    flows, by_flow = await read_flows(connection, ids), await read_nodes(connection, ids)
    for name, verdict in verdicts.items():
        assert repaired(flows[name], by_flow[name]) == verdict, cases[ids.index(name)]

    await connection.fetch(statement("advance_wave"), ids, [None] * len(ids))
    after = await connection.fetch(
        "SELECT DISTINCT ON (workflow_id) workflow_id, status FROM horsies_workflow_tasks"
        " ORDER BY workflow_id, task_index DESC"
    )
    assert dict(map(tuple, after)) == {name: verdict or "PENDING" for name, verdict in verdicts.items()}
