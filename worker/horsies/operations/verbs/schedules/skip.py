"""`horsies schedules skip`: the next slot of a schedule sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import clock
from horsies.operations.verb import ScheduleVerb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.schedule_facts import ScheduleFacts
    from horsies.operations.target import AuditedAction, RowOutcome, Target


def _refusal(schedule: ScheduleFacts) -> str | None:
    if schedule.paused_at is not None:
        return f"it is {schedule.words}, and sends nothing anyway"
    if schedule.next_run_at is None:
        return "no scheduler has planned its next run"
    if schedule.next_run_at == schedule.skip_slot:
        return f"it already skips the slot of {clock(schedule.next_run_at)}"
    return None


def _effect(schedule: ScheduleFacts) -> str:
    slot, after = schedule.next_run_at, schedule.after_next
    left_out = "its next slot" if slot is None else f"the slot of {clock(slot)}"
    return f"{schedule.name}: {left_out} sends nothing" + (f"; next run {clock(after)}" if after else "")


async def _change(conn: asyncpg.Connection, action: OperatorAction, part: Sequence[Target]) -> list[RowOutcome]:
    from horsies.operations.schedule_targets import ordered

    return await ordered(conn, action, (__name__, "skip_slot"), part, [target.seen.next_run_at for target in part])


def _no_way_back(action: AuditedAction) -> str | None:
    return None  # until the slot has passed


VERB = ScheduleVerb(
    name="skip",
    place=4,
    title="Skip",
    will="will skip a slot",
    done="skip their next slot",
    help="Skip the next slot of schedules; they continue with the one after it.",
    example="horsies schedules skip nightly --reason 'no data today'",
    key="S",
    hint="Skip its next slot.",
    refusal=_refusal,
    effect=_effect,
    change=_change,
    no_way_back=_no_way_back,
    taken_back=(__name__, "take_skip_back"),
)
