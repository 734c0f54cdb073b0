"""The schedules screen without a terminal: cells, orders, the story of one, and why the list is empty."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from rich.cells import cell_len
from schedule_scene import AT_HALF_PAST_TWO, EVERY_5_MIN, a_run, a_schedule

from horsies.config.contexts import DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.operations.target import Actor
from horsies.views import ScheduleRow, SchedulerRow, ScheduleRun, Schedules, ScheduleStory
from horsies_tui.feed.clock import DatabaseClock
from horsies_tui.feed.link import DatabaseLink
from horsies_tui.look.cells import Look
from horsies_tui.look.glyphs import ASCII, UNICODE, Glyphs
from horsies_tui.look.lines import row_line
from horsies_tui.look.tones import Tone
from horsies_tui.schedules.columns import SCHEDULE_COLUMNS, ScheduleSort, in_order
from horsies_tui.schedules.document import ScheduleContext, document
from horsies_tui.schedules.feed import SchedulesSnapshot
from horsies_tui.schedules.schedule_texts import empty, schedulers, summary
from horsies_tui.story.lines import Line, OpenTask, OpenWorkflow, Section, ShowTasks

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
SCHEDULER = SchedulerRow("web-1-7-aa", "web-1", 7, frozenset({"nightly"}), "1.0.0", NOON - HOUR, NOON)


def cells(row: ScheduleRow, look: Look | None = None) -> dict[str, Any]:
    return {column.key: column.cell(row, look or Look(NOON)) for column in SCHEDULE_COLUMNS.columns}


def texts(row: ScheduleRow) -> dict[str, str]:
    return {key: cell.text for key, cell in cells(row).items()}


def told(row: ScheduleRow, glyphs: Glyphs = UNICODE, **changes: Any) -> ScheduleContext:
    story = ScheduleStory(NOON, row, (SCHEDULER,), ())
    return ScheduleContext(replace(story, **changes), row, NOON, glyphs, UTC)


def sections(tell: ScheduleContext, width: int = 118) -> dict[str, Section]:
    return {section.key: section for band in document(tell, width) for section in band.sections}


def lines(section: Section) -> list[str]:
    return [line.text.rstrip() for line in section.lines]


def line(section: Section, word: str) -> Line:
    (found,) = [one for one in section.lines if word in one.text]
    return found


def an_idle_link() -> DatabaseLink:
    url = DatabaseUrl.parse("postgresql://ops@db01/app")
    choice = DatabaseChoice(url, "given", None)
    return DatabaseLink(choice, read_only=False, actor=Actor("ops", "bastion"), clock=DatabaseClock())


# The list.


@pytest.mark.parametrize(
    ("changes", "said", "tone"),
    [
        ({"next_run_at": NOON + 45 * SECOND}, "45s", None),
        ({"next_run_at": NOON + 4 * MINUTE + 15 * SECOND}, "4m10s", None),
        ({"next_run_at": NOON - 5 * SECOND}, "now", None),
        ({"next_run_at": NOON - 6 * MINUTE}, "6m late", Tone.BAD),
        ({"next_run_at": NOON - 6 * MINUTE, "paused_at": NOON - HOUR}, "", Tone.INTERRUPTED),
        ({"next_run_at": NOON + HOUR, "skip_slot": NOON + HOUR}, "1h00m", Tone.WARNING),
        ({"next_run_at": None}, "now", None),
    ],
)
def test_the_next_run_is_counted_down_and_an_overdue_one_is_loud(
    changes: dict[str, Any], said: str, tone: Tone | None
) -> None:
    cell = cells(a_schedule(**changes))["next"]
    assert (cell.text, cell.tone) == (said, tone)


def test_the_runs_are_a_strip_with_a_sign_and_a_tone_each_the_newest_at_the_right() -> None:
    states = ("RUNNING", "FAILED", "SKIPPED", "EXPIRED", "PRUNED", "COMPLETED")
    row = a_schedule(runs=tuple(a_run(NOON - number * HOUR, state) for number, state in enumerate(states)))
    strip = cells(row)["runs"]
    assert strip.text == "✓∅†⊘✗▶"
    assert strip.tones[-2:] == (Tone.FAILED, Tone.RUNNING)
    assert cells(row, Look(NOON, ASCII))["runs"].text.isascii()
    assert cells(a_schedule())["runs"].text == ""


def test_each_sign_of_the_strip_is_drawn_in_its_own_tone_and_the_line_keeps_its_width() -> None:
    row = a_schedule(runs=(a_run(NOON, "FAILED"), a_run(NOON - HOUR)), next_run_at=NOON + HOUR)
    for width in (80, 120, 200):
        line = row_line(row, SCHEDULE_COLUMNS.place(width), Look(NOON), width, cursor=False, marked=False, struck=False)
        assert sum(piece.width for piece in line) == width
        tones = {piece.text: piece.classes for piece in line if piece.text in ("✓", "✗")}
        assert tones == {"✓": (Tone.COMPLETED,), "✗": (Tone.FAILED,)}


def test_what_a_schedule_is_and_how_its_last_run_ended_stands_in_its_row() -> None:
    runs = (a_run(NOON - 12 * MINUTE, "FAILED", took_s=62, error_code="TIMEOUT"),)
    row = a_schedule(runs=runs, next_run_at=NOON + HOUR, timezone="Europe/Berlin", kind="workflow", target="month_end")
    said = texts(row)
    assert (said["state"], said["sends"]) == ("· scheduled", "workflow month_end")
    assert (said["when"], cells(row)["when"].brief) == ("daily 02:30 Europe/Berlin", "daily 02:30")
    assert (said["last"], said["took"], said["note"]) == ("12m", "1m02s", "TIMEOUT")


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        (
            {"paused_at": NOON - 12 * MINUTE, "paused_by": "ops@db", "paused_reason": "no"},
            'paused 12m ago by ops@db: "no"',
        ),
        ({"next_run_at": NOON - 6 * MINUTE}, "due for 6m00s"),
        ({"next_run_at": NOON - 6 * MINUTE, "schedulers": ()}, "due for 6m00s, no scheduler serves it"),
        ({"next_run_at": NOON + HOUR, "schedulers": ()}, "no scheduler serves it"),
        (
            {"next_run_at": NOON, "skip_slot": NOON, "skipped_by": "ops@db"},
            "its next run is skipped by order of ops@db",
        ),
    ],
)
def test_the_note_says_what_to_know_about_a_schedule(changes: dict[str, Any], note: str) -> None:
    assert texts(a_schedule(**changes))["note"] == note


def test_orders_of_the_list() -> None:
    rows = [
        a_schedule("b", next_run_at=NOON + HOUR, runs=(a_run(NOON - HOUR),)),
        a_schedule("c", next_run_at=NOON - HOUR),
        a_schedule("a", next_run_at=NOON + 2 * HOUR, runs=(a_run(NOON - MINUTE),)),
        a_schedule("d", next_run_at=NOON - 2 * HOUR, paused_at=NOON),
    ]
    orders = {sort: "".join(row.name for row in in_order(rows, sort, NOON)) for sort in ScheduleSort}
    assert orders == {
        ScheduleSort.TROUBLE: "cdab",
        ScheduleSort.NAME: "abcd",
        ScheduleSort.NEXT: "cbad",
        ScheduleSort.LAST: "abcd",
    }


def test_the_summary_says_first_that_no_scheduler_runs() -> None:
    rows = (a_schedule(next_run_at=NOON + HOUR), a_schedule("late", next_run_at=NOON - HOUR))
    silent = replace(SCHEDULER, seen_at=NOON - 2 * MINUTE)
    chips = summary(Schedules(NOON, rows, (silent,), False), rows, NOON, UNICODE)
    assert [(chip.text, chip.tone) for chip in chips] == [
        ("▲ no scheduler runs, so nothing is sent", Tone.BAD),
        ("2 schedules", Tone.STRONG),
        ("▲ 1 overdue", Tone.BAD),
        ("· 1 scheduled", Tone.MUTED),
    ]
    served = Schedules(NOON, rows, (SCHEDULER, silent), False)
    assert summary(served, rows, NOON, UNICODE)[0].text == "2 schedules"
    assert schedulers(served, NOON) == "1 scheduler, web-1:7"
    upstreams = Schedules(NOON, (a_schedule(definition=None),), (), False)
    assert summary(upstreams, upstreams.rows, NOON, UNICODE)[0].text == "1 schedule"


def test_an_empty_list_says_why_and_what_to_do_next() -> None:
    status = an_idle_link().status
    nothing = SchedulesSnapshot(Schedules(NOON, (), (), False), loading=False)
    said = empty(nothing, filtered=False, status=status, now=NOON)
    assert "AppConfig(schedule=ScheduleConfig(" in said
    assert "horsies worker MODULE --with-scheduler starts one" in said
    some = SchedulesSnapshot(Schedules(NOON, (a_schedule(),), (), False), loading=False)
    assert empty(some, filtered=True, status=status, now=NOON) == "No schedule of 1 matches. esc clears the filter."


# The story.


def test_the_next_ten_runs_stand_in_the_zone_of_the_operator_and_in_that_of_the_schedule() -> None:
    row = a_schedule(
        pattern=AT_HALF_PAST_TWO, timezone="Europe/Berlin", next_run_at=datetime(2026, 11, 18, 1, 30, tzinfo=UTC)
    )
    section = sections(told(row))["next"]
    assert section.more == "Europe/Berlin"
    assert len(section.lines) == 10
    assert lines(section)[0] == "  13h  Wed 18 Nov 01:30Z  02:30+01"
    here = replace(told(row), zone=ZoneInfo("America/New_York"))
    assert lines(sections(here)["next"])[0] == "  13h  Tue 17 Nov 20:30-05  Wed 02:30+01"
    at_home = replace(told(row), zone=ZoneInfo("Europe/Berlin"))
    assert lines(sections(at_home)["next"])[0] == "  13h  Wed 18 Nov 02:30+01"


def test_a_change_of_the_clocks_and_a_skipped_run_are_marked() -> None:
    first = datetime(2030, 10, 26, 10, tzinfo=UTC)
    noon = {"type": "daily", "time": "12:00:00"}
    row = a_schedule(pattern=noon, timezone="Europe/Berlin", next_run_at=first, skip_slot=first, skipped_by="ops@db")
    said = lines(sections(replace(told(row), now=first - HOUR))["next"])
    assert said[0].endswith("12:00+02  skipped by ops@db")
    assert said[1].endswith("12:00+01  clocks go back 1 h")


def test_a_past_run_says_its_outcome_and_duration_and_opens_its_task() -> None:
    runs: tuple[ScheduleRun, ...] = (
        a_run(NOON - HOUR, "FAILED", took_s=30, error_code="TIMEOUT"),
        a_run(NOON - 2 * HOUR, "COMPLETED", took_s=60),
        a_run(NOON - 3 * HOUR, "COMPLETED", took_s=15, task_id=None, workflow_id="w", ordered_by="ops@db"),
        a_run(NOON - 4 * HOUR, "SKIPPED", took_s=None, task_id=None),
        a_run(NOON - 5 * HOUR, "PRUNED", took_s=None),
    )
    section = sections(told(a_schedule(runs=runs, next_run_at=NOON)))["runs"]
    durations, outcomes, *each = section.lines
    assert section.more == "1 of 5 failed"
    assert durations.text == "duration     ▃█▅"
    assert outcomes.text == "outcome    ∅⊘✓✓✗"
    assert each[0].text.split() == ["✗", "failed", "17", "Nov", "11:00Z", "30.0s", each[0].text.split()[-2], "TIMEOUT"]
    bars = [one.text.count("━") for one in each]
    assert (bars[0], bars[2]) == (round(bars[1] / 2), round(bars[1] / 4))
    assert bars[3:] == [0, 0]
    assert each[2].text.endswith("by ops@db")
    assert [one.target for one in each] == [
        OpenTask("task-110000"),
        OpenTask("task-100000"),
        OpenWorkflow("w"),
        None,
        None,
    ]


def test_the_facts_of_a_schedule_and_where_they_lead() -> None:
    facts = sections(told(a_schedule(next_run_at=NOON + HOUR, queue="bulk", target="shop.report")))["facts"]
    assert line(facts, "state").text.split("  ")[-1].strip() == "scheduled, next run at 13:00:00Z"
    assert line(facts, "sends  ").target == ShowTasks("name:shop.report")
    assert line(facts, "served by").text.endswith("web-1:7")
    silent = (replace(SCHEDULER, seen_at=NOON - 5 * MINUTE),)
    facts = sections(told(a_schedule(next_run_at=NOON + HOUR, schedulers=()), schedulers=silent))["facts"]
    assert line(facts, "served by").text.endswith("no scheduler; the last one, web-1:7, was seen 5m ago")
    assert "no scheduler serves it" in line(facts, "state").text


def test_what_upstream_schedules_is_told_as_far_as_it_is_known() -> None:
    row = a_schedule(definition=None, next_run_at=NOON + HOUR, runs=(a_run(NOON - HOUR),), schedulers=())
    told_of = sections(told(row, schedulers=()))
    assert "its scheduler has not stored what it sends" in " ".join(lines(told_of["facts"]))
    assert lines(told_of["next"]) == ["1h00m  Tue 17 Nov 13:00Z"]
    assert len(told_of["runs"].lines) == 3


@pytest.mark.parametrize("width", [40, 78, 118, 198])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_no_line_of_the_story_is_wider_than_its_place(width: int, glyphs: Glyphs) -> None:
    runs = tuple(a_run(NOON - number * MINUTE, "EXPIRED", error_code="X" * 30) for number in range(50))
    row = a_schedule(
        "schedule " * 6, pattern=EVERY_5_MIN, runs=runs, paused_at=NOON, paused_by="ops@" + "b" * 40, schedulers=()
    )
    for section in sections(told(row, glyphs), width).values():
        room = width if section.key == "facts" or width < 110 else (width - 2) // 2
        for one in section.lines:
            assert cell_len(one.text) <= room, one.text
            assert glyphs is UNICODE or one.text.isascii()
