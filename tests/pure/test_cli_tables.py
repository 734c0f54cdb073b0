"""Tables, graphs and the chart of the CLI: width, cut texts, control characters, short times, masks."""

from __future__ import annotations

import ast
import io
import json
import unicodedata
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from horsies.cli.cluster.lists import chart_lines
from horsies.cli.workflows.graph import MOST_RAILS, railed
from horsies.display import terminal as door
from horsies.display.exporting import TASK_COLUMNS, WORKER_COLUMNS, WORKFLOW_COLUMNS
from horsies.display.formatting import ago, lasting, short, state
from horsies.display.json_output import plain
from horsies.display.payload import HIDDEN, Masks, stored_json, stored_lines
from horsies.display.terminal import Screen, TableCell, TableColumn, cut, say, table, visible, width_of
from horsies.domain.plain_text import clean, clean_json
from horsies.domain.quantities import counted, need_action
from horsies.domain.states import TaskStatus, WorkflowStatus, WorkflowTaskStatus
from horsies.operations.named_targets import unshortened
from horsies.query.keys import INTERRUPTED, RETRY
from horsies.views import Stored, TaskPoint, TaskRow, WorkerRow, WorkflowRow
from horsies.views.workers import Snapshot

NOW = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)
COLUMNS = (TableColumn("A", least=3), TableColumn("B", right=True, rank=1), TableColumn("C", least=2, rank=2))

texts = st.text(max_size=30)


@given(st.lists(st.tuples(texts, texts, texts), max_size=5), st.integers(3, 60))
def test_no_line_is_wider_than_its_terminal(rows: list[tuple[str, str, str]], width: int) -> None:
    for screen in (Screen(width), Screen(width, unicode=False), Screen(width, colour=False)):
        lines = table(COLUMNS, rows, screen)
        assert len(lines) == len(rows) + 1
        assert max(map(width_of, lines)) <= width


@given(texts, st.integers(1, 40))
def test_what_is_cut_says_so(text: str, width: int) -> None:
    shown = cut(text, width, Screen(width))
    assert width_of(shown) <= width
    assert shown == text or shown.endswith("…")


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=5))
def test_a_pipe_gets_everything(rows: list[tuple[str, str, str]]) -> None:
    lines = table((TableColumn("A"), TableColumn("B"), TableColumn("C")), rows, Screen())
    for line, row in zip(lines[1:], rows, strict=True):
        assert all(clean(text).strip() in line for text in row)


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (TASK_COLUMNS, Mock(spec=TaskRow)),
        (WORKFLOW_COLUMNS, Mock(spec=WorkflowRow, sent_at=NOW)),
        (WORKER_COLUMNS, Mock(spec=WorkerRow, snapshot=Mock(spec=Snapshot, queues=()))),
    ],
)
def test_each_column_of_an_export_is_read_from_its_row(columns: Any, row: Mock) -> None:
    for read in columns.values():
        read(row, NOW)


def test_numbers_stand_below_each_other_and_columns_without_anything_go() -> None:
    lines = table(
        (TableColumn("NAME"), TableColumn("RUN", right=True), TableColumn("ERROR", rank=1)),
        [("a", "7", ""), ("bb", "12", "")],
        Screen(40),
    )
    assert lines == ["NAME  RUN", "a       7", "bb     12"]


def test_columns_go_by_their_rank_where_there_is_no_room() -> None:
    row = ("name_of_a_task", "12345", "cccc")
    titles = {width: table(COLUMNS, [row], Screen(width))[0].split() for width in (30, 12, 10, 9)}
    assert titles == {30: ["A", "B", "C"], 12: ["A", "B"], 10: ["A", "B"], 9: ["A"]}


def test_colour_is_around_the_text_and_not_in_its_width() -> None:
    line = table((TableColumn("A"), TableColumn("B")), [(TableCell("x", "red"), "y")], Screen(20, colour=True))[1]
    assert visible(line) == "\x1b[31mx\x1b[0m  y"


