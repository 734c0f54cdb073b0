"""Three workers, an operator and the clock write at random; after each step the tables are as the model says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from lifecycle_model import CAP, CAPPED, CLUSTER_CAP, PLAIN, K, Model, Row, S
from lifecycle_steps import LANE, start_tokens

from horsies.domain.states import TASK_TERMINAL_STATES, TASK_TRANSITIONS, TaskAttemptOutcome, TaskStatus
from horsies.lifecycle.claiming import claim, claim_capped, claim_expired, release
from horsies.lifecycle.finishing import Outcome, OutcomeKind, finish, mark_finalizing
from horsies.lifecycle.leases import beat, renew
from horsies.lifecycle.tokens import Token, Verdict

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from horsies.store.embedded import EmbeddedServer

WORKERS = ("worker-a", "worker-b", "worker-c")
HOUR_MS = 3_600_000
ALLOWED = {(arrow.source, arrow.target) for arrow in TASK_TRANSITIONS}

LOG = """
CREATE TABLE transitions (task_id text, source text, target text);
CREATE FUNCTION log_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO transitions VALUES (NEW.id, OLD.status, NEW.status);
    RETURN NULL;
END $$;
CREATE TRIGGER log_transition AFTER UPDATE ON horsies_tasks FOR EACH ROW
    WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION log_transition();
