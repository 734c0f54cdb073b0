"""Three workers, an operator and the clock write at random; after each step the tables agree with the model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from random import Random
from typing import Any

import asyncpg
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from lifecycle_model import CAP, CAPPED, CLUSTER_CAP, PLAIN, K, Model, Row, S
from lifecycle_steps import HOT_PATH, start_tokens
from sweep_steps import options

from horsies.domain.states import TASK_TERMINAL_STATES, TASK_TRANSITIONS, TaskAttemptOutcome, TaskStatus
from horsies.lifecycle.claim_token import Token, Verdict, beat, renew
from horsies.lifecycle.claiming import (
    ClaimedTask,
    ClaimRequest,
    Start,
    claim,
    claim_capped,
    release,
    release_expired,
    start,
    take_back,
)
from horsies.lifecycle.finishing import (
    Finished,
    Outcome,
    finish,
    finish_and_claim,
    is_end,
    mark_finalizing,
    stored_earlier,
)
from horsies.lifecycle.recovering import Recovered, recover_stale_runs, requeue_stale_claims

ENDS = [kind for kind in K if is_end(Outcome(None, kind))]  # type: ignore[arg-type]
WORKERS = ("worker-a", "worker-b", "worker-c")
PREFETCHES = "worker-c"
HOUR_MS = 3_600_000
ALLOWED = {(arrow.source, arrow.target) for arrow in TASK_TRANSITIONS if arrow.verb != "undo"}

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
INSERT INTO horsies_tasks (id, task_name, queue_name, priority, enqueued_at, good_until, max_retries, args,
                           task_options)
VALUES ($1, 'demo.add', $2, $3, clock_timestamp() + $4 * interval '1 h', clock_timestamp() + $5 * interval '1 h', $6,
        CASE WHEN $7 THEN repeat('x', 70000) END, CASE WHEN $8 THEN {policy} END)
""".format(policy=options("WORKER_CRASHED", interval_s=7_200))

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

WEIGHTS = {
    "enqueue": 4, "claim": 3, "release_expired": 2, "claim_capped": 3, "start": 5, "finish": 4, "finish_and_claim": 5,
    "release": 1, "take_back": 3, "beat": 1, "renew": 1, "sweep": 1, "time_passes": 3, "operator_acts": 3,
}  # fmt: skip


