"""The deletion of old rows: is it on time?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import span
from horsies.lifecycle.retention import ages_in_use, ages_of, overdue_by
from horsies.store.statements import statement
from horsies.views.reader_session import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.doctor import CheckContext

_LATE_S: Final = 2 * 3_600.0
"""The sweep prunes once an hour; a large backlog takes it some more runs."""
_VERY_LATE_S: Final = 86_400.0
_REMEDY: Final = "horsies db prune --dry-run, then horsies db prune; and see why no worker does it each hour"


async def _retention(context: CheckContext) -> Iterable[CheckLine]:
    async with context.reading() as connection:
        if context.config is None:
            ages, worker = await ages_in_use(connection)
            whose = "the defaults" if worker is None else f"worker {worker}"
        else:
            ages, whose = ages_of(context.config.recovery), "the application"
        late = await overdue_by(connection, ages)
    last = await _last_sweep(context)
    lines = [
        CheckLine(
            CheckVerdict.FAIL if late_s > _VERY_LATE_S else CheckVerdict.WARN,
            f"{category.replace('_', ' ')}: the oldest was to be deleted {span(late_s)} ago "
            f"(kept {_kept(ages[category])}, by {whose}); {last}",
            _REMEDY,
        )
        for category, late_s in late.items()
        if late_s > _LATE_S
    ]
    kept = ", ".join(f"{category.replace('_', ' ')} {_kept(age)}" for category, age in ages.items())
    return lines or [CheckLine(CheckVerdict.OK, f"nothing is overdue; {last}; kept: {kept} (by {whose})")]


def _kept(age_s: float | None) -> str:
    return "for ever" if age_s is None else span(age_s)


async def _last_sweep(context: CheckContext) -> str:
    rows = await context.fetch(statement(__name__, "doctor_last_retention"))
    return f"last swept {span(decoded(rows[0]['ago_s']))} ago by {rows[0]['worker_id']}" if rows else "never swept yet"


CHECKS = (Check("retention", 120, _retention, needs_tables=True),)
