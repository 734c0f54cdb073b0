"""`horsies schedules run-now`: what a schedule sends is sent once more, now; its plan stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.operations.formatting import clock
from horsies.operations.verb import ScheduleVerb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.operations.audit import OperatorAction
    from horsies.operations.preview import AuditedAction, RowOutcome, Target
    from horsies.operations.schedules import ScheduleFacts


def _refusal(schedule: ScheduleFacts) -> str | None:
    return schedule.definition.problem


def _effect(schedule: ScheduleFacts) -> str:
    sent = schedule.definition
    served = "" if schedule.is_served else ", which no living worker takes: it waits for one"
    planned = "it is paused" if schedule.paused_at is not None else "no run is planned"
    if schedule.paused_at is None and schedule.next_run_at is not None:
        planned = f"next run {clock(schedule.next_run_at)}"
    return (
        f"{schedule.name}: sends {sent.target} to queue {sent.queue} now{served}; its plan stays: {planned}."
        " A task that was sent cannot be unsent: `horsies tasks cancel ID` takes it out of its queue"
    )


async def _change(conn: asyncpg.Connection, action: OperatorAction, part: Sequence[Target]) -> list[RowOutcome]:
    from horsies.operations.schedules import send_now

    return await send_now(conn, action, (__name__, "run_schedule_now"), part)


def _no_way_back(action: AuditedAction) -> str:
    return f"what it sent is a task of its own: `horsies tasks cancel {action.new_id or 'ID'}` instead"


VERB = ScheduleVerb(
    name="run-now",
    place=1,
    title="Run now",
    will="will be sent now",
    done="sent now",
    help="Send what schedules send, once more and now; their plans stay as they are.\n\n"
    "It needs no scheduler, and works for a paused schedule as well. `horsies tasks cancel ID` stops what was sent.",
    example="horsies schedules run-now nightly --reason 'yesterday was lost'",
    key="R",
    hint="Send it once more, now; its plan stays.",
    footer=True,
    refusal=_refusal,
    effect=_effect,
    change=_change,
    no_way_back=_no_way_back,
)
