"""Operations as targets of undo: each row that the operation changed is restored, or refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from horsies.lifecycle.workflow_rows import read_flows
from horsies.operations import queue_targets, schedule_targets, worker_targets, workflow_targets
from horsies.operations.audit_rows import (
    Since,
    actions_of,
    require_writable,
    session_rights,
    undone_operation,
    write_refusal,
)
from horsies.operations.facts import WorkflowFacts
from horsies.operations.target import RowOutcome, Target
from horsies.operations.verb import Preview, Refusal, ScheduleVerb, WorkerVerb, WorkflowVerb
from horsies.operations.verbs import VERBS, audited_verb
from horsies.store.statements import renumbered, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.lifecycle.workflow_rows import FamilyWorkflowRow
    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.target import AuditedAction
    from horsies.operations.verb import Options, SqlName, Verb

RENEW_EVERY_S: Final = 10.0
HOLD_S: Final = 30.0
"""Duration of a hold: two renewals may fail. If the console dies, held tasks wait this long."""
_TASKS_AT_ONCE = 500
_GONE = "its row was deleted"
_ORDERED: Final[Mapping[str, Any]] = {"worker": worker_targets, "queue": queue_targets, "schedule": schedule_targets}
WRITES: tuple[str, ...] = ()


class Hold:
    """The unstarted tasks of an operation, which workers do not start while an operator decides about its undo.

    It needs no audit row: it expires, and changes only when a task may start.
    """

    def __init__(self, operation_id: str) -> None:
        self._operation_id = UUID(operation_id)
        self._held: dict[str, tuple[datetime, datetime | None]] = {}
        """The end of the hold and the previous next_retry_at, by task."""

    async def renew(self, conn: asyncpg.Connection) -> int:
        """Hold for 30 s the tasks that an undo would restore and a worker could start; return their number.

        Raises OperationError, without a hold, for a session that cannot write.
        """
        await require_writable(conn)
        tasks = [
            action
            for action in await actions_of(conn, self._operation_id)
            if _changed_task(action) and _no_way_back(action) is None
        ]
        ids = [action.target_id for action in tasks]
        rows = await conn.fetch(undo_statement("undo_hold"), [action.id for action in tasks], ids, HOLD_S)
        for task_id, waits_until, held_until in rows:
            until, before = self._held.get(task_id, (None, None))
            # Another operator may have rescheduled it since the last renewal.
            self._held[task_id] = (held_until, before if waits_until == until else waits_until)
        return len(rows)

    async def release(self, conn: asyncpg.Connection) -> None:
        """Release the tasks that are still under this hold to the workers."""
        held, self._held = self._held, {}
        if held:
            until, before = zip(*held.values(), strict=True)
            await conn.execute(statement(__name__, "undo_release"), [*held], until, before)


def batch_of(targets: Sequence[Target]) -> int:
    """Tasks and acknowledgements together; the lock of a workflow's family is held for one workflow only."""
    together = all(target.kind == "task" or _taken_back(target.seen) for target in targets)
    return _TASKS_AT_ONCE if together else 1


async def preview_of(conn: asyncpg.Connection, verb: Verb, selection: Selection, options: Options) -> Preview:
    """Return the restorable rows of the operation; OperationError if it has no audit rows."""
    now = (await session_rights(conn)).now
    (operation_id,) = selection.ids
    actions = await actions_of(conn, UUID(operation_id))
    reasons = {action.id: _no_way_back(action) for action in actions}
    open_ones = [action for action in actions if reasons[action.id] is None]
    judged = await _judge_tasks(conn, [action for action in open_ones if _changed_task(action)])
    others = [action for action in open_ones if not _changed_task(action)]
    since = await _since_then(conn, [action.id for action in others])
    flows = await read_flows(conn, [one.target_id for one in actions if one.target_kind in ("workflow", "node")])
    for action in open_ones:
        if _changed_task(action):
            reasons[action.id] = judged[action.id]["refusal"]
        else:
            reasons[action.id] = since[action.id][1] or _moved_on(action, flows.get(action.target_id))
    targets = [_target(action, judged.get(action.id), flows.get(action.target_id)) for action in actions]
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(target for target in targets if reasons[target.seen.id] is None),
        refused=tuple(Refusal(one, reason) for one in targets if (reason := reasons[one.seen.id]) is not None),
        consequences=("restores the previous state; rows changed since stay as they are",),
        command=verb.command(selection.ids, options),
        taken_at=now,
        undone=await undone_operation(conn, UUID(operation_id)),
    )


def _target(action: AuditedAction, task: Mapping[str, Any] | None, flow: FamilyWorkflowRow | None) -> Target:
    """Return the target with the name of its task or workflow, so that the operator can check it."""
    target = Target(action.target_kind, action.target_id, action.verb, action.status or "?", action)
    if flow is not None:
        return replace(target, label=flow.name)
    if task is not None and task["task_name"] is not None:
        return replace(target, label=task["task_name"], queue=task["queue_name"])
    return target


