"""Tasks as targets of verbs: how they are selected and judged, and the one statement that changes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import dump_task_result
from horsies.domain.quantities import by_whom, clock, counted
from horsies.domain.task_result import TaskError, TaskResult
from horsies.findings.cluster import read_cluster
from horsies.lifecycle.reopening import lock_families_of, reopen_for_tasks
from horsies.operations.audit_rows import session_rights
from horsies.operations.facts import TaskFacts
from horsies.operations.selection import freeze
from horsies.operations.target import OperationError, RowOutcome, Target, did_you_mean
from horsies.operations.verb import TERMINAL, VALUE, Preview, Refusal
from horsies.store.statements import renumbered, statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import asyncpg

    from horsies.findings.cluster import Cluster
    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.verb import Options, TaskVerb
    from horsies.views.tasks import ExpectedState


_COMPARED = ("task_id", "status", "worker_id", "claimed_at", "retry_count", "error_code", "last_action")
"""The fields of a task by which the statement recognises that it is still as it was seen."""
WRITES: tuple[str, ...] = ()


async def preview_of(conn: asyncpg.Connection, verb: TaskVerb, selection: Selection, options: Options) -> Preview:
    """Raise FilterError for a filter that cannot be parsed, OperationError for more rows than one operation allows."""
    # The clock before the rows: a deadline that has passed then has also passed when the row is read.
    now = (await session_rights(conn)).now
    frozen = await freeze(conn, selection)
    if verb.single & options.keys() and len(frozen.seen) + len(frozen.missing) != 1:
        raise OperationError(
            "edited arguments apply to exactly one task", help_text="select one task, or rerun without editing"
        )
    if verb.requires is not None:
        options = await verb.requires(conn, frozen.seen, options)
    asked = options
    if verb.gives is not None:
        options = {**options, VALUE: verb.gives.of(options, now)}
    seen: Sequence[ExpectedState] = frozen.seen
    if verb.guards_against_others:
        newest = dict(await conn.fetch(statement(__name__, "task_last_actions"), [one.task_id for one in seen]))
        seen = [replace(one, last_action=newest.get(one.task_id)) for one in seen]
    reasons = {one.task_id: verb.refusal_by_state(one.status, one.error_code) for one in seen}
    possible = [task_id for task_id, reason in reasons.items() if reason is None]
    if verb.refuses is not None and possible:
        value = () if verb.gives is None else (options[VALUE],)
        # The value that the verb gives is $17 in the statement that changes the task, and $2 in this one.
        refusal = renumbered(statement(*verb.refuses), by=-15)
        rows = await conn.fetch(statement(__name__, "task_refusals", refusal=refusal), possible, *value)
        reasons |= map(tuple, rows)
    eligible = [one for one in seen if reasons[one.task_id] is None]
    refused = [Refusal(_target(one), reason) for one in seen if (reason := reasons[one.task_id]) is not None]
    refused += [Refusal(Target("task", lost, "?", "missing"), "no task has this id") for lost in frozen.missing]
    # The shell evaluates a filter again; selected rows are named, so that the command means the same rows.
    chosen = selection.ids if frozen.filter is None else ("--filter", frozen.filter)
    edits = verb.changes if eligible and verb.single & options.keys() else None
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(map(_target, eligible)),
        refused=tuple(refused),
        consequences=await _effects(conn, verb, TaskFacts(eligible, now, options)),
        filter=frozen.filter,
        command=verb.command(chosen, asked),
        taken_at=now,
        changes=() if edits is None else await edits(conn, eligible[0], options),
    )


async def change(
    conn: asyncpg.Connection, action: OperatorAction, verb: TaskVerb, part: Sequence[Target]
) -> list[RowOutcome]:
    """Change the tasks that are still as they were seen, each with its audit row, in the caller's transaction."""
    seen: list[ExpectedState] = [target.seen for target in part]
    inside = [one.task_id for one in seen if one.is_workflow_task]
    if verb.reopens_nodes and inside:
        await lock_families_of(conn, inside)
    words = verb.ends.words if verb.ends and verb.ends.words else action.words(verb.done)
    values: tuple[Any, ...] = ()
    if verb.ends is not None:
        result = dump_task_result(TaskResult(err=TaskError(error_code=verb.ends.code, message=words)))
        values = verb.ends.status.value, result, str(verb.ends.code)
    elif verb.gives is not None:
        values = (action.options[VALUE],)
    elif verb.values is not None:
        values = await verb.values(conn, seen, action.options)
    rows = await conn.fetch(
        change_statement(verb),
        *action.values,
        *([getattr(one, column) for one in seen] for column in _COMPARED),
        list(verb.sources),
        *(() if verb.statement else (verb.attempt_code, words)),
        *values,
    )
    if verb.reopens_nodes and inside:
        living = {row["id"] for row in rows}
        await reopen_for_tasks(conn, [task_id for task_id in inside if task_id in living])
    if verb.ends is not None:
        action.ended.extend(inside)
    return [_row_outcome(verb, part[row["number"] - 1], row, action.options.get(VALUE)) for row in rows]


