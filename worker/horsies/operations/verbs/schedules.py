"""The verbs for schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import clock, counted
from horsies.operations.verb import ScheduleVerb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.facts import ScheduleFacts
    from horsies.operations.target import AuditedAction, RowOutcome, Target

_COUNTED: Final = 1_000


def _effect_of_run_now(schedule: ScheduleFacts) -> str:
    planned = "it is paused" if schedule.paused_at is not None else "no run is planned"
    if schedule.paused_at is None and schedule.next_run_at is not None:
        planned = f"next run {clock(schedule.next_run_at)}"
    sent = schedule.definition
    if sent.is_workflow:
        none_runs = "when one with this schedule runs, within a day: none runs now"
        when = "within a second" if schedule.has_scheduler else none_runs
        sends = f"a scheduler starts {sent.target} {when}, and `horsies workflows cancel ID` ends it"
    else:
        served = "" if schedule.is_served else ", which no living worker serves: it waits for one"
        sends = f"sends {sent.target} to queue {sent.queue} now{served}, and `horsies tasks cancel ID` stops it"
    return f"{schedule.name}: {sends}; its plan stays: {planned}"


async def _run_now(conn: asyncpg.Connection, action: OperatorAction, part: Sequence[Target]) -> list[RowOutcome]:
    from horsies.operations.schedule_targets import send_now

    return await send_now(conn, action, (__name__, "run_schedule_now"), part)


def _independent(action: AuditedAction) -> str:
    sent = action.new_id or "ID"
    return f"what it sent is independent of it: `horsies tasks cancel {sent}`, or `horsies workflows cancel {sent}`"


_RUN_NOW = ScheduleVerb(
    name="run-now",
    will="will be sent now",
    done="sent now",
    help="Run schedules now, in addition to their plans.\n\n"
    "A task is sent without a scheduler, even while the schedule is paused; a workflow needs a running scheduler of "
    "its application. `horsies tasks cancel ID`, or `horsies workflows cancel ID`, stops it.",
    example="horsies schedules run-now nightly --reason 'yesterday was missed'",
    key="R",
    hint="Run it now, in addition to its plan.",
    footer=True,
    refusal=lambda schedule: schedule.definition.problem,
    effect=_effect_of_run_now,
    change=_run_now,
    no_way_back=_independent,
)


def _effect_of_pause(schedule: ScheduleFacts) -> str:
    would = "" if schedule.next_run_at is None else f"; its next run would be at {clock(schedule.next_run_at)}"
    return f"{schedule.name}: sends nothing until it is resumed, and does not catch up on missed runs{would}"


_PAUSE = ScheduleVerb(
    name="pause",
    done="paused",
    help="Pause schedules until they are resumed; tasks that they have sent continue.\n\n"
    "Slots that pass during the pause are never sent, even if `catch_up_missed` is set.",
    example="horsies schedules pause nightly --reason 'the warehouse is being moved'",
    key="P",
    hint="Pause the schedule until it is resumed.",
    for_paused=False,
    footer=True,
    on_recovery=True,
    refusal=lambda schedule: None if schedule.paused_at is None else f"it is {schedule.words}",
    effect=_effect_of_pause,
    order=(__name__, "pause_schedule"),
    inverse="resume",
)


def _cannot_resume(schedule: ScheduleFacts) -> str | None:
    if schedule.paused_at is None:
        return "it is not paused"
    if schedule.next_run_at is not None and schedule.following is None:
        return "this release cannot read its pattern or zone, so its next slot is unknown: use the scheduler's release"
    return None


def _effect_of_resume(schedule: ScheduleFacts) -> str:
    next_run_at = schedule.following
    goes_on = "continues as soon as a scheduler plans it" if next_run_at is None else f"next run {clock(next_run_at)}"
    passed = len(schedule.passed(_COUNTED))
    more = "at least " if passed == _COUNTED else ""
    missed = f"; {more}{counted(passed, 'slot')} missed, which will not be sent" if passed else "; no slot was missed"
    return f"{schedule.name}: {goes_on}{missed}"


async def _resume(conn: asyncpg.Connection, action: OperatorAction, part: Sequence[Target]) -> list[RowOutcome]:
    from horsies.operations.schedule_targets import ordered, read_schedules

    now = await read_schedules(conn, [target.id for target in part])
    seen = [now[target.id].next_run_at if target.id in now else None for target in part]
    following = [now[target.id].following if target.id in now else None for target in part]
    return await ordered(conn, action, (__name__, "resume_schedule"), part, seen, following, guarded=True)


_RESUME = ScheduleVerb(
    name="resume",
    will="will continue",
    done="resumed",
    help="Resume paused schedules with their next slot; slots that have passed are not sent.",
    example="horsies schedules resume nightly",
    key="U",
    hint="Resume it with its next slot.",
    for_paused=True,
    footer=True,
    refusal=_cannot_resume,
    effect=_effect_of_resume,
    change=_resume,
    inverse="pause",
)


def _cannot_skip(schedule: ScheduleFacts) -> str | None:
    if schedule.paused_at is not None:
        return f"it is {schedule.words}, and sends nothing anyway"
    if schedule.next_run_at is None:
        return "no scheduler has planned its next run"
    if schedule.next_run_at == schedule.skip_slot:
        return f"it already skips the slot of {clock(schedule.next_run_at)}"
    return None


def _effect_of_skip(schedule: ScheduleFacts) -> str:
    slot, after = schedule.next_run_at, schedule.after_next
    skipped = "its next slot" if slot is None else f"the slot of {clock(slot)}"
    return f"{schedule.name}: {skipped} sends nothing" + (f"; next run {clock(after)}" if after else "")


_SKIP = ScheduleVerb(
    name="skip",
    will="will skip a slot",
    done="skip their next slot",
    help="Skip the next slot of schedules; they continue with the one after it.",
    example="horsies schedules skip nightly --reason 'no data today'",
    key="S",
    hint="Skip its next slot.",
    refusal=_cannot_skip,
    effect=_effect_of_skip,
    order=(__name__, "skip_slot"),
    orders_slot=True,
    no_way_back=lambda _: None,  # until the slot has passed
    taken_back=(__name__, "take_skip_back"),
)

VERBS = (_RUN_NOW, _PAUSE, _RESUME, _SKIP)
