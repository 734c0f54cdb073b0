"""Operator actions on tasks: preview and apply."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from horsies.domain.ids import new_task_id
from horsies.lifecycle import operator_actions as by_hand
from horsies.lifecycle.following import follow
from horsies.lifecycle.operator_actions import ExpectedState, OperatorAction
from horsies.lifecycle.reopening import lock_families_of, reopen_for_tasks
from horsies.operations.audit import require_writable, standing
from horsies.operations.batches import in_batches
from horsies.operations.eligibility import Facts, Node, TaskVerb, consequences, is_terminal, why_not
from horsies.operations.preview import OperationError, Preview, Refusal, RowOutcome, Target
from horsies.operations.reruns import Arguments, checked, policy_retries, rerun
from horsies.operations.selection import freeze
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import asyncpg

    from horsies.lifecycle.operator_actions import TransitionResult
    from horsies.operations.actor import Actor
    from horsies.operations.preview import Outcome
    from horsies.operations.selection import Frozen, Selection

__all__ = ["TaskVerb", "apply", "preview"]

# Reruns carry their arguments through this process: a hundred of a megabyte each are the limit.
_MOST_COPIES = 100


async def preview(
    conn: asyncpg.Connection,
    verb: TaskVerb,
    selection: Selection,
    *,
    fresh_budget: bool = False,
    arguments: Arguments | None = None,
) -> Preview:
    """What the action would do to each selected row. Reads only. FilterError for a filter that cannot be read."""
    options = _options(verb, fresh_budget, arguments)
    # The clock before the rows: a deadline that has passed then has also passed when the row is read.
    now = (await standing(conn)).now
    frozen = await freeze(conn, selection)
    if arguments is not None and len(frozen.seen) + len(frozen.missing) != 1:
        raise OperationError(
            "edited arguments fit one task, and the selection is not one", help_text="rerun the others without editing"
        )
    seen = await _with_last_actions(conn, frozen.seen) if verb is TaskVerb.RERUN else frozen.seen
    facts = await _facts(conn, verb, seen, now, fresh_budget=fresh_budget)
    reasons = [(one, why_not(verb, one, facts)) for one in seen]
    eligible = [one for one, reason in reasons if reason is None]
    refused = [Refusal(_target(one), reason) for one, reason in reasons if reason is not None]
    refused += [Refusal(Target("task", lost, "?", "missing"), "no task has this id") for lost in frozen.missing]
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(map(_target, eligible)),
        refused=tuple(refused),
        consequences=consequences(verb, eligible, facts),
        filter=frozen.filter,
        command=_command(verb, selection, frozen, options),
        taken_at=now,
    )


async def apply(
    conn: asyncpg.Connection,
    preview: Preview,
    actor: Actor,
    reason: str | None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    batch: int = 500,
) -> Outcome:
    """Change the preview's eligible rows that are still as they were seen, with one audit row each.

    If cancelled, or interrupted from `on_progress(done, all)`, it ends the current batch and returns what was done.
    """
    await require_writable(conn)
    verb = TaskVerb(preview.verb)
    operation_id = UUID(new_task_id())
    deed = OperatorAction(operation_id, verb, actor.os_user, actor.os_host, reason, preview.filter)
    ended: list[str] = []

    async def step(part: Sequence[Target]) -> list[RowOutcome]:
        seen = [target.seen for target in part]
        became, copies = await _act(conn, verb, deed, seen, preview)
        targets = {target.id: target for target in part}
        ended.extend(one.task_id for one in seen if one.is_workflow_task and verb in _ENDS)
        return [_row_outcome(verb, targets[one.task_id], one, copies.get(one.task_id)) for one in became]

    # In the order in which each batch locks its rows, so that two operators lock the same rows in the same order.
    ordered = sorted(preview.eligible, key=attrgetter("id"))
    size = min(batch, _MOST_COPIES) if verb is TaskVerb.RERUN else batch
    outcome = await in_batches(conn, operation_id, verb, ordered, step, on_progress=on_progress, batch=size)
    await tell_workflows(conn, ended)
    return outcome


async def tell_workflows(conn: asyncpg.Connection, task_ids: Sequence[str]) -> None:
    """Advance the workflows. The changes stay, whatever happens here: the next reconciliation does what fails."""
    if not conn.is_closed():
        with suppress(*CONNECTION_ERRORS):
            await follow(conn, task_ids)


async def _act(
    conn: asyncpg.Connection, verb: TaskVerb, deed: OperatorAction, seen: Sequence[ExpectedState], preview: Preview
) -> tuple[list[TransitionResult], dict[str, str]]:
    """The results for the rows, and the ids of copies by original."""
    if verb is TaskVerb.RERUN:
        return await rerun(conn, deed, seen, preview.options.get("arguments", Arguments()))
    if verb is TaskVerb.REQUEUE:
        budgets = await _budgets(conn, seen) if preview.options.get("fresh_budget") else None
        return await _requeue(conn, deed, seen, budgets), {}
    return await _PLAIN[verb](conn, deed, seen), {}


async def _requeue(
    conn: asyncpg.Connection, deed: OperatorAction, seen: Sequence[ExpectedState], budgets: dict[str, int] | None
) -> list[TransitionResult]:
    """Includes the nodes that had ended with them, under the locks of their families."""
    inside = [one.task_id for one in seen if one.is_workflow_task]
    await lock_families_of(conn, inside)
    became = await by_hand.requeue(conn, deed, seen, budgets)
    living = {one.task_id for one in became if one.refusal is None}
    await reopen_for_tasks(conn, [task_id for task_id in inside if task_id in living])
    return became


_ENDS = frozenset({TaskVerb.FAIL, TaskVerb.CANCEL, TaskVerb.EXPIRE})

_PLAIN = {
    TaskVerb.FAIL: by_hand.fail,
    TaskVerb.CANCEL: by_hand.cancel,
    TaskVerb.EXPIRE: by_hand.expire,
    TaskVerb.RETRY_NOW: by_hand.retry_now,
    TaskVerb.RELEASE: by_hand.requeue,
}

_BECAME = {
    TaskVerb.FAIL: "FAILED",
    TaskVerb.CANCEL: "CANCELLED",
    TaskVerb.EXPIRE: "EXPIRED",
    TaskVerb.RETRY_NOW: "PENDING, due now",
}


def _row_outcome(verb: TaskVerb, target: Target, became: TransitionResult, new_id: str | None) -> RowOutcome:
    if became.refusal is not None:
        return RowOutcome(target, False, became.refusal)
    if verb is TaskVerb.RERUN:
        return RowOutcome(target, True, f"runs again as {new_id}", new_id)
    return RowOutcome(target, True, _BECAME.get(verb) or f"PENDING, try {(became.retry_count or 0) + 1}")


async def _budgets(conn: asyncpg.Connection, seen: Sequence[ExpectedState]) -> dict[str, int]:
    """Retries by id; the statement refuses a row that was deleted meanwhile."""
    rows = await conn.fetch(statement(__name__, "op_options"), [one.task_id for one in seen])
    return dict.fromkeys((one.task_id for one in seen), 0) | {row[0]: policy_retries(row[1]) for row in rows}


def _options(verb: TaskVerb, fresh_budget: bool, arguments: Arguments | None) -> dict[str, Any]:
    if fresh_budget and verb is not TaskVerb.REQUEUE:
        raise OperationError(f"a fresh budget belongs to requeue, not to {verb}", help_text="leave it out")
    if arguments is not None and verb is not TaskVerb.RERUN:
        raise OperationError(
            f"edited arguments belong to rerun, not to {verb}", help_text="a task keeps its own; rerun makes a new one"
        )
    options: dict[str, Any] = {"fresh_budget": True} if fresh_budget else {}
    return options if arguments is None else options | {"arguments": checked(arguments)}


async def _with_last_actions(conn: asyncpg.Connection, seen: Sequence[ExpectedState]) -> list[ExpectedState]:
    """A rerun does not change its original: only the audit shows that another operator has rerun it."""
    rows = await conn.fetch(statement(__name__, "op_last_actions"), [one.task_id for one in seen])
    newest = {row[0]: row[1] for row in rows}
    return [replace(one, last_action=newest.get(one.task_id)) for one in seen]


async def _facts(
    conn: asyncpg.Connection, verb: TaskVerb, seen: Sequence[ExpectedState], now: Any, *, fresh_budget: bool
) -> Facts:
    keyed = [one for one in seen if one.unique_key is not None and is_terminal(one)]
    inside = [one.task_id for one in seen if one.is_workflow_task]
    lives_again = verb in (TaskVerb.REQUEUE, TaskVerb.RERUN)
    holders = (
        await conn.fetch(statement(__name__, "op_key_holders"), [one.unique_key for one in keyed])
        if lives_again
        else []
    )
    nodes = await conn.fetch(statement(__name__, "op_workflows"), inside) if inside else []
    newest = {one.unique_key: one.task_id for one in sorted(keyed, key=attrgetter("task_id"))}
    return Facts(
        now=now,
        key_holders={row[0]: row[1] for row in holders},
        twins={one.task_id: newest[one.unique_key] for one in keyed if newest[one.unique_key] != one.task_id},
        nodes={row[0]: Node(row[1], row[2], row[3]) for row in nodes},
        fresh_budget=fresh_budget,
    )


def _target(seen: ExpectedState) -> Target:
    state = f"{seen.status} {seen.error_code}" if seen.error_code else seen.status
    return Target("task", seen.task_id, seen.task_name, state, seen, seen.queue_name)


def _command(verb: TaskVerb, selection: Selection, frozen: Frozen, options: dict[str, Any]) -> str:
    """The shell evaluates a filter again; selected rows are named, so that the command means the same rows."""
    chosen = list(selection.ids) if frozen.filter is None else ["--filter", frozen.filter]
    words = ["horsies", "tasks", str(verb), *chosen]
    if options.get("fresh_budget"):
        words.append("--fresh-budget")
    if arguments := options.get("arguments"):
        for name in ("args", "kwargs"):
            text = getattr(arguments, name)
            words += [] if text is None else [f"--{name}", text]
    return shlex.join(words)
