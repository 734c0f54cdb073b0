"""`horsies schedules pause`: a schedule sends nothing until it is resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import clock
from horsies.operations.verb import ScheduleVerb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.schedule_facts import ScheduleFacts
    from horsies.operations.target import RowOutcome, Target


def _refusal(schedule: ScheduleFacts) -> str | None:
    return None if schedule.paused_at is None else f"it is {schedule.words}"


def _effect(schedule: ScheduleFacts) -> str:
    would = "" if schedule.next_run_at is None else f"; its next run would be at {clock(schedule.next_run_at)}"
    return f"{schedule.name}: sends nothing until it is resumed, and does not catch up on missed runs{would}"


async def _change(conn: asyncpg.Connection, action: OperatorAction, part: Sequence[Target]) -> list[RowOutcome]:
    from horsies.operations.schedule_targets import ordered

    return await ordered(conn, action, (__name__, "pause_schedule"), part)


VERB = ScheduleVerb(
    name="pause",
    place=2,
    title="Pause",
    will="will be paused",
    done="paused",
    help="Pause schedules until they are resumed; tasks that they have sent continue.\n\n"
    "Slots that pass during the pause are never sent, even if `catch_up_missed` is set.",
    example="horsies schedules pause nightly --reason 'the warehouse is being moved'",
    key="P",
    hint="Pause the schedule until it is resumed.",
    for_paused=False,
    footer=True,
    on_recovery=True,
    refusal=_refusal,
    effect=_effect,
    change=_change,
    inverse="resume",
)