"""

EMPTY = """
DELETE FROM horsies_tasks; DELETE FROM horsies_heartbeats; DELETE FROM horsies_queue_state; DELETE FROM transitions
"""

EXPIRE = (
    "UPDATE horsies_tasks SET status = 'EXPIRED', failed_at = now() WHERE status = 'PENDING' AND good_until < now()"
)

ENQUEUE = """
INSERT INTO horsies_tasks (id, task_name, queue_name, priority, enqueued_at, good_until, max_retries)
VALUES ($1, 'demo.add', $2, $3, clock_timestamp() + $4 * interval '1 h', clock_timestamp() + $5 * interval '1 h', $6)
"""

PAUSE = """
INSERT INTO horsies_queue_state (queue_name, paused_at) VALUES ($1, now()) ON CONFLICT (queue_name) DO NOTHING
"""

REQUEUE = """
WITH task AS (
    UPDATE horsies_tasks
       SET status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL,
           claim_expires_at = NULL, started_at = NULL, completed_at = NULL, failed_at = NULL, result = NULL,
           error_code = NULL, good_until = NULL, enqueued_at = clock_timestamp(), next_retry_at = NULL,
           retry_count = $3, max_retries = $4
     WHERE id = $1
)
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code)
SELECT $1, $3, 'WORKER_FAILURE', true, now(), now(), 'OPERATOR_REQUEUED' WHERE $2
"""

CLAIMS = ("claim next", "claim capped", "claim expired")
VERBS = (*CLAIMS, "start", "start", "finish", "finish", "release", "beat and renew")

numbers = st.integers(0, 40)
mostly = st.sampled_from([True, True, True, False])


class Lifecycle(RuleBasedStateMachine):
    """Any token that was ever issued may be used at any time, by the worker that got it."""

    def __init__(self, runner: asyncio.Runner, connections: dict[str, asyncpg.Connection]) -> None:
        super().__init__()
        self._runner = runner
        self._connections = connections
        self._god = connections["god"]
        self._model = Model(place=lambda task_id: self._places[task_id])
        self._places: dict[str, Any] = {}
        self._issued: list[Token] = []
        self._ledger: set[Token] = set()
        self._beats = 0
        self._do(self._god.execute(EMPTY))

    def _do(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(step)

    def _row(self, number: int) -> Row:
        rows = list(self._model.rows.values())
        return rows[number % len(rows)]

    def _tokens(self, chosen: list[int], status: TaskStatus) -> Iterable[tuple[asyncpg.Connection, str, list[Token]]]:
        """Tokens for each worker that got some. Small numbers are drawn most, and those mean tasks in this status."""
        issued = sorted(self._issued, key=lambda token: not self._is(token, status))
        tokens = {issued[number % len(issued)]: None for number in chosen}
        for worker in WORKERS:
            own = [token for token in tokens if token.worker_id == worker]
            if own:
                yield self._connections[worker], worker, own

    def _is(self, token: Token, status: TaskStatus) -> bool:
        row = self._model.current(token)
        return row is not None and row.status is status

    def _execute(self, command: str, *arguments: object) -> None:
        self._do(self._god.execute(command, *arguments))

    def _change(self, row: Row, change: str) -> None:
        self._execute(f"UPDATE horsies_tasks SET {change} WHERE id = $1", row.id)

    @initialize()
    def begin(self) -> None:
        for number in range(8):
            queue = CAPPED if number % 3 == 0 else PLAIN
            self.enqueue(queue, 1, delayed=False, deadline=number % 2 == 1, budget=number % 3)

    @rule(
        queue=st.sampled_from([CAPPED, PLAIN]),
        priority=st.integers(1, 2),
        delayed=st.booleans(),
        deadline=st.booleans(),
        budget=st.integers(0, 2),
    )
    def enqueue(self, queue: str, priority: int, *, delayed: bool, deadline: bool, budget: int) -> None:
        task_id = f"task-{len(self._model.rows):03}"
        ahead = 1 if deadline else None
        self._execute(ENQUEUE, task_id, queue, priority, int(delayed), ahead, budget)
        self._model.rows[task_id] = Row(task_id, queue, not delayed, deadline, budget)

    @rule(
        verb=st.sampled_from(VERBS),
        worker=st.sampled_from(WORKERS),
        chosen=st.lists(numbers, min_size=1, max_size=4),
        kinds=st.lists(st.sampled_from(K), min_size=4, max_size=4),
        soon=mostly,
        leased=mostly,
    )
    def worker_acts(
        self, verb: str, worker: str, chosen: list[int], kinds: list[OutcomeKind], *, soon: bool, leased: bool
    ) -> None:
        """One rule for all: of several ones hypothesis leaves some out, and without one verb little else happens."""
        if verb in CLAIMS or not self._issued:
            self.claim(worker, verb, len(chosen), leased=leased)
        elif verb == "start":
            self.start(chosen)
        elif verb == "finish":
            self.finish(chosen, kinds, soon=soon)
        elif verb == "release":
            self.release(chosen)
        else:
            self.beat(chosen)
            self.renew(worker)

    def claim(self, worker: str, how: str, most: int, *, leased: bool) -> None:
        limits: dict[str, Any] = {"worker_id": worker, "lease_ms": leased * HOUR_MS, "task_names": None}
        conn, model = self._connections[worker], self._model
        if how == "claim capped":
            expected = model.under_caps(most)
            queues = [(CAPPED, CAP), (PLAIN, None)]
            step = claim_capped(conn, queues=queues, budget=most, cluster_cap=CLUSTER_CAP, hard=True, **limits)
        elif how == "claim expired":
            expected = model.expired(PLAIN)[:most]
            step = claim_expired(conn, queue=PLAIN, limit=most, **limits)
        else:
            expected = model.waiting(PLAIN)[:most]
            step = claim(conn, queue=PLAIN, limit=most, **limits)
        claimed = self._do(step)
        assert {task.token.task_id for task in claimed} == {row.id for row in expected}
        for task in claimed:
            row = model.rows[task.token.task_id]
            assert (task.retry_count, task.max_retries) == (row.retry_count, row.max_retries)
            assert row.token is None or task.token.claimed_at > row.token.claimed_at
            row.claim(task.token, leased)
            self._issued.append(task.token)

    def start(self, chosen: list[int]) -> None:
        for conn, worker, own in self._tokens(chosen, S.CLAIMED):
            verdicts = self._do(start_tokens(conn, own, worker))
            for token in own:
                row = self._model.current(token)
                expected = row.start() if row else "stale"
                assert (token in verdicts.started) is expected.startswith("started")
                assert (token in verdicts.expired) is (expected == "expired")
                assert (token in verdicts.stale) is (expected == "stale")
                if expected == "started":
                    assert token not in self._ledger, "I6: user code runs twice under one token"
                    self._ledger.add(token)

    def finish(self, chosen: list[int], kinds: list[OutcomeKind], *, soon: bool) -> None:
        """A retry that is not due soon is due after any deadline."""
        delay = 0.0 if soon else 7_200.0
        for conn, worker, own in self._tokens(chosen, S.RUNNING):
            kind_of = dict(zip(own, kinds, strict=False))
            outcomes = [Outcome(token, kind, "{}", "CODE", "text", None, delay) for token, kind in kind_of.items()]
            finished = self._do(finish(conn, worker, outcomes))
            assert finished.keys() == set(own)
            for token in own:
                row = self._model.current(token)
                expected = row.finish(kind_of[token], soon=soon) if row else None
                assert finished[token].status is expected
                assert (finished[token].verdict is Verdict.STALE) is (expected is None)
                assert (finished[token].due is not None) is (expected is S.PENDING)

    def release(self, chosen: list[int]) -> None:
        for conn, worker, own in self._tokens(chosen, S.CLAIMED):
            claimed = {token for token in own if self._is(token, S.CLAIMED)}
            assert self._do(release(conn, worker, own)) == claimed
            for token in claimed:
                self._model.rows[token.task_id].wait()

    def beat(self, chosen: list[int]) -> None:
        for conn, worker, own in self._tokens(chosen, S.RUNNING):
            running = {token for token in own if self._is(token, S.RUNNING)}
            assert self._do(beat(conn, worker, "host", [(token, 1) for token in own])) == set(own) - running
            assert self._do(mark_finalizing(conn, worker, own)) == set(own) - running
            self._beats += len(running)

    def renew(self, worker: str) -> None:
        tokens = [row.token for row in self._model.rows.values() if row.status is S.CLAIMED and row.token]
        mine = {token for token in tokens if token.worker_id == worker}
        conn = self._connections[worker]
        assert self._do(renew(conn, worker, HOUR_MS, HOUR_MS, hostname="host", pid=1)) == mine
        self._beats += len(mine)

    @rule(number=numbers, what=st.sampled_from(["lease", "delay", "deadline", "sweep"]))
    def time_passes(self, number: int, what: str) -> None:
        row = self._row(number)
        if what == "lease" and row.status is S.CLAIMED:
            row.lease_runs = False
            self._change(row, "claim_expires_at = clock_timestamp() - interval '1 s'")
        elif what == "delay" and row.status is S.PENDING and not row.due:
            row.due = True
            self._change(row, "enqueued_at = clock_timestamp(), next_retry_at = clock_timestamp()")
        elif what == "deadline" and row.deadline_ahead and row.status not in TASK_TERMINAL_STATES:
            row.deadline_passed = True
            self._change(row, "good_until = clock_timestamp() - interval '1 s'")
        elif what == "sweep":
            self._execute(EXPIRE)
            for late in self._model.rows.values():
                if late.status is S.PENDING and late.deadline_passed:
                    late.end(S.EXPIRED)

    @rule(number=numbers, what=st.sampled_from(["requeue", "requeue", "cancel", "pause", "resume", "resume"]))
    def operator_acts(self, number: int, what: str) -> None:
        row = self._row(number)
        if what == "requeue" and row.status not in (S.PENDING, S.CLAIMED):
            self._requeue(row)
        elif what == "cancel" and row.status not in TASK_TERMINAL_STATES:
            row.end(S.CANCELLED)
            self._change(row, "status = 'CANCELLED', claimed = false, claim_expires_at = NULL, failed_at = now()")
        elif what == "pause":
            self._model.paused.add(row.queue)
            self._execute(PAUSE, row.queue)
        elif what == "resume":
            self._model.paused.clear()
            self._execute("DELETE FROM horsies_queue_state")

    def _requeue(self, row: Row) -> None:
        runs = row.status is S.RUNNING
        row.reopen()
        self._execute(REQUEUE, row.id, runs, row.retry_count, row.max_retries)

    @invariant()
    def tables_are_as_the_model_says(self) -> None:
        self._do(self._audit())

    async def _audit(self) -> None:
        """I1: each task is there, in one status. I4: an owner where there must be one and nowhere else. I5: the cap."""
        rows = await self._god.fetch("SELECT *, claim_expires_at > clock_timestamp() AS lease_runs FROM horsies_tasks")
        assert {row["id"] for row in rows} == self._model.rows.keys()
        for row in rows:
            expected = self._model.rows[row["id"]]
            status = TaskStatus(row["status"])
            assert (status, row["retry_count"], row["max_retries"]) == (
                expected.status, expected.retry_count, expected.max_retries,
            )  # fmt: skip
            token = expected.token
            assert row["claimed_by_worker_id"] == (token and token.worker_id)
            assert row["claimed_at"] == (token and token.claimed_at)
            assert row["claimed"] is (status is S.CLAIMED)
            assert (row["lease_runs"] or False) is expected.lease_runs
            self._places[row["id"]] = row["priority"], row["enqueued_at"], row["id"]
        assert self._model.in_flight(CAPPED) <= CAP
        assert await self._god.fetchval("SELECT count(*) FROM horsies_heartbeats") == self._beats
        await self._audit_attempts()
        await self._audit_transitions()

    async def _audit_attempts(self) -> None:
        """I3: 1 to n without a gap, the last one as the task is."""
        history: dict[str, list[tuple[TaskAttemptOutcome, bool]]] = {task_id: [] for task_id in self._model.rows}
        for row in await self._god.fetch("SELECT * FROM horsies_task_attempts ORDER BY task_id, attempt"):
            history[row["task_id"]].append((TaskAttemptOutcome(row["outcome"]), row["will_retry"]))
            assert row["attempt"] == len(history[row["task_id"]])
            assert row["started_at"] <= row["finished_at"]
        for task_id, expected in self._model.rows.items():
            assert history[task_id] == expected.attempts
            if expected.status is S.COMPLETED:
                assert expected.attempts[-1] == (TaskAttemptOutcome.COMPLETED, False)

    async def _audit_transitions(self) -> None:
        """I2: a task ends once, and once more for each time that an operator has opened it again."""
        ends = dict.fromkeys(self._model.rows, 0)
        for task_id, source, target in await self._god.fetch("SELECT * FROM transitions"):
            assert (TaskStatus(source), TaskStatus(target)) in ALLOWED
            ends[task_id] += TaskStatus(target) in TASK_TERMINAL_STATES
        for task_id, row in self._model.rows.items():
            assert ends[task_id] == row.ends == row.reopened + (row.status in TASK_TERMINAL_STATES)

    def teardown(self) -> None:
        """All workers die. Whatever they left can be brought to an end by another one, so nothing is stuck."""
        self._execute("DELETE FROM horsies_queue_state")
        for row in self._model.rows.values():
            if row.status is S.CLAIMED:
                row.lease_runs = False
                self._change(row, "claim_expires_at = clock_timestamp() - interval '1 s', good_until = NULL")
            elif row.status is S.RUNNING:
                self._requeue(row)
        everything_due = "UPDATE horsies_tasks SET enqueued_at = now(), next_retry_at = NULL, good_until = NULL"
        self._execute(f"{everything_due} WHERE status IN ('PENDING', 'CLAIMED')")
        self._do(self._drain())

    async def _drain(self) -> None:
        worker, conn = "worker-d", self._connections[WORKERS[0]]
        while claimed := await claim_capped(
            conn, worker_id=worker, queues=[(CAPPED, CAP), (PLAIN, None)], budget=9, cluster_cap=CLUSTER_CAP, hard=True,
            lease_ms=HOUR_MS, task_names=None,
        ):  # fmt: skip
            tokens = [task.token for task in claimed]
            assert (await start_tokens(conn, tokens, worker)).started == set(tokens)
            await finish(conn, worker, [Outcome(token, K.COMPLETED, "{}") for token in tokens])
        open_ones = "SELECT count(*) FROM horsies_tasks WHERE status IN ('PENDING', 'CLAIMED', 'RUNNING')"
        assert await self._god.fetchval(open_ones) == 0


def test_no_order_of_steps_loses_doubles_or_strands_a_task(server: EmbeddedServer, template: str) -> None:
    name = f"{template}_model"

    async def connect() -> dict[str, asyncpg.Connection]:
        await administer(f"CREATE DATABASE {name} TEMPLATE {template}")
        god = await asyncpg.connect(server.url, database=name)
        await god.execute(LOG)
        actors = [await asyncpg.connect(server.url, database=name, server_settings=LANE) for _ in WORKERS]
        return {"god": god, **dict(zip(WORKERS, actors, strict=True))}

    async def administer(command: str) -> None:
        connection = await asyncpg.connect(server.url)
        await connection.execute(command)
        await connection.close()

    with asyncio.Runner() as runner:
        connections = runner.run(connect())
        run_state_machine_as_test(
            lambda: Lifecycle(runner, connections),
            settings=settings(
                max_examples=100, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
        for connection in connections.values():
            runner.run(connection.close())
        runner.run(administer(f"DROP DATABASE {name}"))
