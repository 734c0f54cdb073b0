"""Random workflows end as a pure model predicts, and all that judge a join agree on every row."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from datetime import timedelta
from random import Random

import asyncpg
import hypothesis.strategies as st
import pytest
from advance_steps import grow
from family_audit import EMPTY, LOG, check_nothing_is_left, read
from hypothesis import HealthCheck, given, note, settings
from lifecycle_steps import HOT_PATH, claim_tokens, enqueue, start_tokens, statuses, waits_for_a_lock
from statements import statement
from workflow_audit import Verdict
from workflow_crew import UPSETS, Crew
from workflow_model import Act, Flow, Step, flows, layers
from workflow_plans import node

from horsies.lifecycle.controlling import pause, resume
from horsies.lifecycle.reconciling import stuck_workflows
from horsies.lifecycle.repairs import DamagedWorkflowError, repairs_of
from horsies.lifecycle.workflow_rows import FamilyWorkflowRow, NodeRow, read_flows, read_nodes

SETTINGS = settings(suppress_health_check=list(HealthCheck), database=None)


async def drama(connections: Sequence[asyncpg.Connection], flow: Flow, seed: int, upsets: frozenset[str]) -> None:
    """Everything in it depends on the seed, except the order of concurrent steps."""
    rng = Random(seed)
    conn = connections[-1]
    await conn.execute(EMPTY)
    crew = Crew(rng, connections, upsets)
    root = await crew.create_workflow(flow)
    await crew.play(rng.randint(10, 40))
    repairs = await crew.rest(resuming=False)
    (await read(conn, crew.ledger)).check_rest(resumed=False)
    await check_nothing_is_left(conn)
    repairs += await crew.rest(resuming=True)
    await crew.retry_all(root)
    repairs += await crew.rest(resuming=True)
    family = await read(conn, crew.ledger)
    family.check_rest(resumed=True)
    Verdict(family).check_model(flow, root)
    await check_nothing_is_left(conn)
    if not crew.ledger.killed:
        assert repairs == 0, "without a death there is nothing to repair"


def perform(
    database: str, how: settings, plots: st.SearchStrategy[Flow], upsets: st.SearchStrategy[frozenset[str]]
) -> None:
    async def open_all() -> list[asyncpg.Connection]:
        opened = [await asyncpg.connect(database, server_settings=HOT_PATH) for _ in range(4)]
        await opened[0].execute(LOG)
        return opened

    with asyncio.Runner() as runner:
        connections = runner.run(open_all())

        @how
        @given(flow=plots, seed=st.integers(0, 2**32), upsets=upsets)
        def play(flow: Flow, seed: int, upsets: frozenset[str]) -> None:
            note(f"drama({flow!r}, {seed}, {set(upsets)})")
            runner.run(drama(connections, flow, seed, upsets))

        try:
            play()
        finally:
            for connection in connections:
                runner.run(connection.close())


def some_upsets(seed: int) -> frozenset[str]:
    """About half of them: half of the sets that hypothesis draws are empty."""
    rng = Random(seed)
    return frozenset(upset for upset in UPSETS if rng.random() < 0.5)


DEFAULT = settings(SETTINGS, max_examples=30, derandomize=True)
THOUSANDS = settings(SETTINGS, max_examples=2_000, print_blob=True)
ANY = st.integers(0, 2**32).map(some_upsets)
AT_ONCE = st.just(frozenset({"together"}))

PARCEL = Flow((Step(Act.FLAKY), Step(Act.HEAL, (0,), given=(0,))), pauses=True)
KNOWN = st.sampled_from(
    [
        Flow((Step(), Step(), Step(deps=(0, 1), join="any", context=(0, 1)))),
        Flow((Step(), Step(Act.FAIL), Step(), Step(deps=(0, 1, 2), join="quorum", needs=2, context=(2,)))),
        Flow((Step(child=PARCEL), Step(child=Flow((Step(child=PARCEL),))), Step(deps=(0, 1), given=(0, 1)))),
        Flow((Step(Act.LIST), Step(Act.HEAL, (0,)), Step(deps=(0, 1), over=0), Step(deps=(2,), given=(2,)))),
        Flow((Step(items=(1, 2, -1)), Step(deps=(0,)), Step(deps=(0, 1), forgiving=True, context=(0, 1)))),
    ]
)


@pytest.mark.parametrize("how", [DEFAULT, pytest.param(THOUSANDS, marks=pytest.mark.chaos)])
def test_every_workflow_ends_as_the_model_foresees_with_crashes_and_operations(database: str, how: settings) -> None:
    perform(database, how, flows(), ANY)


@pytest.mark.chaos  # two seconds of processor time
def test_the_shapes_that_random_ones_seldom_have_end_as_foreseen_too(database: str) -> None:
    perform(database, settings(DEFAULT, max_examples=25), KNOWN, ANY)


@pytest.mark.parametrize(
    "how",
    [settings(DEFAULT, max_examples=20), pytest.param(settings(THOUSANDS, max_examples=500), marks=pytest.mark.chaos)],
)
def test_workers_that_advance_one_workflow_at_the_same_moment_leave_nothing_to_repair(
    database: str, how: settings
) -> None:
    perform(database, how, layers(), AT_ONCE)


async def test_a_task_that_a_resume_overtakes_between_two_steps_of_its_start_goes_back_into_the_queue(
    connection: asyncpg.Connection, database: str
) -> None:
    """Found by the test above: the task stayed CLAIMED without an owner, because the second step checked whether the
    workflow is paused *now*.

    The start waits between its steps as long as another session holds the other task, which is too long.
    """
    workflow_id = await grow(connection, node(0))
    await enqueue(connection, "late")
    tokens = await claim_tokens(connection)
    await pause(connection, workflow_id)
    await connection.execute("UPDATE horsies_tasks SET good_until = now() WHERE id = 'late'")
    operator, observer = await asyncpg.connect(database), await asyncpg.connect(database)
    async with operator.transaction():
        await operator.execute("SELECT FROM horsies_tasks WHERE id = 'late' FOR UPDATE")
        starting = await waits_for_a_lock(observer, connection, start_tokens(connection, tokens))
        assert await resume(observer, workflow_id)
    verdicts = await starting
    assert {token.task_id for token in verdicts.expired} == {"late"}
    assert len(verdicts.paused) == 1
    assert await statuses(connection) == {"late": "EXPIRED"} | {token.task_id: "PENDING" for token in verdicts.paused}
    await operator.close()
    await observer.close()


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