def change_statement(verb: TaskVerb) -> str:
    """Return `task_change` with the two fragments of the verb, or the statement that the verb has instead."""
    refusal = statement(*verb.refuses) if verb.refuses else "NULL"
    if verb.statement:
        return statement(*verb.statement, judged=statement(__name__, "judged"), refusal=refusal)
    sets = statement(*verb.sets) if verb.sets else statement(__name__, "task_ended")
    return statement(__name__, "task_change", refusal=refusal, sets=sets)


def _target(seen: ExpectedState) -> Target:
    state = f"{seen.status} {seen.error_code}" if seen.error_code else seen.status
    return Target("task", seen.task_id, seen.task_name, state, seen, seen.queue_name)


def _row_outcome(verb: TaskVerb, target: Target, row: asyncpg.Record, value: Any) -> RowOutcome:
    if row["refusal"] is not None:
        return RowOutcome(target, False, row["refusal"])
    if verb.statement is not None:
        return RowOutcome(target, True, f"runs again as {row['id']}", row["id"])
    if verb.gives is not None:
        return RowOutcome(target, True, verb.gives.became(value))
    again = f"PENDING, try {row['retry_count'] + 1}"
    return RowOutcome(target, True, verb.became or (again if row["status"] == "PENDING" else row["status"]))


async def _effects(conn: asyncpg.Connection, verb: TaskVerb, facts: TaskFacts) -> tuple[str, ...]:
    """Return sentences, each with the number of tasks that it concerns."""
    said = []
    if not verb.sources <= TERMINAL:
        if running := facts.count("RUNNING"):
            said.append(f"{running} RUNNING: taken from the worker, which stops them; {verb.takes}")
        if finalizing := sum(one.status == "RUNNING" and one.finalizing_at is not None for one in facts.tasks):
            said.append(f"{finalizing} of them have ended; their outcomes, not stored yet, will be discarded")
        if claimed := facts.count("CLAIMED"):
            said.append(f"{claimed} CLAIMED: taken from the worker before user code began")
    said += verb.effects(facts)
    if verb.gives is not None and facts.tasks:
        said += await _about_queues(conn, facts)
    if verb.in_workflows is not None and (inside := [one.task_id for one in facts.tasks if one.is_workflow_task]):
        said += await _about_workflows(conn, verb, inside)
    return tuple(said)


async def _about_workflows(conn: asyncpg.Connection, verb: TaskVerb, asked: list[str]) -> list[str]:
    rows = await conn.fetch(statement(__name__, "task_workflows"), asked)
    names = Counter({workflow_id: name for _, workflow_id, name in rows}.values())
    left = len(asked) - len({task_id for task_id, _, _ in rows})
    said = []
    if left and verb.reopens_nodes:
        said.append(f"{left} of workflows that have continued without them: no node waits for their outcome")
    if rows:
        shown = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in names.most_common(3))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        inside = len(asked) - left
        said.append(f"{inside} in workflows ({shown}{more}): {verb.in_workflows}")
    return said


async def _about_queues(conn: asyncpg.Connection, facts: TaskFacts) -> Sequence[str]:
    """The queue that the tasks are moved to, or those of their queues that are paused."""
    async with conn.transaction():
        cluster = await read_cluster(conn)
    if (queue := facts.options.get("queue")) is not None:
        return tuple(_new_queue(cluster, facts, queue))
    queues = sorted({task.queue_name for task in facts.tasks} & cluster.paused.keys())
    return [_paused(cluster, paused) for paused in queues]


def _new_queue(cluster: Cluster, facts: TaskFacts, queue: str) -> Iterator[str]:
    served = cluster.served()
    if queue in cluster.paused:
        yield _paused(cluster, queue)
    if queue not in served:
        yield f"no living worker serves the queue {queue}: they wait until one does{did_you_mean(queue, served)}"
        return
    known = cluster.known().get(queue)
    unknown = sorted({task.task_name for task in facts.tasks} - known) if known is not None else []
    for name in unknown[:3]:
        count = sum(task.task_name == name for task in facts.tasks)
        yield f"{counted(count, 'task')} {name}: no living worker of the queue {queue} knows that name, none starts"
    if len(unknown) > 3:
        yield f"{counted(len(unknown) - 3, 'further name')}: not known there either"
    caps = [one.caps[queue] for one in cluster.consumers if queue in one.caps]
    if caps:
        yield f"at most {counted(min(caps), 'task')} of the queue {queue} {'runs' if min(caps) == 1 else 'run'} at once"


def _paused(cluster: Cluster, queue: str) -> str:
    pause = cluster.paused[queue]
    since = f"{clock(pause.since)}{by_whom(pause.by)}"
    return f"the queue {queue} is paused since {since}: its tasks start after a resume"
