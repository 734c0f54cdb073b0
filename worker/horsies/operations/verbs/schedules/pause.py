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
    would = "" if schedule.next_run_at is None else f"; its next run would be that of {clock(schedule.next_run_at)}"
    return f"{schedule.name}: sends nothing until it is resumed, nor what it misses meanwhile{would}"


async def _change(conn: asyncpg.Connection, action: OperatorAction, part: Sequence[Target]) -> list[RowOutcome]:
    from horsies.operations.schedule_targets import ordered

    return await ordered(conn, action, (__name__, "pause_schedule"), part)


VERB = ScheduleVerb(
    name="pause",
    place=2,
    title="Pause",
    will="will be paused",
    done="paused",
    help="Send nothing for schedules until they are resumed; what they have sent continues.\n\n"
    "Slots that pass meanwhile are not sent afterwards, also where `catch_up_missed` is set.",
    example="horsies schedules pause nightly --reason 'the warehouse is being moved'",
    key="P",
    hint="Let a schedule send nothing until it is resumed.",
    for_paused=False,
    footer=True,
    on_recovery=True,
    refusal=_refusal,
    effect=_effect,
    change=_change,
    inverse="resume",
)
