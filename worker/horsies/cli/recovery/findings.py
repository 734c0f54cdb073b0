"""`horsies recovery ls`: the recovery report as a table, or as JSON."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from textwrap import wrap
from typing import Any, Final

from horsies.cli.database import advised
from horsies.cli.reading import ReadSession, read
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import ago, marked, number, short
from horsies.display.json_output import plain, print_json
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table, width_of
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted, need_action, span
from horsies.findings import Finding, Remedy, Severity
from horsies.findings.diagnose import Report, diagnose
from horsies.operations.named_targets import unshortened
from horsies.views.workers import name_of

_NAMED: Final = 5
_ABOVE: Final = 5
_COLUMNS: Final = (
    TableColumn("WHAT"),
    TableColumn("NAME", least=10),
    TableColumn("COUNT", right=True),
    TableColumn("ID", rank=3),
    TableColumn("SINCE", right=True, rank=4),
    TableColumn("EVIDENCE", least=16),
    TableColumn("AUTOMATIC", least=14, rank=2),
    TableColumn("ACTIONS", least=12, rank=1),
)
_AS_NAMED: Final = (
    "target_kind", "name", "ids", "count", "at_least", "since", "evidence", "why", "queue_name", "worker_id",
)  # fmt: skip
_MARKS: Final = {
    Severity.NEEDS_ACTION: ("▲", "!", "red"),
    Severity.HANDLED: ("↻", "~", "yellow"),
    Severity.NOTE: ("·", ".", "dim"),
}


def list_findings(choice: DatabaseChoice, *, why: bool, doctor: bool, as_json: bool) -> None:
    """Print the recovery report. `doctor`: examine the database, too, which takes some tenths of a second."""

    async def work(session: ReadSession) -> tuple[str, Report]:
        return session.label, await diagnose(session.connection)

    label, report = read(choice, "recovery ls", work)
    if doctor:
        from horsies.cli.recovery.doctor import examined
        from horsies.doctor.examine import database_findings

        report = report.with_more(database_findings(asyncio.run(examined(choice, None))[1]))
    if as_json:
        print_json(plain(report) | {"database": label, "findings": [_as_json(finding) for finding in report.findings]})
    else:
        say(*_lines(report, Screen.of(sys.stdout), why=why))


def _as_json(finding: Finding) -> dict[str, Any]:
    prediction = finding.prediction
    return {
        "kind": finding.kind.name,
        "severity": prediction.severity.name.lower(),
        **{name: getattr(finding, name) for name in _AS_NAMED},
        "system_will": prediction.action,
        "in_seconds": prediction.in_seconds,
        "may": finding.remedies,
    }


def _lines(report: Report, screen: Screen, *, why: bool) -> Iterator[str]:
    yield screen.paint(_headline(report), "bold")
    if report.spared is not None:
        yield report.spared.words()
    yield from _rules(report, screen)
    if report.settings_differ:
        yield "living workers have different recovery settings: the next sweep may go by other thresholds"
    if not report.findings:
        yield "nothing is stuck: every task is where it should be"
        return
    yield from _findings(report, screen)
    if not why:
        yield screen.paint(
            "--why says more, with the commands that help; horsies tasks show ID shows a task in full", "dim"
        )
        return
    for finding in report.findings:
        yield ""
        yield screen.paint(clean(finding.what), "bold")
        yield from (f"  {clean(sentence)}" for sentence in finding.why)
        yield from (f"  {_command(remedy, screen)}" for remedy in finding.remedies)


def _findings(report: Report, screen: Screen) -> Iterator[str]:
    """Yield one line for each finding if the terminal is wide enough, otherwise a few."""
    cells = [_cells(finding, report, screen) for finding in report.findings]
    whole = table(_COLUMNS, cells, replace(screen, width=None))
    if screen.width is None or max(width_of(line) for line in table(_COLUMNS, cells, Screen())) <= screen.width:
        yield from whole
        return
    above = table(_COLUMNS[:_ABOVE], [row[:_ABOVE] for row in cells], screen)
    yield above[0]
    for line, row in zip(above[1:], cells, strict=True):
        evidence, will, may = (clean(cell if isinstance(cell, str) else cell.text) for cell in row[_ABOVE:])
        yield line
        for sentence in (f"{evidence} {screen.glyph('→', '->')} {will}", f"actions: {may}"):
            yield from wrap(sentence, screen.width, initial_indent="  ", subsequent_indent="    ")


def _headline(report: Report) -> str:
    notes = report.count(Severity.NOTE)
    parts = [need_action(report.count(Severity.NEEDS_ACTION))]
    parts.append(f"{report.count(Severity.HANDLED)} handled automatically")
    parts += [f"{notes} for information"] if notes else []
    return ", ".join([*parts, _next_sweep(report)])


def _next_sweep(report: Report) -> str:
    if not report.workers_alive:
        return "no worker is alive to sweep: horsies recovery run sweeps once"
    if report.sweep is None or report.sweep.next_in_s is None:
        return "no sweep has been recorded"
    if report.sweep.next_in_s == 0:
        since = span((report.now - report.sweep.ran_at).total_seconds())
        worker = name_of(report.sweep.worker_id) if report.sweep.worker_id else "a worker without a name"
        return f"the next sweep is due, the last was {since} ago by {worker}"
    return f"next sweep in {span(report.sweep.next_in_s)}"


def _rules(report: Report, screen: Screen) -> Iterator[str]:
    """Yield which workers sweep by which rules, without rules that no live worker has on."""
    for sweep in report.sweeps:
        if sweep.workers and sweep.threshold_ms is not None:
            every, after = span(sweep.interval_ms / 1000), span(sweep.threshold_ms / 1000)
            last = f"last {span((report.now - sweep.ran_at).total_seconds())} ago by {clean(sweep.worker_id or '?')}"
            on = f"on in {counted(sweep.workers, 'worker')}"
            yield screen.paint(f"{sweep.rule} silent for {after}: swept every {every}, {last}, {on}", "dim")


def _cells(finding: Finding, report: Report, screen: Screen) -> list[TableCell | str]:
    # Several ids are in the commands of --why.
    is_one_task = finding.target_kind == "task" and finding.count == 1
    in_seconds = finding.prediction.in_seconds
    # A sweep may come later, if its worker has just died.
    when = "" if in_seconds is None else f" in {span(in_seconds)}" if in_seconds > 0 else " at the next sweep"
    verbs = (one.verb if one.target_kind == "task" else f"{one.verb} the {one.target_kind}" for one in finding.remedies)
    return [
        marked(_MARKS[finding.prediction.severity], finding.kind.name, screen),
        name_of(finding.name) if finding.target_kind == "worker" else finding.name,
        f"{number(finding.count)}{'+' if finding.at_least else ''}",
        short(finding.ids[0], screen) if is_one_task else "",
        ago(finding.since, report.now),
        finding.evidence,
        f"{finding.prediction.action}{when}",
        ", ".join(verbs),
    ]


def _command(remedy: Remedy, screen: Screen) -> str:
    """Return the command of the remedy, for the first few of many tasks."""
    ids = [unshortened(short(one, screen)) if remedy.target_kind == "task" else clean(one) for one in remedy.ids]
    options = [word for name, value in remedy.options.items() for word in (f"--{name}", clean(value))]
    command = advised(shlex.join(["horsies", f"{remedy.target_kind}s", remedy.verb, *ids[:_NAMED], *options]))
    left = len(remedy.ids) - _NAMED
    return f"{command}  # and {left} more: --json lists them" if left > 0 else command
