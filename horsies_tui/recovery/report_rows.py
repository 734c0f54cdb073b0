"""The rows and sentences of the recovery report, with their countdowns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted, need_action
from horsies.findings import Severity, by_key
from horsies.views.workers import name_of
from horsies_tui.intents import Fact
from horsies_tui.look.cells import Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import count, number, ticking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from horsies.findings import Finding
    from horsies.findings.diagnose import Report
    from horsies_tui.feed.report import RecoverySnapshot

_MOST_IDS_SHOWN: Final = 3
_TONES: Final = {Severity.NEEDS_ACTION: Tone.BAD, Severity.HANDLED: Tone.WARNING, Severity.NOTE: Tone.MUTED}


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding as of `taken_at`. `remedies` are its verbs, each with its key."""

    id: str
    finding: Finding
    taken_at: datetime
    remedies: tuple[tuple[str, str], ...]

    def left(self, now: datetime) -> timedelta | None:
        """The time until the system acts; None if it does nothing, or the time is not known."""
        if self.finding.prediction.in_seconds is None:
            return None
        return max(timedelta(seconds=self.finding.prediction.in_seconds) - (now - self.taken_at), timedelta())


def rows_of(report: Report, key_of: Callable[[str], str]) -> tuple[FindingRow, ...]:
    """The rows in the report's order."""
    return tuple(
        FindingRow(key, finding, report.now, tuple((key_of(remedy.verb), remedy.verb) for remedy in finding.remedies))
        for key, finding in by_key(report.findings).items()
    )


def countdown(left: timedelta) -> str:
    """0:18, 12:05, 3:00:00."""
    minutes, seconds = divmod(int(left.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def headline(snapshot: RecoverySnapshot, now: datetime) -> str:
    """`3 need action · 4 handled automatically · next sweep in 0:18, the last was by web-2`."""
    report = snapshot.report
    if report is None:
        return snapshot.error or "reading the recovery report…"
    parts = [snapshot.error] if snapshot.error else []
    parts += [need_action(report.count(Severity.NEEDS_ACTION))]
    parts += [f"{report.count(Severity.HANDLED)} handled automatically"]
    return " · ".join((*parts, *_about_sweeps(report, now)))


def _about_sweeps(report: Report, now: datetime) -> Iterator[str]:
    if not report.workers_alive:
        yield "no worker is alive"
    if report.sweep is not None:
        by = f", the last was by {name_of(report.sweep.worker_id)}" if report.sweep.worker_id else ""
        if report.sweep.next_in_s is not None:
            left = max(timedelta(seconds=report.sweep.next_in_s) - (now - report.now), timedelta())
            yield f"next sweep in {countdown(left)}{by}"
    elif report.workers_alive:
        yield "no sweep has been recorded"
    if report.spared is not None and (until := report.spared.until) > now:
        yield f"no silent run counts as lost for {countdown(until - now)}"
    if report.settings_differ:
        yield "workers have different thresholds"


def nothing_wrong(report: Report) -> str:
    """Shown in the list if the report is empty."""
    workers = counted(report.workers_alive, "worker is alive", "workers are alive")
    return f"Nothing is stuck, and nothing needs action.\n{workers}."


def why_of(row: FindingRow) -> list[Fact]:
    """The finding in full: evidence, explanation, possible actions with their keys, and the affected rows."""
    finding = row.finding
    facts = [Fact("evidence", finding.evidence, Tone.STRONG)]
    facts += [Fact("" if place else "why", sentence) for place, sentence in enumerate(finding.why)]
    facts.append(Fact("automatic", finding.prediction.action))
    if row.remedies:
        facts.append(Fact("actions", _remedies(row), Tone.ACCENT))
    if finding.target_kind in ("task", "workflow"):
        facts.append(Fact(f"{finding.target_kind}s", _ids(finding), Tone.MUTED))
    return facts


def _ids(finding: Finding) -> str:
    shown = ", ".join(finding.ids[:_MOST_IDS_SHOWN])
    left = finding.count - min(len(finding.ids), _MOST_IDS_SHOWN)
    more = f" and {'at least ' if finding.at_least else ''}{number(left)} more" if left > 0 else ""
    limit = ""
    if finding.count > len(finding.ids):
        limit = f"; a verb takes the {number(len(finding.ids))} oldest, repeat it for the rest"
    return f"{shown}{more}{limit}"


def _what(row: FindingRow, look: Look) -> Cell:
    kind = row.finding.kind
    sign = look.glyphs.warning if kind.state is None else look.glyphs.state(kind.state)
    return Cell(f"{sign} {kind.name}", _TONES[row.finding.prediction.severity])


def _name(row: FindingRow, _look: Look) -> Cell:
    """A worker's name as on the workers screen; why_of shows its id."""
    finding = row.finding
    return Cell(name_of(finding.name) if finding.target_kind == "worker" else finding.name)


def _remedies(row: FindingRow) -> str:
    return "  ".join(f"{key} {verb}" for key, verb in row.remedies)


def _rows(row: FindingRow, look: Look) -> Cell:
    finding = row.finding
    if finding.count <= 1 and not finding.at_least:
        return Cell("")
    return Cell(f"{look.glyphs.times}{count(finding.count, at_least=finding.at_least)}")


def _since(row: FindingRow, look: Look) -> Cell:
    return Cell("" if row.finding.since is None else ticking(look.now - row.finding.since))


def _next_action(row: FindingRow, look: Look) -> Cell:
    left, prediction = row.left(look.now), row.finding.prediction
    if left is None:
        return Cell(prediction.action, Tone.MUTED if prediction.severity is Severity.NOTE else None)
    return Cell(f"{prediction.action} in {countdown(left)}", None, f"{countdown(left)} {prediction.action}")


def _remedies_cell(row: FindingRow, _look: Look) -> Cell:
    return Cell(_remedies(row), Tone.ACCENT, " ".join(key for key, _verb in row.remedies))


COLUMNS: Final[ColumnSet[FindingRow]] = ColumnSet(
    (
        Column("what", "WHAT", _what, 13, 18, grow=2),
        Column("name", "NAME", _name, 12, 17, grow=2),
        Column("rows", "ROWS", _rows, 5, priority=1, right=True),
        Column("since", "SINCE", _since, 5, right=True),
        Column("evidence", "EVIDENCE", lambda row, _look: Cell(row.finding.evidence), 15, 22, grow=8, priority=2),
        Column("will", "AUTOMATIC", _next_action, 15, 30, grow=3),
        Column("may", "ACTIONS", _remedies_cell, 7, 10, grow=2),
    )
)
