"""Workers, sweeps and operators that act on a workflow at random, through the engine's own functions."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import asyncpg
from family_audit import Ledger
from lifecycle_steps import LEASE_MS, take_over
from workflow_hands import Operators
from workflow_model import MAX_RETRIES, Act, Flow, Step, catalogue, plain, plan_of, value_of

from horsies.domain.codec import dump_task_result
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.ids import new_task_id
from horsies.domain.plan import MAP_DEFINITION, WorkflowPlan, split_injection
from horsies.domain.states import TaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.advancing import FamilyLockedError, advance, nodes_started
from horsies.lifecycle.claim_token import Token, Verdict
from horsies.lifecycle.claiming import ClaimedTask, ClaimRequest, Start, claim, large_arguments, release, start
from horsies.lifecycle.controlling import cancel, pause, resume, retry_from_failed
from horsies.lifecycle.create_workflow import create_workflow, fail_child, read_child, ready_children, start_child
from horsies.lifecycle.finishing import Finished, Outcome, OutcomeKind, finish, finish_and_claim
from horsies.lifecycle.node_tasks import resolved
from horsies.lifecycle.reconciling import reconcile_all
from horsies.lifecycle.recovering import expire_pending, recover_stale_runs
from horsies.lifecycle.reopening import CannotReopenError
from horsies.workflow.subworkflow_plan import ChildPlanError, map_plan

STALE_MS = 300_000
UPSETS = ("kills", "late", "pause", "cancel", "retry", "together", "hands")

DIES = """
UPDATE horsies_tasks
   SET started_at = started_at - interval '10 min',
       claim_expires_at = CASE WHEN status = 'CLAIMED' THEN now() - interval '1 s' END
 WHERE claimed_by_worker_id = ANY ($1::text[]) AND status IN ('CLAIMED', 'RUNNING')
"""
TIME_PASSES = """
UPDATE horsies_tasks SET enqueued_at = now(), next_retry_at = NULL WHERE status = 'PENDING' AND enqueued_at > now()
"""
CRASHED = """
SELECT id FROM horsies_tasks WHERE status = 'FAILED' AND error_code = 'WORKER_CRASHED' AND id <> ALL ($1::text[])
"""
STARTED_IN = """
SELECT array_agg(DISTINCT workflow.status)
  FROM horsies_workflow_tasks node JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
 WHERE node.task_id = ANY ($1::text[])
