"""`horsies schedules resume`: continue a paused schedule with its next slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import clock, counted
from horsies.operations.verb import ScheduleVerb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.schedule_facts import ScheduleFacts
    from horsies.operations.target import RowOutcome, Target

_COUNTED = 1_000


def _refusal(schedule: ScheduleFacts) -> str | None:
    if schedule.paused_at is None:
        return "it is not paused"
    if schedule.next_run_at is not None and schedule.following is None:
        return "this release cannot read its pattern or zone, so its next slot is unknown: use the scheduler's release"
    return None


def _effect(schedule: ScheduleFacts) -> str:
    next_run_at = schedule.following
    goes_on = "continues as soon as a scheduler plans it" if next_run_at is None else f"next run {clock(next_run_at)}"
    passed = len(schedule.passed(_COUNTED))
    more = "at least " if passed == _COUNTED else ""
    missed = f"; {more}{counted(passed, 'slot')} missed, which will not be sent" if passed else "; no slot was missed"
    return f"{schedule.name}: {goes_on}{missed}"


async def _change(conn: asyncpg.Connection, action: OperatorAction, part: Sequence[Target]) -> list[RowOutcome]:
    from horsies.operations.schedule_targets import ordered, read_schedules

    now = await read_schedules(conn, [target.id for target in part])
    seen = [now[target.id].next_run_at if target.id in now else None for target in part]
    following = [now[target.id].following if target.id in now else None for target in part]
    return await ordered(conn, action, (__name__, "resume_schedule"), part, seen, following, guarded=True)


VERB = ScheduleVerb(
    name="resume",
    place=3,
    title="Resume",
    will="will continue",
    done="resumed",
    help="Resume paused schedules with their next slot; slots that have passed are not sent.",
    example="horsies schedules resume nightly",
    key="U",
    hint="Resume it with its next slot.",
    for_paused=True,
    footer=True,
    refusal=_refusal,
    effect=_effect,
    change=_change,
    inverse="pause",
)
