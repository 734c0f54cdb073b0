"""The columns of the task list at every width, the text of their cells, and the comparison of lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from horsies.config.recovery import RecoveryConfig
from horsies.views import TaskRow
from horsies_tui.look.cells import GAP, GUTTER, Cell, Column, ColumnSet, Look
from horsies_tui.look.glyphs import ASCII, STATE_GLYPHS, UNICODE
from horsies_tui.look.lines import CURSOR, Line, Piece, changed_spans, row_line, title_line, words_line
from horsies_tui.look.tones import Tone
from horsies_tui.overview.rows import ALERT_COLUMNS, QUEUE_COLUMNS
from horsies_tui.recovery.report_rows import COLUMNS as FINDING_COLUMNS
from horsies_tui.widgets.task_columns import TASK_COLUMNS
from horsies_tui.workers.columns import HELD_COLUMNS, HOST_COLUMNS, WORKER_COLUMNS
from horsies_tui.workflows.columns import WORKFLOW_COLUMNS

NOW = datetime(2026, 11, 18, 12, 4, 31, tzinfo=UTC)
LOOK = Look(NOW)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


ROW = TaskRow(
    id="019a7c2e-0000-7000-8000-00003f2a91bc",
    name="send_confirmation",
    queue="mail",
    priority=10,
    status="RUNNING",
    state="RUNNING",
    created_at=ago(4),
    sent_at=None,
    enqueued_at=ago(4),
    next_retry_at=None,
    good_until=None,
    claimed_at=ago(3.9),
    claim_expires_at=None,
    started_at=ago(3.8),
    finalizing_at=None,
    finished_at=None,
    retry_count=0,
    max_retries=3,
    worker_id="w1",
    worker_hostname="web-1",
    worker_pid=4121,
    worker_process_name=None,
    error_code=None,
    is_workflow_task=False,
    unique_key=None,
    rerun_of=None,
    beat_at=ago(2),
)
FAILED = replace(ROW, status="FAILED", state="FAILED", finished_at=ago(1.7), error_code="RATE_LIMITED", retry_count=3)
RETRY = replace(
    ROW,
    status="PENDING",
    state="RETRY",
    next_retry_at=ago(-41),
    error_code="TIMEOUT",
    retry_count=1,
    started_at=None,
    worker_hostname=None,
    worker_id=None,
)


def line(row: TaskRow, width: int, look: Look = LOOK) -> Line:
    return row_line(row, TASK_COLUMNS.place(width), look, width, cursor=False, marked=False, struck=False)


def words(row: TaskRow, width: int, look: Look = LOOK) -> str:
    return "".join(piece.text for piece in line(row, width, look)).rstrip()


def cells(row: TaskRow, look: Look = LOOK) -> dict[str, tuple[str, Tone | None]]:
    made = {column.key: column.cell(row, look) for column in TASK_COLUMNS.columns}
    return {key: (cell.text, cell.tone) for key, cell in made.items()}


def test_at_80_columns_a_row_reads_as_drawn():
    title = "".join(piece.text for piece in title_line(TASK_COLUMNS.place(80), UNICODE, 80)).rstrip()
    assert title == "   ST  ID        NAME               QUEUE     AGE   RUN  TRY     ♥ ERROR"
    assert words(ROW, 80) == "   ▶   …3f2a91bc send_confirmation  mail       4s    3s  1/4    2s"
    assert words(FAILED, 80) == "   ✗   …3f2a91bc send_confirmation  mail       4s  2.1s  4/4       RATE_LIMITED"


def test_at_120_columns_a_row_reads_as_drawn():
    title = "".join(piece.text for piece in title_line(TASK_COLUMNS.place(120), UNICODE, 120)).rstrip()
    assert title == (
        "   STATE         ID        NAME               QUEUE     PRI  AGE  WAIT   RUN  TRY WORKER            ♥ ERROR"
    )
    assert words(RETRY, 120) == (
        "   ↻ retry 41s   …3f2a91bc send_confirmation  mail       10   4s    4s        2/4                     TIMEOUT"
    )


LISTS = {
    "tasks": TASK_COLUMNS,
    "workflows": WORKFLOW_COLUMNS,
    "workers": WORKER_COLUMNS,
    "hosts": HOST_COLUMNS,
    "held": HELD_COLUMNS,
    "findings": FINDING_COLUMNS,
    "queues": QUEUE_COLUMNS,
    "alerts": ALERT_COLUMNS,
}
needs = st.fixed_dictionaries(
    {column.key: st.integers(0, 60) for each in LISTS.values() for column in each.columns if column.grow}
)


@pytest.mark.parametrize("columns", LISTS.values(), ids=LISTS)
@given(needs)
def test_no_text_is_cut_beside_blank_room(columns, needs):
    for width in (80, 100, 120, 160, 200):
        placed = columns.place(width, needs)
        texts = [each for each in placed if each.column.grow]
        cut = [each.column.key for each in texts if each.width < needs[each.column.key]]
        blank = [each.column.key for each in texts if each.width > max(needs[each.column.key], each.column.least)]
        end = placed[-1].x + placed[-1].width
        assert end <= width, (width, needs)
        assert not cut or (not blank and end == width), (width, needs)


@pytest.mark.parametrize("columns", LISTS.values(), ids=LISTS)
def test_every_list_fits_into_80_columns_and_a_wider_one_has_more_columns_never_others(columns):
    shown = [columns.keys_at(width) for width in range(80, 201)]
    assert all(set(less) <= set(more) for less, more in pairwise(shown))
    assert shown[-1] == tuple(column.key for column in columns.columns)
    assert sum(placed.column.least + GAP for placed in columns.place(80)) <= 80 - GUTTER + GAP


def test_an_id_is_short_unless_no_other_column_needs_the_room():
    columns: ColumnSet[TaskRow] = ColumnSet(
        (
            next(column for column in TASK_COLUMNS.columns if column.key == "id"),
            Column("name", "NAME", lambda row, _: Cell(row.name), 5, 10, grow=1),
        )
    )

    def id_with(name: int) -> int:
        return columns.place(80, {"name": name})[0].width

    assert [id_with(name) for name in (10, 40, 41)] == [36, 36, 9]


def test_a_wide_list_has_the_message_and_then_ids_are_short():
    failed = replace(
        FAILED, error_message="429 Too Many Requests: retry after 30 s\nat the gateway of the bank in Basel"
    )
    assert "message" not in TASK_COLUMNS.keys_at(150)
    assert "message" in TASK_COLUMNS.keys_at(160)

    def drawn(row: TaskRow, width: int) -> str:
        columns = TASK_COLUMNS.place(width, TASK_COLUMNS.measure([row], LOOK))
        pieces = row_line(row, columns, LOOK, width, cursor=False, marked=False, struck=False)
        return "".join(piece.text for piece in pieces).rstrip()

    text = drawn(failed, 200)
    assert "RATE_LIMITED 429 Too Many Requests: retry after 30 s at the gateway of the bank in Basel" in text
    assert failed.id not in text
    assert failed.id[-8:] in text
    assert ROW.id in drawn(ROW, 200)
    assert drawn(replace(failed, error_message="x" * 200), 160).endswith("x…")


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
@pytest.mark.parametrize("state", STATE_GLYPHS)
def test_every_state_is_whole_wherever_it_has_words(width, state):
    text = words(replace(ROW, state=state, status=state), width)
    assert UNICODE.state(state) in text
    assert (state.lower() in text) is (width >= 100)


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
def test_usual_codes_and_no_heartbeat_are_whole_at_every_width(width):
    errors = [replace(FAILED, error_code=code) for code in ("RATE_LIMITED", "no heartbeat")]
    assert all(words(row, width).endswith(row.error_code or "") for row in errors)


@given(st.integers(min_value=0, max_value=300), st.text(), st.text(), st.text())
def test_a_line_is_as_wide_as_the_table_whatever_it_holds(width, name, queue, error):
    row = replace(FAILED, name=name, queue=queue, error_code=error)
    for look in (LOOK, Look(NOW, ASCII)):
        pieces = line(row, width, look) if width > GUTTER else words_line(name, look.glyphs, width)
        assert sum(piece.width for piece in pieces) == width
        assert all(cell_len(piece.text) == piece.width for piece in pieces)


@given(st.integers(min_value=40, max_value=300))
def test_columns_stand_apart_and_end_with_the_table(width):
    placed = TASK_COLUMNS.place(width)
    assert placed[0].x == GUTTER
    assert all(left.x + left.width + GAP == right.x for left, right in pairwise(placed))
    assert placed[-1].x + placed[-1].width <= width


def test_a_hidden_column_gives_its_room_to_the_others():
    all_of_them, some = TASK_COLUMNS.place(120), TASK_COLUMNS.without(frozenset({"worker"})).place(120)
    assert [placed.column.key for placed in some] == [
        placed.column.key for placed in all_of_them if placed.column.key != "worker"
    ]
    assert some[-1].width == all_of_them[-1].width + 13 + GAP
    assert TASK_COLUMNS.without(frozenset({"worker"})).keys_at(120) == TASK_COLUMNS.keys_at(120)


def test_the_heartbeat_alone_takes_colour_and_the_last_column_says_it_in_words():
    def beats(seconds: float, recovery: RecoveryConfig | None = None) -> tuple[object, object]:
        shown = cells(replace(ROW, beat_at=ago(seconds)), Look(NOW, recovery=recovery))
        return shown["beat"], shown["error"]

    for usual in (None, RecoveryConfig()):
        assert beats(30, usual) == (("30s", Tone.MUTED), ("", None))
        assert beats(61, usual) == (("1m00s", Tone.WARNING), ("", None))
        assert beats(372, usual) == (("6m10s", Tone.BAD), ("no heartbeat", Tone.BAD))
    slower = RecoveryConfig(running_stale_threshold_ms=900_000, runner_heartbeat_interval_ms=120_000)
    assert beats(372, slower) == (("6m10s", Tone.WARNING), ("", None))


def test_a_run_that_never_beat_is_silent_since_its_start():
    shown = cells(replace(ROW, beat_at=None, started_at=ago(400)))
    assert shown["beat"] == ("6m40s", Tone.BAD)
    assert cells(FAILED)["beat"] == ("", None)


def test_a_claim_has_the_claims_thresholds():
    claimed = replace(ROW, status="CLAIMED", state="CLAIMED", started_at=None, beat_at=ago(121))
    assert cells(claimed)["error"] == ("no heartbeat", Tone.BAD)


def test_what_is_over_has_its_exact_length_and_what_is_not_ticks():
    assert cells(FAILED)["run"] == ("2.1s", None)
    assert cells(FAILED)["wait"] == ("0.2s", None)
    assert cells(ROW)["run"] == ("3s", None)


def test_a_retry_that_is_due_counts_no_further():
    assert cells(RETRY)["state"] == ("↻ retry 41s", Tone.RETRY)
    assert cells(RETRY, Look(ago(-41)))["state"] == ("↻ retry", Tone.RETRY)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1))
def test_only_what_differs_is_named_and_neighbours_are_joined(pieces):
    before = tuple(Piece("a" * width, width) for width, _ in pieces)
    after = tuple(Piece(("b" if other else "a") * width, width) for width, other in pieces)
    spans = list(changed_spans(before, after))
    named = "".join(
        "b" if any(x <= place < x + width for x, width in spans) else "a"
        for place in range(sum(p.width for p in after))
    )
    assert named == "".join(piece.text for piece in after)
    assert all(x + width < next_x for (x, width), (next_x, _) in pairwise(spans))


def test_blanks_look_the_same_in_all_tones_but_not_under_the_cursor():
    before, after = Piece("-     ", 6, (Tone.MUTED,)), Piece("GONE  ", 6, (Tone.BAD,))
    assert list(changed_spans((before,), (after,))) == [(0, 4)]
    under = before._replace(classes=(CURSOR, Tone.MUTED)), after._replace(classes=(CURSOR, Tone.BAD))
    assert list(changed_spans((under[0],), (under[1],))) == [(0, 6)]
    assert list(changed_spans((before._replace(text="日    "),), (after,))) == [(0, 6)]


_TEXTS = st.text(st.sampled_from("ab ─⠤日♥"), max_size=6)


@given(st.lists(st.tuples(_TEXTS, st.booleans()), max_size=5), st.lists(st.tuples(_TEXTS, st.booleans()), max_size=5))
def test_what_is_not_named_looks_as_before_whatever_the_pieces_are(before, after):
    def line_of(pieces):
        made = tuple(Piece(text, cell_len(text), (Tone.BAD,) if bad else ()) for text, bad in pieces)
        width = sum(piece.width for piece in made)
        return (*made, Piece(" " * (60 - width), 60 - width))

    def cells_of(line):
        """The look of each place; of a wide letter both places. A blank looks the same in all tones."""
        letters = ((char, () if char == " " else piece.classes) for piece in line for char in piece.text)
        return [letter for letter in letters for _ in range(cell_len(letter[0]))]

    old, new = line_of(before), line_of(after)
    spans = list(changed_spans(old, new)) if old != new else []
    named = {place for x, width in spans for place in range(x, x + width)}
    pairs = list(zip(cells_of(old), cells_of(new), strict=True))
    assert all(one == other for place, (one, other) in enumerate(pairs) if place not in named)
    assert all(x + width < next_x for (x, width), (next_x, _) in pairwise(spans))


def test_of_an_age_that_ticks_only_the_last_digit_is_named():
    assert list(changed_spans((Piece("AGE 12s ", 8),), (Piece("AGE 13s ", 8),))) == [(5, 1)]
    assert list(changed_spans((Piece("♥ 12s", 5),), (Piece("♥ 13s", 5),))) == [(0, 5)]
    moved = (Piece("words ", 6), Piece("    ", 4), Piece("⠤", 1, (Tone.BAD,)), Piece("   ", 3))
    beside = (Piece("words ", 6), Piece("   ", 3), Piece("⠤", 1, (Tone.BAD,)), Piece("    ", 4))
    assert list(changed_spans(moved, beside)) == [(9, 2)]


def test_changes_that_are_far_apart_are_sent_without_what_lies_between() -> None:
    old = (Piece("⣿⣤", 2), Piece("." * 20, 20), Piece("⣤⣿", 2))
    new = (Piece("⣤⣤", 2), Piece("." * 20 + "⣿", 21), Piece("⣿", 1))
    assert list(changed_spans(old, new)) == [(0, 1), (22, 1)]
    near = (Piece("⣤⣤", 2), Piece(".....⣿" + "." * 14, 20), Piece("⣤", 1), Piece("⣿", 1))
    assert list(changed_spans(old, near)) == [(0, 8)]
