"""The doctor's warnings as findings of the recovery report, one for each check.

The report itself does not examine the database: an examination opens further connections and takes 0.1 to 0.3 s, ten
times as long as a report. The console examines it every minute, `horsies recovery ls` with `--doctor`.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from horsies.doctor import CheckLine, CheckVerdict
from horsies.domain.quantities import clock
from horsies.findings import Finding, FindingKind, PredictedAction, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from horsies.doctor.examine import Examination

DATABASE = FindingKind(
    "database", 250, alert="horsies doctor: {name}", alerts="horsies doctor: {findings} checks, with {count} lines"
)
_SHOWN_OTHERWISE: Final = frozenset({"locks", "clocks", "recovery settings"})
"""The console has alerts of its own about locks, clocks and settings."""


def database_findings(found: Examination) -> list[Finding]:
    """Return a finding for each check with a line that warns or fails."""
    bad = [line for line in found.lines if line.verdict in (CheckVerdict.WARN, CheckVerdict.FAIL)]
    by_check = groupby((line for line in bad if line.check not in _SHOWN_OTHERWISE), attrgetter("check"))
    return [_finding(check, list(lines), found.now) for check, lines in by_check]


def _finding(check: str, lines: Sequence[CheckLine], now: datetime) -> Finding:
    first = next((line for line in lines if line.verdict is CheckVerdict.FAIL), lines[0])
    fails = first.verdict is CheckVerdict.FAIL
    more = f" (and {len(lines) - 1} more)" if lines[1:] else ""
    # A warning may stand for weeks, and nobody reads a verdict that is never healthy.
    severity = Severity.NEEDS_ACTION if fails else Severity.NOTE
    return Finding(
        kind=DATABASE,
        target_kind="database",
        name=check,
        count=len(lines),
        evidence=f"{first.evidence}{more}",
        prediction=PredictedAction(f"nothing: `horsies doctor` {'fails' if fails else 'warns'}", severity),
        why=tuple(_why(lines, now)),
    )


def _why(lines: Sequence[CheckLine], now: datetime) -> Iterator[str]:
    for line in lines:
        yield f"{line.verdict.value}: {line.evidence}"
        if line.remedy:
            yield f"To mend it: {line.remedy}"
    yield f"CheckLine at {clock(now)}; `horsies doctor` examines it again."