async def change(
    conn: asyncpg.Connection, action: OperatorAction, verb: Verb, part: Sequence[Target]
) -> list[RowOutcome]:
    tasks = {target.seen.id: target for target in part if _changed_task(target.seen)}
    rows = await _restore_tasks(conn, action, tasks)
    action.ended.extend(target.id for target in tasks.values())
    others = [target for target in part if target.seen.id not in tasks]
    undone = await _take_back(conn, action, others)
    since = await _since_then(conn, [target.seen.id for target in others])
    for target in others:
        given_at, later = since[target.seen.id]
        if target.seen.id in undone:
            rows.append(RowOutcome(target, applied=True, detail="reported again"))
        elif later is not None:
            rows.append(await write_refusal(conn, action, target, later))
        else:
            undoing = replace(action, undoes={target.id: target.seen.id})
            rows.append(await _invert(conn, undoing, target, given_at))
    return rows


def _no_way_back(action: AuditedAction) -> str | None:
    done = audited_verb(action.target_kind, action.verb)
    return f"{action.verb} cannot be undone" if done is None else done.why_not_undone(action)


def _changed_task(action: AuditedAction) -> bool:
    """Return whether it has changed the row of a task, which undo restores."""
    return action.target_kind == "task" and _taken_back(action) is None


def _taken_back(action: AuditedAction) -> SqlName | None:
    """Return the statement that undoes the action by an audit row alone, on workers and their tasks."""
    done = audited_verb(action.target_kind, action.verb)
    return done.taken_back if isinstance(done, WorkerVerb) else None


def _moved_on(action: AuditedAction, flow: FamilyWorkflowRow | None) -> str | None:
    """Return why a workflow is not as the action left it; workers and queues are compared by the statement."""
    if action.target_kind != "workflow":
        return None
    if flow is None:
        return _GONE
    inverse = VERBS["workflow", VERBS["workflow", action.verb].inverse or ""]
    fits = isinstance(inverse, WorkflowVerb) and inverse.fits(flow.status)
    return None if fits else f"it is {flow.status} now"


def undo_statement(name: str) -> str:
    """Return the statement; one that writes no audit rows has no parameters before the actions."""
    lock = "" if name == "undo_preview" else statement(__name__, "undo_lock")
    lock += " SKIP LOCKED" if name == "undo_hold" else ""
    text = statement(__name__, name, lock=lock)
    return text if name == "undo_tasks" else renumbered(text, by=-6)


async def _judge_tasks(conn: asyncpg.Connection, actions: Sequence[AuditedAction]) -> dict[int, asyncpg.Record]:
    if not actions:
        return {}
    rows = await conn.fetch(
        undo_statement("undo_preview"), [one.id for one in actions], [one.target_id for one in actions]
    )
    return {row["action"]: row for row in rows}


async def _restore_tasks(
    conn: asyncpg.Connection, action: OperatorAction, targets: dict[int, Target]
) -> list[RowOutcome]:
    if not targets:
        return []
    text, ids = undo_statement("undo_tasks"), [target.id for target in targets.values()]
    rows = await conn.fetch(text, *action.values, list(targets), ids)
    results = {row["action"]: (row["refusal"], row["retry_count"]) for row in rows}
    outcomes = []
    for number, target in targets.items():
        refusal, retry_count = results[number]
        restored = f"try {(retry_count or 0) + 1} as before {target.seen.verb}"
        outcomes.append(RowOutcome(target, refusal is None, refusal or restored))
    return outcomes


async def _since_then(conn: asyncpg.Connection, actions: Sequence[int]) -> dict[int, tuple[Any, str | None]]:
    """Return for each action when its order was given, and why it cannot be undone any more."""
    rows = await conn.fetch(statement(__name__, "undo_since"), actions) if actions else []
    return {row["id"]: (row["given_at"], row["since_then"]) for row in rows}


async def _take_back(conn: asyncpg.Connection, action: OperatorAction, targets: Sequence[Target]) -> set[int]:
    """Undo the actions that are only audit rows, and return those that no operator has acted on since."""
    by_statement: dict[SqlName, list[int]] = {}
    for target in targets:
        if (undoing := _taken_back(target.seen)) is not None:
            by_statement.setdefault(undoing, []).append(target.seen.id)
    return {
        row["id"]
        for undoing, actions in by_statement.items()
        for row in await conn.fetch(statement(*undoing), *action.values, actions)
    }


async def _invert(
    conn: asyncpg.Connection, action: OperatorAction, target: Target, given_at: datetime | None
) -> RowOutcome:
    """Apply the inverse verb to a worker, a queue, a schedule or a workflow, with an audit row of the undo."""
    done = VERBS[target.kind, target.seen.verb]
    if isinstance(done, ScheduleVerb) and done.taken_back is not None:
        (row,) = await schedule_targets.ordered(conn, action, done.taken_back, [target], [given_at])
        return row
    inverse = VERBS[target.kind, done.inverse or ""]
    if isinstance(inverse, WorkflowVerb):
        flow = (await read_flows(conn, [target.id])).get(target.id)
        if flow is None:
            return await write_refusal(conn, action, target, _GONE)
        given = [replace(target, seen=WorkflowFacts(flow))]
        (row,) = await workflow_targets.change(conn, action, inverse, given)
        return row
    given = [replace(target, seen=Since(given_at))]
    action = replace(action, verb=inverse.name)  # an order, which can be revoked like any other
    outcomes: list[RowOutcome] = await _ORDERED[target.kind].change(conn, action, inverse, given)
    return outcomes[0]