@pytest.mark.parametrize(
    ("variables", "terminal", "encoding", "expected"),
    [
        ({"COLUMNS": "70"}, True, "utf-8", Screen(70, colour=True)),
        ({"COLUMNS": "70", "NO_COLOR": "1"}, True, "utf-8", Screen(70)),
        ({"COLUMNS": "70", "TERM": "dumb"}, True, "ascii", Screen(70, unicode=False)),
        ({}, False, "UTF-8", Screen()),
    ],
    ids=str,
)
def test_a_stream_has_colours_and_glyphs_where_they_are_wanted_and_known(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], terminal: bool, encoding: str, expected: Screen
) -> None:
    for name in ("COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Screen.of(Mock(isatty=lambda: terminal, encoding=encoding)) == expected


def test_every_state_has_a_glyph_and_a_letter_of_its_own() -> None:
    states = [*(status.value for status in TaskStatus), RETRY, INTERRUPTED]
    for screen in (Screen(80), Screen(80, unicode=False)):
        marks = [state(name, screen).text.split()[0] for name in states]
        assert "?" not in marks
        assert len(set(marks)) == len(states)
        assert screen.unicode or all(mark.isascii() for mark in marks)


@pytest.mark.parametrize("statuses", [WorkflowStatus, [*WorkflowTaskStatus, RETRY]])
def test_states_of_workflows_and_of_nodes_have_glyphs(statuses: list[str]) -> None:
    marks = [state(str(name), Screen(80)).text.split()[0] for name in statuses]
    assert "?" not in marks
    assert len(set(marks)) == len(marks)
    assert all(state(str(name), Screen(80, unicode=False)).text.isascii() for name in statuses)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((0, "0ms"), (0.0089, "8ms"), (0.0999, "99ms"), (0.1, "0.1s"), (9.99, "9.9s"), (10, "10s"), (59.9, "59s")),
        *((60, "1m00s"), (3_599, "59m59s"), (3_600, "1h00m"), (90_000, "1d1h"), (-5, "0ms")),
    ],
)
def test_lengths_are_short_and_never_rounded_up(seconds: float, shown: str) -> None:
    assert lasting(timedelta(seconds=seconds)) == shown


def test_what_lies_ahead_has_a_plus() -> None:
    assert ago(NOW - timedelta(minutes=2), NOW) == "2m00s"
    assert ago(NOW + timedelta(seconds=41), NOW) == "+41s"
    assert ago(None, NOW) == ""


def test_short_ids_show_the_end_and_are_understood_when_they_are_copied() -> None:
    task_id = "01a1ee7b-a221-72c9-a53f-c7081cd6ba9a"
    assert short(task_id, Screen(80)) == "…1cd6ba9a"
    assert short(task_id, Screen()) == task_id
    assert short("order-7", Screen(80)) == "order-7"
    for screen in (Screen(80), Screen(80, unicode=False)):
        assert unshortened(short(task_id, screen)) == "1cd6ba9a"


def test_an_output_without_the_letters_is_no_error() -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as stream:
        say("é\udcff…", stream=stream)
        stream.flush()
        assert raw.getvalue() == b"? ?\n"


class Colour(StrEnum):
    RED = "red"


def test_json_has_times_in_utc_durations_in_seconds_and_enums_by_value() -> None:
    value = {
        "at": NOW.astimezone(),
        "for": timedelta(milliseconds=1500),
        "id": UUID(int=7),
        "colour": Colour.RED,
        "cell": TableCell("x"),
        "some": ("a", 1, None),
    }
    assert json.loads(json.dumps(plain(value))) == {
        "at": "2026-11-18T12:00:00Z",
        "for": 1.5,
        "id": "00000000-0000-0000-0000-000000000007",
        "colour": "red",
        "cell": {"text": "x", "style": ""},
        "some": ["a", 1, None],
    }


def stored(text: str, *, cut_off: bool = False) -> Stored:
    return Stored(text, len(text), cut_off)


json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(json_trees, st.sampled_from(["password", "Password", "PASSWORD"]))
def test_what_is_masked_is_nowhere_in_either_form(tree: Any, name: str) -> None:
    secret = "s3cr3t-0f-th3-h0us3"
    inside = json.dumps({name: secret})
    texts = [inside, f" \t\n{inside}", json.dumps(inside), f" {json.dumps(f' {inside}')}"]
    text = json.dumps({"deep": [{name: {"in": secret}}, tree], "texts": texts})
    masks = Masks(frozenset({"password"}))
    assert secret not in "\n".join(stored_lines(stored(text), masks))
    assert secret not in json.dumps(stored_json(stored(text), masks))
    assert secret in "\n".join(stored_lines(stored(text), Masks()))


@given(json_trees)
def test_every_stored_value_can_be_shown_and_is_printed_whole_for_machines(tree: Any) -> None:
    text = json.dumps(tree)
    lines = stored_lines(stored(text), Masks())
    assert lines
    assert all(line.isprintable() for line in lines)
    assert stored_json(stored(text), Masks()) == tree