"""
PAUSED = "SELECT id FROM horsies_workflows WHERE status = 'PAUSED' ORDER BY depth, id"


@dataclass
class Hand:
    """A worker. `zombies`: tasks that it, or its predecessor, ran when it died and may still try to store."""

    name: str
    claimed: list[ClaimedTask] = field(default_factory=list)
    running: list[ClaimedTask] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    zombies: list[ClaimedTask] = field(default_factory=list)


class Crew:
    """Three workers with a connection each, and one connection for operators and sweeps."""

    def __init__(self, rng: Random, connections: Sequence[asyncpg.Connection], upsets: frozenset[str]) -> None:
        self.ledger = Ledger()
        self._rng = rng
        self._upsets = upsets
        self._names = (f"worker-{number}" for number in itertools.count())
        *own, self._desk = connections
        self._hands = [(conn, Hand(next(self._names))) for conn in own]
        self._flows: dict[str, Flow] = {}
        self._operators = Operators(rng, self.ledger)
        self._past: list[str] = []
        self._dead: list[str] = []

    async def create_workflow(self, flow: Flow) -> str:
        self._flows = self._operators.flows = dict(catalogue(flow))
        workflow_id = new_task_id()
        async with self._desk.transaction():
            await create_workflow(self._desk, plan_of(flow), workflow_id=workflow_id)
        return workflow_id

    async def play(self, steps: int) -> None:
        """This many random steps, some of them concurrent."""
        for _ in range(steps):
            if "together" in self._upsets and self._rng.random() < 0.5:
                await self._at_once()
            elif self._rng.random() < 0.65:
                await self._work()(*self._rng.choice(self._hands))
            else:
                await self._upset()(self._desk)

    async def _at_once(self) -> None:
        """A step of every worker at once, half the time the same one, to provoke deadlocks and lost updates."""
        alike = self._work() if self._rng.random() < 0.5 else None
        steps = [(alike or self._work())(conn, hand) for conn, hand in self._hands]
        await all_of([*steps, self._upset()(self._desk)])

    async def rest(self, *, resuming: bool) -> int:
        """Run until nothing is left but, without `resuming`, paused workflows; returns the number of repairs."""
        repairs = 0
        for _ in range(150):
            await self._desk.execute(TIME_PASSES)
            busy = resuming and await self._resume_all()
            if "together" in self._upsets:
                busy |= any(await all_of(self._shift(conn, hand) for conn, hand in self._hands))
            else:
                busy |= any([await self._shift(conn, hand) for conn, hand in self._hands])
            if not busy:
                swept = await self._sweep(self._desk)
                busy = bool(swept)
            if not busy:
                done = await reconcile_all(self._desk, 0)
                assert done.refused == ()
                repairs += done.repairs
                if not done.repairs:
                    return repairs
        raise AssertionError("it never comes to rest")

    async def _shift(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        """The steps of a worker, in its order."""
        works = (self._advance_all, self._claim, self._start, self._finish, self._advance_all, self._build)
        return any([await work(conn, hand) for work in works])

    def _work(self) -> Callable[[asyncpg.Connection, Hand], Awaitable[object]]:
        works = [self._claim, self._start, self._finish, self._advance, self._build, self._claim_and_run, self._note]
        return self._rng.choices(works, [3, 3, 3, 3, 2, 2, 1])[0]

    def _upset(self) -> Callable[[asyncpg.Connection], Awaitable[object]]:
        acts: dict[str, list[Callable[[asyncpg.Connection], Awaitable[object]]]] = {
            "kills": [self._kill, self._kill, self._sweep, self._zombie_finishes],
            "late": [self._advance_late, self._reconcile],
            "pause": [self._pause, self._resume],
            "cancel": [self._cancel],
            "retry": [self._retry, self._retry],
            "hands": [self._operators.skip, self._operators.complete, self._operators.end_task],
        }
        chosen = [act for name, those in acts.items() if name in self._upsets for act in those]
        return self._rng.choice([self._reconcile, *chosen])

    async def _claim(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        """If a process is idle, one of the tasks is RUNNING at once."""
        idle = [4242] if self._rng.random() < 0.3 else []
        request = ClaimRequest("default", self._rng.randint(1, 3), LEASE_MS, None, idle, "host" if idle else None)
        return await self._take(conn, hand, await claim(conn, hand.name, request))

    async def _claim_and_run(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        """Claim after a task has ended, in one statement, or claim tasks of dead workers."""
        if self._rng.random() < 0.3 or not hand.running:
            return await self._take(conn, hand, await _of_the_dead(conn, hand.name))
        tasks = await self._outcomes(conn, [hand.running.pop()])
        ends = {task: out for task, out in tasks.items() if out.kind is not OutcomeKind.RETRY}
        hand.running += [task for task in tasks if task not in ends]
        if not ends:
            return False
        request = ClaimRequest("default", 1, LEASE_MS, None, [4242], "host")
        finished, claimed = await finish_and_claim(conn, hand.name, list(ends.values()), request)
        self._took(hand, ends, finished)
        await self._take(conn, hand, claimed)
        return True

    async def _take(self, conn: asyncpg.Connection, hand: Hand, claimed: Sequence[ClaimedTask]) -> bool:
        hand.claimed += [task for task in claimed if task.position is None]
        await self._began(conn, hand, [task for task in claimed if task.position is not None])
        return bool(claimed)

    async def _began(self, conn: asyncpg.Connection, hand: Hand, tasks: Sequence[ClaimedTask]) -> None:
        hand.running += tasks
        ids = [task.token.task_id for task in tasks]
        self.ledger.starts.update(ids)
        if ids and "together" not in self._upsets:  # in concurrent runs a pause may come right after a start
            assert await conn.fetchval(STARTED_IN, ids) == ["RUNNING"]

    async def _start(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        tasks = {task.token: task for task in hand.claimed}
        hand.claimed = []
        if self._rng.random() < 0.05:
            return bool(await release(conn, hand.name, list(tasks)))
        verdicts = await start(conn, hand.name, [Start(token, 4242, "host", "process") for token in tasks])
        await self._began(conn, hand, [tasks[token] for token in verdicts.started])
        hand.ended += [token.task_id for token in verdicts.expired]
        return bool(tasks)

    async def _note(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        return bool((await nodes_started(conn, [task.token.task_id for task in hand.running])).nodes)

    async def _finish(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        count = self._rng.randint(1, 3)
        tasks, hand.running = hand.running[:count], hand.running[count:]
        outcomes = await self._outcomes(conn, tasks)
        self._took(hand, outcomes, await finish(conn, hand.name, list(outcomes.values())))
        return bool(tasks)

    def _took(self, hand: Hand, outcomes: Mapping[ClaimedTask, Outcome], finished: Mapping[Token, Finished]) -> None:
        """A stale task may have been ended by another process, and the worker's outcome is refused."""
        for task, outcome in outcomes.items():
            answer, task_id = finished[task.token], task.token.task_id
            if answer.verdict is Verdict.ACCEPTED and answer.status is not TaskStatus.PENDING:
                self.ledger.accepted[task_id].append(outcome.error_code or "COMPLETED")
            if outcome.kind is OutcomeKind.RETRY and answer.verdict is Verdict.ACCEPTED:
                assert (answer.status is TaskStatus.PENDING) is (task.retry_count < MAX_RETRIES)
            if answer.status is not TaskStatus.PENDING:
                hand.ended.append(task_id)

    async def _outcomes(self, conn: asyncpg.Connection, tasks: Sequence[ClaimedTask]) -> dict[ClaimedTask, Outcome]:
        """Run the tasks' code: it knows of the graph only what its arguments contain."""
        return {task: await self._run(conn, task) for task in tasks}

    async def _run(self, conn: asyncpg.Connection, task: ClaimedTask) -> Outcome:
        text = task.kwargs
        if task.large:
            found = await large_arguments(conn, task.token)
            if found is None:
                return Outcome(task.token, OutcomeKind.COMPLETED, "{}")
            text = found[1]
        injection = split_injection(json.loads(await resolved(conn, text) or "{}"))
        assert injection.meta is not None
        place = injection.meta["workflow_id"], injection.meta["task_index"]
        first = self.ledger.firsts.setdefault(place, task.token.task_id) == task.token.task_id
        given = {
            name: plain(json.loads(value["data"]))
            for name, value in injection.kwargs.items()
            if isinstance(value, dict) and "data" in value
        }
        texts = (injection.context or {}).get("results_by_id", {})
        seen = {node_id: plain(json.loads(text)) for node_id, text in texts.items()}
        self.ledger.given[task.token.task_id] = place, given | seen
        return self._code(task, injection.kwargs, given, seen, first)

    def _code(
        self,
        task: ClaimedTask,
        kwargs: Mapping[str, Any],
        given: Mapping[str, Any],
        seen: Mapping[str, Any],
        first: bool,
    ) -> Outcome:
        if "item" in kwargs:
            return _failed(task, "BROKE") if kwargs["item"] < 0 else _completed(task, kwargs["item"] * 10)
        key, index = kwargs["step"]
        step: Step = self._flows[key].steps[index]
        assert seen.keys() == {f"n{dep}" for dep in step.context or ()}
        assert given.keys() == {f"a{dep}" for dep in step.given} or step.join != "all"
        if step.act is Act.FAIL or (step.act is Act.HEAL and first):
            return _failed(task, "BROKE")
        if step.act is Act.FLAKY and task.retry_count < 2:
            return _failed(task, "TRY_AGAIN", OutcomeKind.RETRY)
        return _completed(task, value_of(step.act, key, index, given if step.is_strict else {}))

    async def _advance(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        ids = self._rng.sample(hand.ended, self._rng.randint(0, len(hand.ended)))
        hand.ended = [task_id for task_id in hand.ended if task_id not in ids]
        self._past += ids
        hand.ended += [task_id for task_id, _ in (await advance(conn, ids)).locked]
        return bool(ids)

    async def _advance_all(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        ids, hand.ended = hand.ended, []
        self._past += ids
        hand.ended += [task_id for task_id, _ in (await advance(conn, ids)).locked]
        return bool(ids)

    async def _build(self, conn: asyncpg.Connection, hand: Hand) -> bool:
        """A worker that dies between reading and starting has changed nothing."""
        waiting = await ready_children(conn, None, 10)
        done = False
        for workflow_id, index in waiting:
            try:
                done |= await self._build_one(conn, workflow_id, index)
            except FamilyLockedError:
                done = True  # it is read again
        return done

    async def _build_one(self, conn: asyncpg.Connection, workflow_id: str, index: int) -> bool:
        child = await read_child(conn, workflow_id, index)
        if child is None:
            return False
        try:
            planned = self._plan(child.definition_key, child.kwargs_json)
        except ChildPlanError as error:
            code = OperationalErrorCode.WORKFLOW_ENQUEUE_FAILED
            await fail_child(conn, workflow_id, index, _refusal(code, str(error)))
        except KeyError as error:
            code = OperationalErrorCode.SUBWORKFLOW_LOAD_FAILED
            await fail_child(conn, workflow_id, index, _refusal(code, str(error)))
        else:
            await start_child(conn, workflow_id, index, planned)
        return True

    def _plan(self, key: str, kwargs_json: str) -> WorkflowPlan:
        return map_plan(kwargs_json) if key == MAP_DEFINITION else plan_of(self._flows[key], key)

    async def _kill(self, _conn: asyncpg.Connection) -> None:
        """Everything in the worker's memory is lost, between any two transactions."""
        place = self._rng.randrange(len(self._hands))
        dedicated, dead = self._hands[place]
        if not (dead.claimed or dead.running or dead.ended):
            return
        self.ledger.killed = True
        self._hands[place] = dedicated, Hand(next(self._names), zombies=dead.zombies + dead.running)
        self._dead.append(dead.name)

    async def _zombie_finishes(self, conn: asyncpg.Connection) -> None:
        """A worker that was wrongly considered dead stores its outcomes."""
        _, hand = self._rng.choice(self._hands)
        zombies, hand.zombies = hand.zombies, []
        for task, outcome in (await self._outcomes(conn, zombies)).items():
            self._took(hand, {task: outcome}, await finish(conn, task.token.worker_id, [outcome]))

    async def _sweep(self, conn: asyncpg.Connection) -> int:
        """Long after: statements of dead workers whose replies were lost are as old as the rest."""
        await conn.execute(DIES, self._dead)
        recovered = await recover_stale_runs(conn, threshold_ms=STALE_MS, finalizing_ms=STALE_MS)
        recovered += await expire_pending(conn)
        assert recovered.refused == ()
        for (task_id,) in await conn.fetch(CRASHED, [*self.ledger.accepted]):
            self.ledger.accepted[task_id].append("WORKER_CRASHED")
        expired = await _of_the_dead(conn, "sweeper")
        await release(conn, "sweeper", [task.token for task in expired])
        return recovered.changed + len(expired)

    async def _advance_late(self, conn: asyncpg.Connection) -> None:
        await advance(conn, self._rng.sample(self._past, min(len(self._past), 4)))

    async def _reconcile(self, conn: asyncpg.Connection) -> None:
        assert (await reconcile_all(conn, self._rng.choice([0, 0, 60_000]))).refused == ()

    async def _any_workflow(self, conn: asyncpg.Connection) -> str:
        """The root as often as all others together."""
        ids = [row[0] for row in await conn.fetch("SELECT id FROM horsies_workflows ORDER BY depth, id")]
        return ids[0] if self._rng.random() < 0.5 else self._rng.choice(ids)

    async def _pause(self, conn: asyncpg.Connection) -> None:
        workflow_id = await self._any_workflow(conn)
        self.ledger.paused.add(workflow_id)
        await pause(conn, workflow_id)

    async def _resume(self, conn: asyncpg.Connection) -> None:
        await resume(conn, await self._any_workflow(conn))

    async def _resume_all(self) -> bool:
        paused = [row[0] for row in await self._desk.fetch(PAUSED)]
        return any([await resume(self._desk, workflow_id) for workflow_id in paused])

    async def _cancel(self, conn: asyncpg.Connection) -> None:
        workflow_id = await self._any_workflow(conn)
        if self._rng.random() < 0.5:
            self.ledger.cancelled.add(workflow_id)
            await cancel(conn, workflow_id)

    async def _retry(self, conn: asyncpg.Connection) -> None:
        await self._retry_from_failed(conn, await self._any_workflow(conn))

    async def retry_all(self, root: str) -> None:
        """Retry at the end; nodes that always fail do so again."""
        if "retry" in self._upsets:
            await self._retry_from_failed(self._desk, root)

    async def _retry_from_failed(self, conn: asyncpg.Connection, workflow_id: str) -> None:
        self.ledger.retried = True
        try:
            reopening = await retry_from_failed(conn, workflow_id)
        except CannotReopenError:
            return
        for place, one in reopening.reopened.items():
            if not one.keep and one.node.task_id is not None:
                self.ledger.done_with[place].add(one.node.task_id)


async def _of_the_dead(conn: asyncpg.Connection, worker: str) -> list[ClaimedTask]:
    return await take_over(conn, worker_id=worker, queue="default", limit=3, lease_ms=LEASE_MS, task_names=None)


async def all_of(steps: Iterable[Awaitable[Any]]) -> list[Any]:
    """Wait for all steps even if one fails: the next run needs their connections."""
    answers = await asyncio.gather(*steps, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers


def _completed(task: ClaimedTask, value: Any) -> Outcome:
    return Outcome(task.token, OutcomeKind.COMPLETED, dump_task_result(TaskResult(ok=value)))


def _failed(task: ClaimedTask, code: str, kind: OutcomeKind = OutcomeKind.FAILED) -> Outcome:
    result = _refusal(code, "it broke")
    return Outcome(task.token, kind, result, code, "it broke", None, 0.0 if kind is OutcomeKind.RETRY else None)


def _refusal(code: Any, message: str) -> str:
    return dump_task_result(TaskResult(err=TaskError(error_code=code, message=message)))
