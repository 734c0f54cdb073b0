"""`horsies schedules run-now`: run a schedule now, in addition to its plan."""

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
    return schedule.definition.problem


def _effect(schedule: ScheduleFacts) -> str:
    planned = "it is paused" if schedule.paused_at is not None else "no run is planned"
    if schedule.paused_at is None and schedule.next_run_at is not None:
        planned = f"next run {clock(schedule.next_run_at)}"
    return f"{schedule.name}: {_sends(schedule)}; its plan stays: {planned}"


def _sends(schedule: ScheduleFacts) -> str:
    sent = schedule.definition
    if sent.is_workflow:
        when = (
            "within a second"
            if schedule.has_scheduler
            else "when one with this schedule runs, within a day: none runs now"
        )
        return f"a scheduler starts {sent.target} {when}, and `horsies workflows cancel ID` ends it"
    served = "" if schedule.is_served else ", which no living worker serves: it waits for one"
    return f"sends {sent.target} to queue {sent.queue} now{served}, and `horsies tasks cancel ID` stops it"


async def _change(conn: asyncpg.Connection, action: OperatorAction, part: Sequence[Target]) -> list[RowOutcome]:
    from horsies.operations.schedule_targets import send_now

    return await send_now(conn, action, (__name__, "run_schedule_now"), part)


def _no_way_back(action: AuditedAction) -> str:
    sent = action.new_id or "ID"
    return f"what it sent is independent of it: `horsies tasks cancel {sent}`, or `horsies workflows cancel {sent}`"


VERB = ScheduleVerb(
    name="run-now",
    place=1,
    title="Run now",
    will="will be sent now",
    done="sent now",
    help="Run schedules now, in addition to their plans.\n\n"
    "A task is sent without a scheduler, even while the schedule is paused; a workflow needs a running scheduler of "
    "its application. `horsies tasks cancel ID`, or `horsies workflows cancel ID`, stops it.",
    example="horsies schedules run-now nightly --reason 'yesterday was missed'",
    key="R",
    hint="Run it now, in addition to its plan.",
    footer=True,
    refusal=_refusal,
    effect=_effect,
    change=_change,
    no_way_back=_no_way_back,
)