class Lifecycle(RuleBasedStateMachine):
    """Any token that was ever issued may be used at any time, by the worker that got it.

    One rule, because hypothesis leaves out some of several rules, and without claim or start little else happens. And
    one seed, because hypothesis draws small numbers and short lists: 100 runs started 150 tasks, with seeds 600.
    """

    def __init__(self, runner: asyncio.Runner, connections: dict[str, asyncpg.Connection]) -> None:
        super().__init__()
        self._runner = runner
        self._connections = connections
        self._god = connections["god"]
        self._model = Model(place=lambda task_id: self._places[task_id])
        self._places: dict[str, Any] = {}
        self._issued: list[Token] = []
        self._lost: list[Token] = []
        self._ledger: set[Token] = set()
        self._beats = 0
        self._do(self._god.execute(EMPTY))

    def _do(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(step)

    def _tokens(self, rng: Random, status: TaskStatus) -> Iterable[tuple[asyncpg.Connection, str, list[Token]]]:
        """Some tokens for each worker: of tasks in this status, older ones of a task that it has again, or any."""
        fitting = [token for token in self._issued if self._is(token, status)]
        old = [token for token in self._issued if self._has_again(token, status)]
        pool = rng.choices([fitting, old, self._issued], [6, 2, 1])[0] or fitting or self._issued
        chosen = rng.sample(pool, min(len(pool), rng.randint(1, 5)))
        for worker in WORKERS:
            own = [token for token in chosen if token.worker_id == worker]
            if own:
                yield self._connections[worker], worker, own

    def _is(self, token: Token, status: TaskStatus) -> bool:
        row = self._model.current(token)
        return row is not None and row.status is status

    def _has_again(self, token: Token, status: TaskStatus) -> bool:
        row = self._model.rows[token.task_id]
        has = row.status is status and row.token is not None and row.token.worker_id == token.worker_id
        return has and row.token != token

    def _execute(self, command: str, *arguments: object) -> None:
        self._do(self._god.execute(command, *arguments))

    def _change(self, row: Row, change: str) -> None:
        self._execute(f"UPDATE horsies_tasks SET {change} WHERE id = $1", row.id)

    @rule(seed=st.integers(0, 2**32))
    def step(self, seed: int) -> None:
        rng = Random(seed)
        act = "enqueue" if not self._model.rows else rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        note(act)
        getattr(self, act)(rng)

    def enqueue(self, rng: Random) -> None:
        for _ in range(rng.randint(1, 4)):
            row = Row(
                id=f"task-{len(self._model.rows):03}",
                queue=rng.choice([CAPPED, PLAIN]),
                due=rng.random() < 0.8,
                deadline_ahead=rng.random() < 0.4,
                max_retries=rng.randint(0, 2),
                large=rng.random() < 0.1,
                crash_retried=rng.random() < 0.5,
            )
            ahead = 1 if row.deadline_ahead else None
            self._execute(
                ENQUEUE, row.id, row.queue, rng.randint(1, 2), not row.due, ahead, row.max_retries, row.large,
                row.crash_retried,
            )  # fmt: skip
            self._model.rows[row.id] = row

    def claim(self, rng: Random) -> None:
        """Some of them start at once, in idle children."""
        worker, request = rng.choice(WORKERS), self._wish(rng)
        expected = self._model.waiting(PLAIN)[: request.limit]
        claimed = self._do(claim(self._connections[worker], worker, request))
        self._claimed(request, expected, claimed, heard=rng.random() < 0.75)

    def _wish(self, rng: Random) -> ClaimRequest:
        pids = rng.sample(range(100, 200), rng.randint(0, 4))
        return ClaimRequest(PLAIN, rng.randint(1, 4), HOUR_MS if rng.random() < 0.8 else 0, None, pids, "host")

    def _claimed(self, request: ClaimRequest, expected: list[Row], claimed: list[ClaimedTask], *, heard: bool) -> None:
        """The first ones run, in the order of the queue and of the children, unless they are large.

        A worker that does not get the reply has children that stay idle, and no user code begins.
        """
        assert [task.token.task_id for task in claimed] == [row.id for row in expected]
        for place, (row, task) in enumerate(zip(expected, claimed, strict=True)):
            self._issue(row, task, request.lease_ms > 0, heard=heard)
            starts = place < len(request.idle_pids) and not row.large
            assert task.position == (place if starts else None)
            if starts:
                row.run(request.idle_pids[place])
                if heard:
                    self._begin(task.token)

    def _issue(self, row: Row, task: ClaimedTask, leased: bool, *, heard: bool = True) -> None:
        token = task.token
        assert token not in self._issued + self._lost
        assert row.token is None or token.claimed_at > row.token.claimed_at
        assert (task.retry_count, task.max_retries, task.large) == (row.retry_count, row.max_retries, row.large)
        row.claim(token, leased)
        (self._issued if heard else self._lost).append(token)

    def _begin(self, token: Token) -> None:
        assert token not in self._ledger, "I6: user code runs twice under one token"
        self._ledger.add(token)

    def release_expired(self, rng: Random) -> None:
        queues = rng.choice([[PLAIN], [CAPPED], [CAPPED, PLAIN]])
        expired = self._model.expired(queues)
        assert self._do(release_expired(self._connections[rng.choice(WORKERS)], queues)) == len(expired)
        for row in expired:
            row.wait()

    def claim_capped(self, rng: Random) -> None:
        most = rng.randint(1, 4)
        worker, leased = rng.choice(WORKERS), rng.random() < 0.8
        hard = worker != PREFETCHES
        caps = {"queues": [(CAPPED, CAP), (PLAIN, None)], "cluster_cap": CLUSTER_CAP if hard else None, "hard": hard}
        limits = {"worker_id": worker, "budget": most, "lease_ms": leased * HOUR_MS, "task_names": None, **caps}
        expected = self._model.under_caps(most, hard=hard)
        claims = self._do(claim_capped(self._connections[worker], **limits))
        assert {task.token.task_id for task in claims.tasks} == {row.id for row in expected}
        for task in claims.tasks:
            row = self._model.rows[task.token.task_id]
            self._issue(row, task, leased)
            row.counts = hard

    def start(self, rng: Random) -> None:
        for conn, worker, own in self._tokens(rng, S.CLAIMED):
            caps = {CAPPED: CAP} if worker == PREFETCHES else {}
            starts = [Start(token, 4242, "host", "worker-4242", self._model.rows[token.task_id].queue) for token in own]
            unfit = self._model.unfit(own, caps)
            verdicts = self._do(start(conn, worker, starts, caps))
            for token in own:
                row = self._model.current(token)
                expected = row.start(4242, fits=token not in unfit) if row else "stale"
                assert (token in verdicts.started) is expected.startswith("started")
                assert (token in verdicts.waiting) is (expected == "waiting")
                assert (token in verdicts.expired) is (expected == "expired")
                assert (token in verdicts.stale) is (expected == "stale")
                if expected == "started":
                    self._begin(token)

    def finish(self, rng: Random) -> None:
        """A retry that is not due soon is due after any deadline."""
        soon = rng.random() < 0.7
        delay = 0.0 if soon else 7_200.0
        for conn, worker, own in self._tokens(rng, S.RUNNING):
            kind_of = {token: rng.choice(list(K)) for token in own}
            outcomes = [Outcome(token, kind, "{}", "CODE", "text", None, delay) for token, kind in kind_of.items()]
            self._finished(outcomes, self._do(finish(conn, worker, outcomes)), soon=soon)

    def _finished(self, outcomes: list[Outcome], finished: dict[Token, Finished], *, soon: bool = True) -> None:
        assert finished.keys() == {outcome.token for outcome in outcomes}
        for outcome in outcomes:
            row, answer = self._model.current(outcome.token), finished[outcome.token]
            expected = row.finish(outcome.kind, soon=soon) if row else None
            assert answer.status is expected
            assert (answer.verdict is Verdict.STALE) is (expected is None)
            assert (answer.due is not None) is (expected is S.PENDING)

    def finish_and_claim(self, rng: Random) -> None:
        """A worker that does not get the reply sends its outcomes again, and finds that they are stored."""
        for conn, worker, own in self._tokens(rng, S.RUNNING):
            outcomes = [Outcome(token, rng.choice(ENDS), "{}", "CODE", "text") for token in own]
            request = self._wish(rng)
            expected = self._model.waiting(PLAIN)[: request.limit]
            finished, claimed = self._do(finish_and_claim(conn, worker, outcomes, request))
            self._finished(outcomes, finished)
            heard = rng.random() < 0.75
            self._claimed(request, expected, claimed, heard=heard)
            if not heard:
                again = self._do(finish(conn, worker, outcomes))
                assert {answer.verdict for answer in again.values()} == {Verdict.STALE}
                stored = {token: answer for token, answer in finished.items() if answer.verdict is Verdict.ACCEPTED}
                assert self._do(stored_earlier(conn, worker, outcomes)).items() >= stored.items()

    def release(self, rng: Random) -> None:
        for conn, worker, own in self._tokens(rng, S.CLAIMED):
            claimed = {token for token in own if self._is(token, S.CLAIMED)}
            assert self._do(release(conn, worker, own)) == claimed
            for token in claimed:
                self._model.rows[token.task_id].wait()

    def take_back(self, rng: Random) -> None:
        """Tasks that a worker holds without knowing it, because the reply of the claim was lost."""
        worker = rng.choice(WORKERS)
        unknown = [
            row
            for row in self._model.rows.values()
            if row.status in (S.CLAIMED, S.RUNNING) and row.token in self._lost and row.token.worker_id == worker
        ]
        held = [token for token in self._issued if token.worker_id == worker]
        returned = self._do(take_back(self._connections[worker], worker, held))
        assert set(returned) == {row.token for row in unknown}
        for row in unknown:
            row.wait()

    def sweep(self, rng: Random) -> None:
        """All workers have stalled for long: every claimed or running task counts as lost."""
        conn = self._connections[rng.choice(WORKERS)]
        if rng.random() < 0.3:
            claims = [row for row in self._model.rows.values() if row.status is S.CLAIMED]
            assert self._do(requeue_stale_claims(conn, threshold_ms=0)) == Recovered(requeued=len(claims))
            for row in claims:
                row.wait()
        else:
            runs = [row for row in self._model.rows.values() if row.status is S.RUNNING]
            assert self._do(recover_stale_runs(conn, threshold_ms=0, finalizing_ms=0)).changed == len(runs)
            for row in runs:
                row.crash()

    def beat(self, rng: Random) -> None:
        for conn, worker, own in self._tokens(rng, S.RUNNING):
            running = {token for token in own if self._is(token, S.RUNNING)}
            assert self._do(beat(conn, worker, "host", [(token, 1) for token in own])) == set(own) - running
            assert self._do(mark_finalizing(conn, worker, own)) == set(own) - running
            self._beats += len(running)

    def renew(self, rng: Random) -> None:
        worker = rng.choice(WORKERS)
        tokens = [row.token for row in self._model.rows.values() if row.status is S.CLAIMED and row.token]
        mine = {token for token in tokens if token.worker_id == worker}
        conn = self._connections[worker]
        assert self._do(renew(conn, worker, HOUR_MS, HOUR_MS, hostname="host", pid=1)) == mine
        self._beats += len(mine)

    def time_passes(self, rng: Random) -> None:
        row, what = rng.choice(list(self._model.rows.values())), rng.choice(["lease", "delay", "deadline", "sweep"])
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

    def operator_acts(self, rng: Random) -> None:
        row = rng.choice(list(self._model.rows.values()))
        what = rng.choice(["requeue", "requeue", "cancel", "pause", "resume", "resume"])
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
        """I1: each task exists, in one status. I4: an owner where there must be one and nowhere else. I5: the cap."""
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
            if status is S.RUNNING:
                where = row["worker_pid"], row["worker_hostname"], row["worker_process_name"], row["claim_expires_at"]
                assert where == (expected.pid, "host", f"worker-{expected.pid}", None)
                assert row["started_at"] >= row["claimed_at"]
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
        """All workers die. Another one can end all their tasks, so nothing is stuck."""
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
        await release_expired(conn, [CAPPED, PLAIN])
        limits = {"budget": 9, "cluster_cap": CLUSTER_CAP, "hard": True, "lease_ms": HOUR_MS, "task_names": None}
        queues = [(CAPPED, CAP), (PLAIN, None)]
        while claimed := (await claim_capped(conn, worker_id=worker, queues=queues, **limits)).tasks:
            tokens = [task.token for task in claimed]
            assert (await start_tokens(conn, tokens, worker)).started == set(tokens)
            await finish(conn, worker, [Outcome(token, K.COMPLETED, "{}") for token in tokens])
        open_ones = "SELECT count(*) FROM horsies_tasks WHERE status IN ('PENDING', 'CLAIMED', 'RUNNING')"
        assert await self._god.fetchval(open_ones) == 0


@pytest.mark.parametrize("examples", [25, pytest.param(1_000, marks=pytest.mark.chaos)])
def test_no_order_of_steps_loses_doubles_or_strands_a_task(database: str, examples: int) -> None:
    async def connect() -> dict[str, asyncpg.Connection]:
        god = await asyncpg.connect(database)
        await god.execute(LOG)
        actors = [await asyncpg.connect(database, server_settings=HOT_PATH) for _ in WORKERS]
        return {"god": god, **dict(zip(WORKERS, actors, strict=True))}

    with asyncio.Runner() as runner:
        connections = runner.run(connect())
        run_state_machine_as_test(
            lambda: Lifecycle(runner, connections),
            settings=settings(max_examples=examples, stateful_step_count=60, suppress_health_check=list(HealthCheck)),
        )
        for connection in connections.values():
            runner.run(connection.close())
