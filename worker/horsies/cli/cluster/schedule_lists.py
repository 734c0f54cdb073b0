"""`horsies schedules ls` and `horsies schedules next`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final

import typer

from horsies.cli.options import NOTHING_MATCHED
from horsies.cli.reading import ReadSession, read, understood
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import ago, damage_lines, lasting, marked, number, state
from horsies.display.json_output import print_json
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted
from horsies.domain.schedule_times import zone_named
from horsies.operations.schedule_targets import known_names
from horsies.query import parse_schedules
from horsies.store.embedded import default_place
from horsies.views import (
    NextRun,
    ScheduleRow,
    Schedules,
    ScheduleStory,
    Standing,
    next_runs,
    schedule_rows,
    schedule_story,
)
from horsies.views.row_filter import matching_schedules
from horsies.views.schedules import (
    NO_SCHEDULER,
    START,
    TEACHES,
    about_all_next,
    about_next,
    note,
    sends,
    served_by,
)

_SIGNS: Final = {
    Standing.SCHEDULED: ("·", ".", ""),
    Standing.PAUSED: ("⏸", "=", "magenta"),
    Standing.UNSERVED: ("⚠", "!", "yellow"),
    Standing.OVERDUE: ("▲", "!", "red"),
}
_SCHEDULES: Final = (
    TableColumn("STATE"),
    TableColumn("SCHEDULE", least=12),
    TableColumn("SENDS", least=12, rank=3),
    TableColumn("WHEN", least=12),
    TableColumn("NEXT", right=True),
    TableColumn("LAST", right=True),
    TableColumn("OUTCOME", rank=2),
    TableColumn("TOOK", right=True, rank=4),
    TableColumn("RUNS", right=True, rank=5),
    TableColumn("LAST RUNS", right=True, rank=6),
    TableColumn("NOTE", least=20, rank=1),
)
_NEXT: Final = (
    TableColumn("IN", right=True),
    TableColumn("HERE"),
    TableColumn("THERE"),
    TableColumn("NOTE", least=20, rank=1),
)
_COMPLETED_WITHIN_S: Final = 2.0


def list_schedules(choice: DatabaseChoice, text: str, *, as_json: bool) -> None:
    wanted = understood(text, parse_schedules)
    known = read(choice, "schedules ls", lambda session: schedule_rows(session.connection))
    found = matching_schedules(wanted, known.rows, known.now)
    if as_json:
        report = [_schedule_report(row, known.now) for row in found]
        print_json({"now": known.now, "filter": wanted.text, "schedules": report, "schedulers": known.schedulers})
    else:
        say(*_list_lines(found, known, wanted.text, Screen.of(sys.stdout)))


def show_next_runs(choice: DatabaseChoice, name: str, count: int, *, as_json: bool) -> None:
    async def work(session: ReadSession) -> tuple[ScheduleStory | None, list[str]]:
        story = await schedule_story(session.connection, name)
        known = () if story is not None else (await schedule_rows(session.connection)).rows
        return story, [row.name for row in known]

    story, names = read(choice, "schedules next", work)
    if story is None:
        near = get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near else "; `horsies schedules ls` lists them"
        say(f"no schedule is named {clean(name)}{hint}", stream=sys.stderr)
        raise typer.Exit(NOTHING_MATCHED)
    runs = next_runs(story.row, story.now, count)
    if as_json:
        print_json(_next_report(story, runs))
    else:
        say(*_next_lines(story, runs, Screen.of(sys.stdout)))


def _schedule_report(row: ScheduleRow, now: datetime) -> dict[str, Any]:
    definition = row.definition
    return {
        "name": row.name,
        "standing": row.standing(now),
        "when": None if definition is None else definition.words,
        "timezone": None if definition is None else definition.timezone,
        "sends": None if definition is None else {"kind": definition.kind, "name": definition.target},
        "queue": None if definition is None else definition.queue,
        "next_run_at": row.next_run_at,
        "overdue_s": row.overdue(now),
        "last_run_at": row.last_run_at,
        "run_count": row.run_count,
        "paused_at": row.paused_at,
        "paused_by": row.paused_by,
        "paused_reason": row.paused_reason,
        "skip_slot": row.skip_slot,
        "skipped_by": row.skipped_by,
        "schedulers": row.schedulers,
        "runs": [run._asdict() for run in row.runs],
    }


def _list_lines(found: list[ScheduleRow], known: Schedules, text: str, screen: Screen) -> Iterator[str]:
    if not known.rows:
        yield from (screen.glyph(line, line.replace("…", "...")) for line in TEACHES)
        return
    if found:
        yield from table(_SCHEDULES, [_schedule(row, known.now, screen) for row in found], screen)
        yield from damage_lines(found, screen)
    else:
        yield f"no schedule of {number(len(known.rows))} matches {text}"
        yield "`horsies schedules ls` shows them all, --filter-help explains filters"
    if known.more:
        yield f"only the first {counted(len(known.rows), 'schedule')} by name"
    yield from damage_lines(known.schedulers, screen)
    living = known.living(known.now)
    if living:
        yield served_by(living)
    elif any(row.definition is not None for row in known.rows):
        yield screen.paint(f"{NO_SCHEDULER}; {START}", "red")


def _schedule(row: ScheduleRow, now: datetime, screen: Screen) -> list[TableCell | str]:
    standing, last = row.standing(now), row.last
    sign = marked(_SIGNS[standing], standing, screen)
    return [
        sign,
        row.name,
        sends(row.definition),
        "" if row.definition is None else row.definition.words,
        "" if standing is Standing.PAUSED else _until(row.next_run_at, now),
        ago(row.last_run_at if last is None else last.sent_at, now),
        TableCell("") if last is None else state(last.state, screen),
        "" if last is None else lasting(last.duration(now)),
        number(row.run_count),
        "".join(state(run.state, screen).text[0] for run in reversed(row.runs)),
        TableCell(note(row, now, lasting), sign.style),
    ]


def _until(moment: datetime | None, now: datetime) -> str:
    return "now" if moment is None or moment <= now else f"in {lasting(moment - now)}"


def _next_report(story: ScheduleStory, runs: tuple[NextRun, ...]) -> dict[str, Any]:
    row = story.row
    zone = None if row.definition is None else zone_named(row.definition.timezone)
    return {
        "now": story.now,
        "schedule": row.name,
        "timezone": None if row.definition is None else row.definition.timezone,
        "note": about_all_next(row) or None,
        "runs": [
            {
                "at": run.at,
                "there": None if zone is None else run.at.astimezone(zone).isoformat(),
                "skipped": run.is_skipped,
                "clocks_change_s": run.shift,
            }
            for run in runs
        ],
    }


def _next_lines(story: ScheduleStory, runs: tuple[NextRun, ...], screen: Screen) -> Iterator[str]:
    row, now = story.row, story.now
    definition = row.definition
    about = [] if definition is None else [definition.words, f"sends {sends(definition)}"]
    yield "  ".join([screen.paint(clean(row.name), "bold"), *map(clean, about)])
    yield from damage_lines([row], screen)
    if general := about_all_next(row):
        yield screen.paint(general, "yellow")
    if not runs:
        yield "it is never due again"
        return
    zone = None if definition is None else zone_named(definition.timezone)
    cells: list[list[TableCell | str]] = []
    for run in runs:
        style = "yellow" if run.shift or run.is_skipped else ""
        there = "" if zone is None else _clock(run.at.astimezone(zone))
        what = TableCell(about_next(row, run, now), style)
        left = _until(run.at, now).removeprefix("in ")
        cells.append([left, _clock(run.at.astimezone()), there, what])
    columns = list(_NEXT)
    columns[2] = TableColumn("" if definition is None else definition.timezone.upper())
    yield from table(columns, cells, screen)


def _clock(there: datetime) -> str:
    """Format with the offset, which changes with the clocks: `Tue 2026-11-17 02:30:00 +01:00`."""
    return f"{there:%a %Y-%m-%d %H:%M:%S} {there.isoformat()[-6:]}"


def names_of_schedules(choice: DatabaseChoice) -> list[str]:
    """Return names for completion: none if the database does not answer at once, or does not exist."""

    async def names(session: ReadSession) -> list[str]:
        async with asyncio.timeout(_COMPLETED_WITHIN_S):
            return [name for name, is_defined in (await known_names(session.connection)).items() if is_defined]

    if choice.url is None and not os.path.isdir(default_place().data):  # noqa: PTH112 - as in make_if_wished
        return []
    with suppress(Exception):
        return read(choice, "completion", names)
    return []
