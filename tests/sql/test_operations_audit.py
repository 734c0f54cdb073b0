"""Every operator change has exactly one audit row, and no audit row is without its change."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import asyncpg
import pytest
from database_server import url_with
from lifecycle_steps import ME, attempts, claim_tokens, ended, enqueue, start_tokens
from operation_steps import GIVEN, look_back

from horsies.domain.states import TASK_TRANSITIONS, Mover
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verb import OperationOutcome, Preview
from horsies.operations.verbs import VERBS, verbs_for

# What the operators' sessions write, by transaction: an update that changes only updated_at counts as well.
LOG = """
CREATE TABLE written (pid integer, xid xid8, task_id text, source text, target text);
CREATE TABLE traced (xid xid8, action bigint);
CREATE FUNCTION log_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO written VALUES (pg_backend_pid(), pg_current_xact_id(), NEW.id, OLD.status, NEW.status);
    RETURN NULL;
END $$;
CREATE FUNCTION log_action() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO traced VALUES (pg_current_xact_id(), NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER log_task AFTER INSERT OR UPDATE ON horsies_tasks FOR EACH ROW EXECUTE FUNCTION log_task();
CREATE TRIGGER log_action AFTER INSERT ON horsies_operator_actions FOR EACH ROW EXECUTE FUNCTION log_action();
"""


class Scene:
    """Workers and two operators act on the same tasks; the operators use previews that may be outdated."""

    def __init__(self, seed: int, workers: asyncpg.Connection, operators: list[asyncpg.Connection]) -> None:
        self.random = random.Random(seed)
        self.workers = workers
        self.operators = operators
        self.previews: list[Preview] = []
        self.outcomes: list[OperationOutcome] = []
        self.tokens: list[Any] = []
        self.count = 0

    async def work(self) -> None:
        match self.random.randrange(4):
            case 0:
                key = self.random.choice(["NULL", "NULL", "'k1'", "'k2'"])
                due = self.random.choice(["now()", "now()", "now() + interval '1 h'"])
                until = self.random.choice(["NULL", "NULL", "now() - interval '1 s'", "now() + interval '1 h'"])
                self.count += 1
                await self._send(f"t{self.count:03}", key, due, until)
            case 1:
                self.tokens += await claim_tokens(self.workers)
            case 2:
                await start_tokens(self.workers, self.tokens[-5:])
            case _:
                kinds = [OutcomeKind.COMPLETED, OutcomeKind.FAILED, OutcomeKind.RETRY]
                some = self.random.sample(self.tokens, min(3, len(self.tokens)))
                # One task at a time: some of the tokens are older ones of the same task.
                for token in some:
                    await finish(self.workers, ME, [ended(token, self.random.choice(kinds))])

    async def _send(self, name: str, key: str, due: str, until: str) -> None:
        taken = await self.workers.fetchval(
            f"SELECT EXISTS (SELECT FROM horsies_tasks WHERE unique_key = {key}"
            " AND status IN ('PENDING', 'CLAIMED', 'RUNNING'))"
        )
        if not taken:
            await enqueue(self.workers, name, unique_key=key, enqueued_at=due, good_until=until, max_retries="2")

    async def look(self) -> None:
        ids = [row["id"] for row in await self.workers.fetch("SELECT id FROM horsies_tasks ORDER BY id")]
        chosen = Selection.of_ids(self.random.sample(ids, min(len(ids), 6)))
        verb = self.random.choice(verbs_for("task"))
        self.previews.append(await preview(self.workers, verb, chosen, **GIVEN.get(verb.name, {})))

    async def operate(self) -> None:
        """Both operators at once; one in four times to undo something."""
        self.outcomes += await asyncio.gather(*(self._operate(session) for session in self.operators))

    async def _operate(self, session: asyncpg.Connection) -> OperationOutcome:
        actor = Actor("ops", str(session.get_server_pid()))
        past = [outcome for outcome in self.outcomes if outcome.applied]
        if past and self.random.random() < 0.25:
            seen = await look_back(session, self.random.choice(past).operation_id)
            return await apply(session, seen, actor, None, batch=2)
        return await apply(session, self.random.choice(self.previews[-4:]), actor, None, batch=2)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(2, 12))])
async def test_changes_by_hand_and_audit_rows_are_one_to_one(
    connection: asyncpg.Connection, database: str, seed: int
) -> None:
    await connection.execute(LOG)
    operators = [await asyncpg.connect(database) for _ in range(2)]
    scene = Scene(seed, connection, operators)
    for _ in range(60):
        await scene.work()
        await scene.work()
        await scene.look()
        await scene.operate()
    pids = [session.get_server_pid() for session in operators]
    for session in operators:
        await session.close()

    written = await connection.fetch(
        "SELECT xid::text, task_id, source, target FROM written WHERE pid = ANY ($1)", pids
    )
    applied = await connection.fetch(
        "SELECT traced.xid::text, target_id, after_state FROM horsies_operator_actions action"
        " JOIN traced ON traced.action = action.id WHERE outcome = 'applied'"
    )
    changes = Counter((row["xid"], row["task_id"], row["target"]) for row in written)
    traces = Counter((row["xid"], *_changed(row["target_id"], json.loads(row["after_state"]))) for row in applied)
    assert changes == traces
    assert set(changes.values()) == {1}
    assert len(changes) > 30

    told = Counter((str(outcome.operation_id), row.applied) for outcome in scene.outcomes for row in outcome.rows)
    rows = await connection.fetch("SELECT operation_id::text, outcome = 'applied' FROM horsies_operator_actions")
    assert Counter(map(tuple, rows)) == told
    assert {applied for _, applied in told} == {True, False}

    allowed = {
        (arrow.source and arrow.source.value, arrow.target.value)
        for arrow in TASK_TRANSITIONS
        if Mover.OPERATOR in arrow.who
    }
    assert {(row["source"], row["target"]) for row in written} <= allowed
    for (name,) in await connection.fetch("SELECT id FROM horsies_tasks"):
        numbers = [attempt["attempt"] for attempt in await attempts(connection, name)]
        assert numbers == list(range(1, len(numbers) + 1))


def _changed(target: str, after: dict[str, Any]) -> tuple[str, str]:
    """The row that was written; for a rerun the copy."""
    return (after["new_task_id"], "PENDING") if "new_task_id" in after else (target, after["status"])


async def test_who_acted_and_when_is_what_the_server_says(
    connection: asyncpg.Connection, database: str, role: str
) -> None:
    await connection.execute(
        f"GRANT INSERT, SELECT, UPDATE ON horsies_operator_actions TO {role}; CREATE ROLE {role}_x"
    )
    other = await asyncpg.connect(url_with(database, role=role))
    try:
        await connection.execute(f"GRANT {role}_x TO {role}; GRANT ALL ON horsies_operator_actions TO {role}_x")
        await other.execute(f"SET ROLE {role}_x")
        (number,) = await other.fetchrow(
            "INSERT INTO horsies_operator_actions"
            " (acted_at, db_role, operation_id, verb, target_kind, target_id, outcome, os_user)"
            " VALUES ('2020-01-01', 'postgres', gen_random_uuid(), 'fail', 'task', 't', 'applied', 'ada')"
            " RETURNING id"
        )
        await other.execute("UPDATE horsies_operator_actions SET acted_at = '2020-01-01', db_role = 'postgres'")
        row = await connection.fetchrow(
            "SELECT acted_at > now() - interval '1 min', db_role, os_user FROM horsies_operator_actions WHERE id = $1",
            number,
        )
        assert tuple(row) == (True, role, "ada")
    finally:
        await other.close()
        await connection.execute(f"DROP OWNED BY {role}_x; DROP ROLE {role}_x")


async def test_an_operation_whose_audit_cannot_be_written_changes_nothing(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b")
    await connection.execute("ALTER TABLE horsies_operator_actions ADD CHECK (target_id <> 'b')")
    seen = await preview(connection, VERBS["task", "cancel"], Selection.of_ids(["a", "b"]))
    outcome = await apply(connection, seen, Actor("ops", "bastion"), None)
    assert [row.target.id for row in outcome.refused] == ["b"]
    statuses = dict(await connection.fetch("SELECT id, status FROM horsies_tasks"))
    assert statuses == {"a": "CANCELLED", "b": "PENDING"}
