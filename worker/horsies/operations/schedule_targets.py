"""Schedules as targets of verbs: what they send, when, and what operators ordered for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from horsies.domain.damage import json_map
from horsies.domain.ids import new_task_id, scheduled_task_id
from horsies.findings.cluster import read_cluster
from horsies.operations.audit_rows import apply_order, write_audit
from horsies.operations.facts import ScheduleFacts, StoredSchedule
from horsies.operations.target import OperationError, RowOutcome, Target, did_you_mean
from horsies.operations.verb import Preview, Refusal
from horsies.store.statements import statement
from horsies.views.schedules import SEEN_WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.verb import Options, ScheduleVerb, SqlName

WRITES: tuple[str, ...] = ("horsies_schedules", "horsies_schedule_state", "horsies_schedule_runs")


async def preview_of(conn: asyncpg.Connection, verb: ScheduleVerb, selection: Selection, options: Options) -> Preview:
    names = selection.ids
    async with conn.transaction():
        cluster = await read_cluster(conn)
        if "horsies_schedules" not in cluster.tables:
            raise OperationError(
                "this database has no tables for orders to schedules", help_text="run `horsies db upgrade`"
            )
        found = await read_schedules(conn, names)
        known = await known_names(conn) if len(found) < len(names) else {}
    facts = [
        replace(one, is_served=cluster.may_run(one.definition.target, one.definition.queue)) for one in found.values()
    ]
    reasons = {one.name: verb.refusal(one) for one in facts}
    eligible = [one for one in facts if reasons[one.name] is None]
    refused = [Refusal(_target(one), reason) for one in facts if (reason := reasons[one.name]) is not None]
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(map(_target, eligible)),
        refused=(*refused, *(_unknown(name, known) for name in names if name not in found)),
        consequences=tuple(map(verb.effect, eligible)),
        command=verb.command(names, options),
        taken_at=cluster.now,
    )


async def change(
    conn: asyncpg.Connection, action: OperatorAction, verb: ScheduleVerb, part: Sequence[Target]
) -> list[RowOutcome]:
    if verb.order is not None:
        slots = [[target.seen.next_run_at for target in part]] if verb.orders_slot else []
        return await ordered(conn, action, verb.order, part, *slots)
    return await verb.change(conn, action, part) if verb.change is not None else []


async def ordered(
    conn: asyncpg.Connection,
    action: OperatorAction,
    order: SqlName,
    part: Sequence[Target],
    *values: list[Any],
    guarded: bool = False,
) -> list[RowOutcome]:
    """Run the statement of an order for all targets at once, with these columns after those of the audit.

    `guarded`: it revokes the pause that was seen, but no newer one.
    """
    return await apply_order(conn, action, statement(*order), part, _states, *values, guarded=guarded)


async def send_now(
    conn: asyncpg.Connection, action: OperatorAction, order: SqlName, part: Sequence[Target]
) -> list[RowOutcome]:
    """Insert the tasks of these schedules, each with a new id, not the id of a slot.

    A workflow is only ordered: a scheduler that has its application builds it.
    """
    now = await conn.fetchval(statement(__name__, "schedules_now"))
    flows = {target.id: scheduled_task_id(target.id, now) for target in part if target.seen.definition.is_workflow}
    ids = {target.id: flows.get(target.id) or new_task_id() for target in part}
    shas = [None if target.id in flows else target.seen.definition.fingerprint(now) for target in part]
    columns = list(ids), [target.seen.registered_at for target in part], list(ids.values()), shas, [now] * len(part)
    rows = await conn.fetch(statement(*order), *action.values, *columns)
    sent = {name for (name,) in rows}
    outcomes = [
        RowOutcome(target, True, f"{'workflow' if target.id in flows else 'task'} {ids[target.id]}", ids[target.id])
        if target.id in sent
        else RowOutcome(target, False, "its definition has changed since the preview")
        for target in part
    ]
    if refused := [row for row in outcomes if not row.applied]:
        await write_audit(conn, action, refused)
    return outcomes


async def read_schedules(conn: asyncpg.Connection, names: Iterable[str]) -> dict[str, ScheduleFacts]:
    """Read the schedules of these names that a scheduler has defined, in this order."""
    rows = await conn.fetch(statement(__name__, "schedules_read"), list(names), SEEN_WITHIN_S)
    return {row["schedule_name"]: _facts(row) for row in rows}


async def known_names(conn: asyncpg.Connection) -> dict[str, bool]:
    """Read all names of schedules, and whether their definitions are known."""
    return {row["schedule_name"]: row["is_defined"] for row in await conn.fetch(statement(__name__, "schedule_names"))}


def _facts(row: Mapping[str, Any]) -> ScheduleFacts:
    name, definition, *rest = row.values()
    return ScheduleFacts(name, StoredSchedule(json_map(definition)), *rest)


async def _states(conn: asyncpg.Connection, names: Sequence[str]) -> dict[str, str]:
    now = await read_schedules(conn, names)
    return {name: f"it is {now[name].words}" if name in now else "its row was deleted" for name in names}


def _target(schedule: ScheduleFacts) -> Target:
    return Target("schedule", schedule.name, schedule.name, schedule.words, schedule)


def _unknown(name: str, known: Mapping[str, bool]) -> Refusal:
    target = Target("schedule", name, name, "unknown")
    if name in known:
        return Refusal(target, "only a scheduler of another library has planned it, so its definition is not known")
    hint = did_you_mean(name, (one for one, is_defined in known.items() if is_defined))
    return Refusal(target, f"no scheduler has registered a schedule of that name{hint}")
