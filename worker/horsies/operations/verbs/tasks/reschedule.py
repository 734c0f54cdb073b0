"""`horsies tasks reschedule`: make waiting tasks due at another time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.operations.target import OperationError
from horsies.operations.verb import NewValue, Option, TaskVerb, sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from horsies.operations.facts import TaskFacts
    from horsies.operations.verb import Options


def _check(options: Options) -> Options:
    if len(options) != 1:
        raise OperationError(
            "no time is given" if not options else "more than one time is given",
            help_text="give one of --at 2026-11-20T03:00 (UTC), --in 10m and --now",
        )
    return options


def _due(options: Options, now: datetime) -> datetime | None:
    """Return when it is due; None for now."""
    from horsies.query.values import read_ahead, read_delay

    try:
        if "delay" in options:
            return read_delay(options["delay"], now)
        return read_ahead(options["at"], now) if "at" in options else None
    except ValueError as error:
        raise OperationError(str(error), help_text="--at 2026-11-20T03:00 (UTC), --in 10m, or --now") from error


def _read(text: str) -> Options:
    text = text.strip()
    if text.lower() == "now":
        return {"now": True}
    # A duration has no colon and no hyphen; `in` may stand before it.
    length = text.removeprefix("in ").strip()
    return {"at": text} if ":" in text or "-" in text else {"delay": length}


def _became(value: datetime | None) -> str:
    from horsies.domain.quantities import clock

    return "PENDING, due now" if value is None else f"PENDING, due {clock(value)}"


def _effects(facts: TaskFacts) -> Iterator[str]:
    from horsies.domain.quantities import clock, span
    from horsies.operations.task_targets import VALUE

    due: datetime | None = facts.options[VALUE]
    if due is None:
        yield "due now: workers with room claim them in the order of their queue"
    else:
        yield f"due {clock(due)}, in {span((due - facts.now).total_seconds())}; none starts earlier"


VERB = TaskVerb(
    name="reschedule",
    place=10,
    title="Reschedule",
    will="will be rescheduled",
    done="rescheduled",
    help="Change when waiting tasks are due, including those that wait for a retry.",
    example="horsies tasks reschedule --filter 'status:pending name:shop.report' --at 2026-11-20T03:00",
    key="B",
    hint="Change when waiting tasks start.",
    label="due time",
    options=(
        Option(
            "at", "The time, in UTC unless it names a zone; `03:00` is today or tomorrow, whichever is next.", "TIME"
        ),
        Option("delay", "Delay from the preview: `10m`, `1h30m`.", "DURATION", flags=("--in",)),
        Option("now", "At once."),
    ),
    gives=NewValue("Due when", "now, in 10m, 03:00 or 2026-11-20T03:00 (UTC)", _read, _due, _became, "due"),
    check=_check,
    sources=sources("reschedule"),
    wrong_state=lambda status: f"it is {status}; only a PENDING task waits for a time",
    refuses=(__name__, "reschedule_refusal"),
    sets=(__name__, "reschedule_sets"),
    past="rescheduled",
    in_workflows="a paused workflow keeps its tasks waiting whatever their time is",
    effects=_effects,
    guards_against_others=True,
)