@pytest.mark.parametrize("text", ["{", "not json", "[" * 100_000, '{"a": NaN', ""])
def test_what_is_no_json_is_shown_as_it_is_or_hidden_whole(text: str) -> None:
    assert "".join(stored_lines(stored(text), Masks())) == text
    assert stored_lines(stored(text), Masks(frozenset({"x"}))) == [HIDDEN]
    assert stored_json(stored(text), Masks()) == text
    assert stored_json(stored(text), Masks(frozenset({"x"}))) == HIDDEN


def test_a_text_of_several_lines_is_shown_as_such() -> None:
    result = {"exception": {"traceback": 'Traceback:\n  File "x.py"\nRuntimeError: é'}}
    lines = stored_lines(stored(json.dumps(result)), Masks())
    start = lines.index('    "traceback": |')
    assert [line.strip() for line in lines[start + 1 : start + 4]] == ["Traceback:", 'File "x.py"', "RuntimeError: é"]


def test_a_number_and_its_noun_and_verb_agree() -> None:
    assert [counted(number, "task") for number in (0, 1, 2, 1204)] == ["0 tasks", "1 task", "2 tasks", "1,204 tasks"]
    assert [counted(number, "process", "processes") for number in (1, 2)] == ["1 process", "2 processes"]
    assert [need_action(number) for number in (0, 1, 12)] == ["0 need action", "1 needs action", "12 need action"]


def test_only_colours_of_the_screen_become_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\x1b[31m\x1b]0;t\x07\x9b\u202e\nb\r[/x] http://u:hunter2@h"
    say(Screen(None, colour=True).paint(text, "red"), text)
    plain = "a [31m ]0;t   b [/x] http://u:***@h"
    assert capsys.readouterr().out == f"\x1b[31m{plain}\x1b[0m\n{plain}\n"


def test_json_has_no_control_character_and_the_same_values() -> None:
    bad = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    text = json.dumps(["é€𝕏", *bad], ensure_ascii=False)
    made = clean_json(text)
    assert [hex(ord(char)) for char in bad if char in made] == []
    assert ascii(json.loads(made)) == ascii(["é€𝕏", *bad])
    assert clean_json('"é€𝕏"') == '"é€𝕏"'


