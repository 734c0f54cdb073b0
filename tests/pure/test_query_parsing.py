"""The filter language: what it accepts and refuses, the positions of errors, suggestions and completion."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings, strategies as st
from query_texts import any_text, filters, quoted, storable

from horsies.query import (
    KEYS,
    TASKS,
    FilterError,
    Problem,
    TaskFilter,
    completions,
    parse,
    parse_activity,
    parse_workflows,
)
from horsies.query.parser import LONGEST_TEXT
from horsies.query.values import Glob, Present


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(FilterError) as caught:
        parse(text)
    return caught.value.problems


def understood(text: str) -> TaskFilter | None:
    try:
        return parse(text)
    except FilterError:
        return None


@pytest.mark.parametrize("text", ["", "  ", "\t\n"])
def test_empty_text_asks_for_everything(text: str) -> None:
    assert parse(text) == TaskFilter()
    assert parse(text).text == ""


@given(any_text)
@settings(max_examples=400)
def test_any_text_is_either_understood_or_refused_with_places_inside_it(text: str) -> None:
    found = understood(text)
    if found is not None:
        assert parse(str(found)) == found
        return
    problems = problems_of(text)
    assert problems
    assert all(0 <= problem.start <= problem.end <= len(text) for problem in problems)
    assert [problem.start for problem in problems] == sorted(problem.start for problem in problems)
    assert str(FilterError(problems, text, TASKS.example)).count("\n") >= len(problems)


@given(filters)
@settings(max_examples=300)
def test_a_filter_written_out_means_the_same(text: str) -> None:
    found = understood(text)
    assume(found is not None)
    assert parse(str(found)) == found
    assert str(parse(str(found))) == str(found)


@given(storable)
def test_quoted_text_is_looked_for_as_it_is(text: str) -> None:
    (term,) = parse(f"queue:{quoted(text)}").terms
    assert term.values == (Glob.literal(text),)
    assert [value.exact for value in term.values if isinstance(value, Glob)] == [text]


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("queue:a queue:b", "queue:a,b"),
        ("queue:a,a", "queue:a"),
        ("STATUS:Failed", "status:failed"),
        ("name:'order 42'", 'name:"order 42"'),
        ("name:order\\ 42", 'name:"order 42"'),
        ("name:it's", 'name:"it\'s"'),
        ("name:a\\*", "name:a\\*"),
        ('name:"a b"*', "name:a\\ b*"),
        ("a,b", "a b"),
        ('"billing:charge"', '"billing:charge"'),
        ('"-x"', "\\-x"),
        ("-a -b", "-a -b"),
        ("id:…1CD6BA9A", "id:*1cd6ba9a"),
        ("id:019a7c2e…", "id:019a7c2e*"),
        ("id:...1cd6ba9a", "id:*1cd6ba9a"),
        ("tries:=2", "tries:2"),
        ("run:>5m run:<=1h", "run:>5m run:<=1h"),
        ("has:error has:unique", "has:error has:unique"),
        ("since:2026-11-18", "since:2026-11-18T00:00:00Z"),
        ('until:"2026-11-18 14:05+02:00"', "until:2026-11-18T14:05:00+02:00"),
        ("worker:web-1:4119", "worker:web-1:4119"),
    ],
)
def test_what_is_written_differently_is_one_filter(written: str, same: str) -> None:
    assert parse(written).text == same
    assert parse(written) == parse(same)


@pytest.mark.parametrize(
    ("text", "wrong", "suggestion"),
    [
        ("stauts:failed", "stauts", "status"),
        ("state:failed", "state", "status"),
        ("task:send_mail", "task", "name"),
        ("-qeue:a", "qeue", "queue"),
        ("queue:a status:faild", "faild", "failed"),
        ("status:failed,runing,retry", "runing", "running"),
        ("status:canceled", "canceled", "cancelled"),
        ("status:success", "success", "completed"),
        ("status:fail*", "fail*", "failed"),
        ("has:eror", "eror", "error"),
        ("billing:charge", "billing:charge", '"billing:charge"'),
        ("since:30", "30", "30m"),
        ('since:"5 min"', '"5 min"', "5m"),
        ("since:2hours", "2hours", "2h"),
        ("run:5m", "5m", ">5m"),
        ("run:=5m", "=5m", ">5m"),
        ("run:5", "5", ">5m"),
        ("run:>5", ">5", ">5m"),
        ("tries:4..2", "4..2", "2..4"),
        ("wait:1h..5m", "1h..5m", "5m..1h"),
        ("ended:5m", "5m", ">5m"),
        ("ended:2026-11-18", "2026-11-18", ">=2026-11-18"),
        ("ended:2026-11-19..2026-11-18", "2026-11-19..2026-11-18", "2026-11-18T00:00:00Z..2026-11-19T00:00:00Z"),
        ("-run:>5m", "-run:>5m", "run:<=5m"),
        ("-tries:<3", "-tries:<3", "tries:>=3"),
        ("-since:1h", "-since:1h", "until:1h"),
        ("tries:>1,<4", ",", " tries:"),
        ("has:error,unique", ",", " has:"),
    ],
)
def test_a_mistake_is_pointed_at_and_what_is_suggested_in_its_place_is_right(
    text: str, wrong: str, suggestion: str
) -> None:
    (problem,) = problems_of(text)
    assert text[problem.start : problem.end] == wrong
    assert problem.suggestion == suggestion
    mended = text[: problem.start] + suggestion + text[problem.end :]
    assert understood(mended), mended


@pytest.mark.parametrize(
    ("text", "wrong", "message"),
    [
        ("status:", "", "missing"),
        ("queue:a,", "", "missing"),
        ("queue:a,,b", "", "missing"),
        ('queue:""', '""', "missing"),
        ("a -", "", "missing"),
        ('args:"order 42', '"order 42', "never closed"),
        ("name:'x", "'x", "never closed"),
        ("since:24:05", "24:05", "no such time"),
        ("since:2026-13-01", "2026-13-01", "no such time"),
        ("since:2026-11-18T1405", "2026-11-18T1405", "not a time"),
        ("since:0001-01-01T00:00+02:00", "0001-01-01T00:00+02:00", "no such time"),
        ("until:whenever", "whenever", "not a duration"),
        ("since:99999999w", "99999999w", "hundred years"),
        ("run:..", "..", "at least one end"),
        ("ended:14:05", "14:05", "from then on or before"),
        ("ended:>=2026-13-01", ">=2026-13-01", "no such time"),
        ("ended:2026-11-18..10m", "2026-11-18..10m", "mixes a time"),
        ("tries:>", ">", "not a number"),
        ("tries:><1", "><1", "not a range"),
        ("tries:<1", "<1", "the minimum is 1"),
        ("wait:<0s", "<0s", "the minimum is 0"),
        ("tries:99999999999999999999", "99999999999999999999", "too large"),
        ("tries:２", "２", "not a number"),
        ("id:" + "a" * 37, "a" * 37, "at most 36"),
        ("name:a\0b", "\0", "no task can contain"),
        ("name:a\udcff", "\udcff", "no task can contain"),
        ("zzz:1", "zzz:1", "no key 'zzz'"),
        ("x" * (LONGEST_TEXT + 1), "x", "at most 10000"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_stands(text: str, wrong: str, message: str) -> None:
    (problem,) = problems_of(text)
    assert text[problem.start : problem.end] == wrong
    assert message in problem.message


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("status:failed -status:done", "-status:done"),
        ("-status:live -status:done", "-status:done"),
        ("workflow:yes -workflow:yes", "-workflow:yes"),
        ("workflow:019a -workflow:yes", "-workflow:yes"),
        ("workflow:yes,019a", "workflow:yes,019a"),
        ("has:error -has:error", "-has:error"),
        ("tries:>3 tries:<=3", "tries:<=3"),
        ("run:>5m run:<1m x", "run:<1m"),
        ("since:10m until:1h", "until:1h"),
        ("until:2026-01-01 since:2026-01-02", "until:2026-01-01"),
        ("since:1h since:2h", "since:2h"),
        ("ended:>=2026-01-02 ended:<2026-01-01", "ended:<2026-01-01"),
    ],
)
def test_words_that_leave_no_task_are_an_error_and_not_an_empty_screen(text: str, wrong: str) -> None:
    (problem,) = problems_of(text)
    assert text[problem.start : problem.end] == wrong


def test_all_mistakes_are_reported_together_in_order() -> None:
    text = "stauts:failed queue: since:30 status:faild"
    wrong = [text[problem.start : problem.end] for problem in problems_of(text)]
    assert wrong == ["stauts", "", "30", "faild"]


@pytest.mark.parametrize("before", ["queue:a ", "queue:a " * 500], ids=["short", "longer than a screen"])
def test_the_error_marks_the_place_for_a_person(before: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(f"{before}stauts:failed")
    lines = str(caught.value).splitlines()
    assert "there is no key 'stauts'; did you mean status?" in lines[0]
    (index,) = [index for index, line in enumerate(lines) if "stauts:failed" in line and "note" in line]
    assert lines[index + 1].index("^^^^^^") == lines[index].index("stauts")
    assert lines[index + 1].count("^") == 6
    assert len(lines[index]) < 120


def test_the_error_survives_pickling() -> None:
    with pytest.raises(FilterError) as caught:
        parse("stauts:failed")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.problems == caught.value.problems
    assert str(copy) == str(caught.value)


def test_every_example_of_the_help_is_understood() -> None:
    for key in KEYS.values():
        assert parse(key.example).terms[0].key == key.name
        assert key.example in TASKS.describe()
    assert "match any of them" in TASKS.describe()


def test_the_language_is_loaded_without_pydantic_or_a_database_driver() -> None:
    code = "import sys, horsies.query; print(sorted({'pydantic', 'asyncpg', 'asyncio', 'typer'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("since:02:00 until:03:00", "since:2026-11-18T02:00:00+02:00 until:2026-11-18T03:00:00+02:00"),
        ("since:13:30 until:2:00:05", "since:2026-11-17T13:30:00+02:00 until:2026-11-18T02:00:05+02:00"),
        ("since:12:00 until:14:00", "since:2026-11-18T12:00:00+02:00 until:2026-11-18T14:00:00+02:00"),
        ("since:22:00 until:06:00", "since:2026-11-17T22:00:00+02:00 until:2026-11-18T06:00:00+02:00"),
        ("since:02:00z", "since:2026-11-18T04:00:00+02:00"),
        ("since:2026-11-18T02:00", "since:2026-11-18T02:00:00+02:00"),
        ("since:2026-11-18 until:02:00", "since:2026-11-18T00:00:00+02:00 until:2026-11-18T02:00:00+02:00"),
        ("ended:02:00..03:00", "ended:2026-11-18T02:00:00+02:00..2026-11-18T03:00:00+02:00"),
        ("ended:>=02:00", "ended:>=2026-11-18T02:00:00+02:00"),
    ],
)
def test_a_time_of_day_is_the_last_one_in_the_zone_that_is_shown(text: str, meant: str) -> None:
    present = Present(datetime(2026, 11, 18, 11, 0, tzinfo=UTC), timezone(timedelta(hours=2)))
    assert parse(text, present).text == meant
    if "ended" not in text:
        assert parse_activity(text, present).text == parse_workflows(text, present).text == meant
    assert parse(meant) == parse(text, present)


def test_times_before_the_clocks_were_changed_have_the_offset_of_their_day() -> None:
    """In Berlin the clocks went back from 03:00 to 02:00 on October 25."""
    present = Present(datetime(2026, 10, 25, 9, 0, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
    meant = "since:2026-10-25T01:30:00+02:00 until:2026-10-25T04:00:00+01:00"
    assert parse("since:01:30 until:04:00", present).text == meant
    meant = "since:2026-10-24T22:00:00+02:00 until:2026-10-25T04:00:00+01:00"
    assert parse("since:22:00 until:04:00", present).text == meant
    # Offsets with seconds, of the time before zones, are not written.
    assert parse("since:1880-01-01", present).text == "since:1879-12-31T23:06:32Z"


SEEN = {"queue": ["email", "fees", "big mail"], "name": ["send_email", "charge_card"], "error": ["TIMEOUT"]}


def offered(text: str, cursor: int | None = None) -> list[str]:
    """The whole text after each completion."""
    found = completions(text, len(text) if cursor is None else cursor, SEEN)
    return [text[: each.start] + each.text + text[each.end :] for each in found]


@pytest.mark.parametrize("text", ["", "queue:a "])
def test_where_nothing_is_begun_every_key_is_offered(text: str) -> None:
    assert offered(text) == [f"{text}{name}:" for name in KEYS]
    assert all(each.help for each in completions(text, len(text), {}))


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("st", ["status:"]),
        ("-que", ["-queue:"]),
        ("u", ["until:", "unique:"]),
        ("state", ["status:"]),
        ("fail", ["status:failed"]),
        ("charge", ["name:charge_card"]),
        ("status:fa", ["status:failed"]),
        ("status:failed,ru", ["status:failed,running"]),
        ("-queue:e", ["-queue:email", "-queue:fees"]),
        ("queue:big", ['queue:"big mail"']),
        ('queue:"big m', ['queue:"big mail"']),
        ("error:time", ["error:TIMEOUT"]),
        ("has:r", ["has:rerun", "has:error"]),
        ("workflow:", ["workflow:yes", "workflow:no"]),
        ("tries:", ["tries:>1", "tries:>2", "tries:>3"]),
        ("queue:zzz", []),
        ("stauts:fa", []),
    ],
)
def test_what_is_begun_is_completed_with_what_begins_like_it_first(text: str, completed: list[str]) -> None:
    found = offered(text)
    assert [each for each in found if each in completed] == completed
    assert completed or not found
    assert found[: len(completed)] == completed


@pytest.mark.parametrize(
    ("text", "cursor", "first"),
    [
        ("sta:failed queue:a", 3, "status:failed queue:a"),
        ("status:fa,running", 9, "status:failed,running"),
        ("queue:em name:x", 8, "queue:email name:x"),
        ("queue:emXX", 8, "queue:email"),
        ("queue:a  name:x", 8, "queue:a status: name:x"),
    ],
)
def test_what_stands_behind_the_cursor_stays(text: str, cursor: int, first: str) -> None:
    assert offered(text, cursor)[0] == first


def test_values_that_the_word_has_are_not_offered_again() -> None:
    assert offered("queue:email,") == ["queue:email,fees", 'queue:email,"big mail"']


@given(any_text, st.integers(-2, 50))
@settings(max_examples=300)
def test_completion_never_fails_and_stays_inside_the_text(text: str, cursor: int) -> None:
    for each in completions(text, cursor, SEEN):
        assert 0 <= each.start <= each.end <= len(text)
        assert each.text


@given(st.sampled_from(["queue", "name", "error", "worker", "unique"]), storable)
def test_a_completed_value_is_found_as_it_is(key: str, value: str) -> None:
    (found,) = completions(f"{key}:", len(key) + 1, {key: [value]})
    (term,) = parse(f"{key}:{found.text}").terms
    assert [glob.exact for glob in term.values] == [value]