def test_commands_write_through_the_door_alone() -> None:
    """ruff forbids most of it, but a comment can silence ruff."""
    doors = {"terminal.py": {"write", "readline"}, "worker.py": {"write"}, "new.py": {"write"}}
    forbidden = {"print", "pprint", "echo", "secho", "prompt", "write", "writelines", "Console", "readline"}
    found = []
    engine = Path(door.__file__).parent.parent
    for path in (*engine.glob("cli/**/*.py"), *engine.glob("display/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if name in forbidden - doors.get(path.name, set()):
                    found.append(f"{path.name}:{node.lineno} {name}")
    assert found == []


UP, DOWN, LEFT, RIGHT = "up", "down", "left", "right"
ARMS = {
    "│": {UP, DOWN},
    "─": {LEFT, RIGHT},
    "├": {UP, DOWN, RIGHT},
    "┤": {UP, DOWN, LEFT},
    "┼": {UP, DOWN, LEFT, RIGHT},
    "└": {UP, RIGHT},
    "┘": {UP, LEFT},
    "┴": {UP, LEFT, RIGHT},
}


def read_back(lines: list[tuple[int, str]]) -> dict[int, set[int]]:
    """Read the dependencies of each node back from the lines."""
    found: dict[int, set[int]] = {}
    running: dict[int, int] = {}
    for index, text in lines:
        (own,) = [at for at, sign in enumerate(text) if sign == "●"]
        found[index] = {running[own]} if own in running else set()
        for step in (-1, 1):
            at = own + step
            while 0 <= at < len(text) and text[at] != " ":
                if text[at] in "├┤┼└┘┴":
                    found[index].add(running[at])
                if text[at] in "├└┤┘" and ARMS[text[at]].isdisjoint({LEFT} if step < 0 else {RIGHT}):
                    break
                at += step
        running = {at: running[at] for at, sign in enumerate(text) if sign != "●" and DOWN in ARMS.get(sign, ())}
        running[own] = index
    return found


graphs = st.integers(0, 9).flatmap(
    lambda count: st.tuples(*(st.lists(st.integers(0, index - 1) if index else st.nothing()) for index in range(count)))
)


@given(graphs)
@settings(max_examples=400)
def test_who_waits_for_whom_can_be_read_back_from_the_lines(needs: tuple[list[int], ...]) -> None:
    graph = {index: tuple(each) for index, each in enumerate(needs)}
    lines = railed(graph)
    assert sorted(line.index for line in lines) == sorted(graph)
    assert all(not line.unseen for line in lines)
    assert read_back([(line.index, line.rails) for line in lines]) == {
        index: set(each) for index, each in graph.items()
    }


anything = st.dictionaries(st.integers(0, 6), st.lists(st.integers(0, 9), max_size=5), max_size=7)


@given(anything)
@settings(max_examples=300)
def test_circles_and_nodes_that_are_gone_are_told_in_words(graph: dict[int, list[int]]) -> None:
    lines = railed(graph)
    assert sorted(line.index for line in lines) == sorted(graph)
    seen = read_back([(line.index, line.rails) for line in lines])
    for line in lines:
        assert seen[line.index] | set(line.unseen) == set(graph[line.index])
        assert seen[line.index].isdisjoint(line.unseen)


def drawn(graph: dict[int, tuple[int, ...]], *, unicode: bool = True) -> list[str]:
    return [f"{line.rails} {line.index}" for line in railed(graph, unicode=unicode)]


def test_a_branch_is_followed_to_its_end_and_a_join_closes_the_lines() -> None:
    graph = {0: (), 1: (0,), 2: (0,), 3: (0,), 4: (1, 2, 3), 5: (4,)}
    assert drawn(graph) == ["● 0", "├─● 1", "├─│─● 2", "● │ │ 3", "●─┴─┘ 4", "● 5"]
    assert drawn(graph, unicode=False) == ["* 0", "+-* 1", "+-|-* 2", "* | | 3", "*-'-' 4", "* 5"]


def test_where_too_many_lines_run_side_by_side_words_take_their_place() -> None:
    count = MOST_RAILS + 5
    graph = {0: (), **dict.fromkeys(range(1, count), (0,)), count: tuple(range(1, count))}
    lines = railed(graph)
    assert {line.rails for line in lines} == {""}
    assert lines[-1].unseen == tuple(range(1, count))


@pytest.mark.parametrize("shape", ["fan", "chain"])
def test_a_thousand_nodes_are_drawn_at_once(shape: str) -> None:
    if shape == "chain":
        graph: dict[int, tuple[int, ...]] = {index: (index - 1,) if index else () for index in range(1_000)}
    else:
        graph = {0: (), **dict.fromkeys(range(1, 999), (0,)), 999: tuple(range(1, 999))}
    assert len(railed(graph)) == 1_000


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def point(minute: int, ended: float | None, failed: float = 0.0, *, seconds: float = 60.0) -> TaskPoint:
    start = NOON + minute * MINUTE
    if ended is None:
        return TaskPoint(start, seconds)
    return TaskPoint(start, seconds, completed=ended - failed, failed=failed, other=0.0, waiting=ended / 2)


def charted(*points: TaskPoint, screen: Screen | None = None) -> list[str]:
    return chart_lines(points, screen or Screen(80))


def test_rates_and_what_waits_are_drawn_with_their_scale_and_names() -> None:
    lines = charted(*(point(minute, 60.0 * minute, 60.0) for minute in range(60)))
    text = "\n".join(lines)
    assert all(name in text for name in ("ended/s", "failed/s", "waiting", "minutes until now"))
    assert "59.0" in text, "a rate per second, the highest of the scale"
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in text
    coloured = charted(point(0, 1.0), point(1, 2.0), screen=Screen(80, colour=True))
    assert any("\x1b[" in visible(line) for line in coloured)


def test_a_gap_is_no_line() -> None:
    whole = charted(*(point(minute, 60.0) for minute in range(60)))
    with_gap = charted(*(point(minute, None if 20 <= minute < 40 else 60.0) for minute in range(60)))

    def dots(lines: list[str]) -> int:
        return sum(0x2800 < ord(char) < 0x2900 for line in lines for char in line)

    assert dots(with_gap) < 0.8 * dots(whole)


def test_a_minute_that_has_just_begun_is_left_out() -> None:
    lines = charted(point(0, 60.0), point(1, 60.0), point(2, 9.0, seconds=1.0))
    assert lines[2].startswith("1.0"), "one a second is the top of the scale, not nine"


def test_without_a_task_there_is_a_sentence_and_no_chart() -> None:
    assert charted(*(point(minute, None) for minute in range(60))) == [
        "",
        "nothing to draw: no task was sent in the last hour",
    ]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    lines = charted(point(0, 1.0), point(1, 60.0), screen=Screen(80, unicode=False))
    assert all(line.isascii() for line in lines)
    assert any("*" in line for line in lines)
