"""Filters as parameters: the meaning of each, and that LIKE patterns match what the filter says."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st
from query_texts import filters, quoted, storable

from horsies.domain.states import TaskStatus
from horsies.query import FilterError, TaskParameters, Texts, Words, parameters, parse
from horsies.query.keys import STATES

US = timedelta(microseconds=1)
ID = "019a7c2e-1111-7222-8333-44441cd6ba9a"


def asked(text: str) -> TaskParameters:
    return parameters(parse(text))


def like(pattern: str, text: str) -> bool:
    """LIKE as PostgreSQL does it, with the backslash as its escape."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def is_shown(given: TaskParameters, status: str, *, special: bool) -> bool:
    """How the statements use the three parameters; `special` is waiting for a retry, or interrupted."""
    if given.statuses is not None and status not in given.statuses:
        return False
    if status == "PENDING" and given.waiting is not None:
        return ("RETRY" if special else "PENDING") in given.waiting
    if status == "FAILED" and given.interrupted is not None:
        return given.interrupted is special
    return True


def test_an_empty_filter_uses_no_parameter() -> None:
    assert asked("") == TaskParameters()
    for field in fields(TaskParameters):
        value = getattr(TaskParameters(), field.name)
        assert value is None or value in (Texts(), Words())


words = st.lists(st.sampled_from(list(STATES)), max_size=3)


@given(words, words)
@settings(deadline=None)
def test_states_are_those_asked_for_less_those_excluded(wanted: list[str], excluded: list[str]) -> None:
    covered = frozenset[str]().union(*(STATES[word] for word in wanted or ["live", "done"]))
    left = covered.difference(*(STATES[word] for word in excluded))
    text = " ".join([*(f"status:{word}" for word in wanted), *(f"-status:{word}" for word in excluded)])
    if not left:
        with pytest.raises(FilterError):
            parse(text)
        return
    found = asked(text)
    for status in TaskStatus:
        assert is_shown(found, status.value, special=False) is (status.value in left)
    assert is_shown(found, "PENDING", special=True) is ("RETRY" in left)
    assert is_shown(found, "FAILED", special=True) is ("INTERRUPTED" in left)


@pytest.mark.parametrize(
    ("text", "statuses", "waiting", "interrupted"),
    [
        ("status:failed,running", ("RUNNING", "FAILED"), None, None),
        ("status:retry", ("PENDING",), ("RETRY",), None),
        ("status:pending", ("PENDING",), ("PENDING", "SCHEDULED"), None),
        ("status:pending,retry", ("PENDING",), None, None),
        ("status:scheduled", ("PENDING",), ("SCHEDULED",), None),
        ("status:pending -status:scheduled", ("PENDING",), ("PENDING",), None),
        ("status:interrupted", ("FAILED",), None, True),
        ("status:failed -status:interrupted", ("FAILED",), None, False),
        ("status:live", ("PENDING", "CLAIMED", "RUNNING"), None, None),
        ("-status:live", ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED"), None, None),
        ("-status:retry", None, ("PENDING", "SCHEDULED"), None),
        ("status:live,done", None, None, None),
    ],
)
def test_statuses_stay_exact_so_that_partial_indexes_serve_them(
    text: str, statuses: tuple[str, ...] | None, waiting: tuple[str, ...] | None, interrupted: bool | None
) -> None:
    found = asked(text)
    assert (found.statuses, found.waiting, found.interrupted) == (statuses, waiting, interrupted)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("queue:email", Texts(exact=("email",))),
        ("queue:a queue:b,c", Texts(exact=("a", "b", "c"))),
        ("queue:a,b_*", Texts(like=("a", r"b\_%"))),
        ("queue:50%?", Texts(like=(r"50\%_",))),
        (r"queue:a\*", Texts(exact=("a*",))),
        ('queue:"a*"', Texts(exact=("a*",))),
        (r'queue:"c:\\temp"', Texts(exact=(r"c:\temp",))),
        ("-queue:low", Texts(not_exact=("low",))),
        ("-queue:low,l*", Texts(not_like=("low", "l%"))),
        ("queue:a -queue:b*", Texts(exact=("a",), not_like=("b%",))),
    ],
)
def test_texts_are_equal_or_like(text: str, texts: Texts) -> None:
    assert asked(text).queue == texts


@pytest.mark.parametrize("key", ["queue", "name", "error", "worker", "unique"])
def test_each_text_key_fills_its_own_parameter(key: str) -> None:
    assert asked(f"{key}:x") == TaskParameters(**{key: Texts(exact=("x",))})


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("web-1-4121-0a0b0c0d", Texts(exact=("web-1-4121-0a0b0c0d",))),
        ("web-1:4121", Texts(like=("web-1:4121", "web-1-4121-%"))),
        ("web_*:4121", Texts(like=(r"web\_%:4121", r"web\_%-4121-%"))),
        ("web-1:4121,db-1", Texts(like=("web-1:4121", "web-1-4121-%", "db-1"))),
        ("web-1:x", Texts(exact=("web-1:x",))),
    ],
)
def test_a_worker_is_its_id_or_the_host_and_pid_that_lists_name_it_by(value: str, texts: Texts) -> None:
    assert asked(f"worker:{value}").worker == texts


@pytest.mark.parametrize("key", ["id", "workflow"])
@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("7F3A", Texts(like=("7f3a%", "%7f3a"))),
        (ID.upper(), Texts(exact=(ID,))),
        (f"{ID},7f3a", Texts(like=(ID, "7f3a%", "%7f3a"))),
        ("…1cd6ba9a", Texts(like=("%1cd6ba9a",))),
        ("019a…", Texts(like=("019a%",))),
        ("Import_1", Texts(like=(r"Import\_1%", r"%Import\_1"))),
    ],
)
def test_an_id_is_whole_or_how_it_begins_or_ends(key: str, value: str, texts: Texts) -> None:
    assert getattr(asked(f"{key}:{value}"), key) == texts


@pytest.mark.parametrize(("text", "expected"), [("workflow:yes", True), ("workflow:no", False), ("-workflow:no", True)])
def test_membership_in_any_workflow_is_yes_or_no(text: str, expected: bool) -> None:
    assert asked(text) == TaskParameters(in_workflow=expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("send", Words(name_like=("%send%",))),
        ("send_*", Words(name_like=(r"send\_%",))),
        ("send mail", Words(name_like=("%send%", "%mail%"))),
        ("7F3A", Words(name_like=("%7F3A%",), id_like=("7f3a%", "%7f3a"))),
        ("…1cd6", Words(name_like=("%1cd6",), id_like=("%1cd6",))),
        ("-send", Words(not_name_like=("%send%",))),
        ("-7f3a", Words(not_name_like=("%7f3a%",), not_id_like=("7f3a%", "%7f3a"))),
    ],
)
def test_a_bare_word_is_part_of_a_name_or_of_an_id(text: str, words: Words) -> None:
    assert asked(text) == TaskParameters(words=words)


def test_arguments_are_searched_for_a_part() -> None:
    found = asked("""args:'"order": 42',100% -args:a*b""")
    assert found.args_like == ('%"order": 42%', r"%100\%%")
    assert found.args_not_like == ("%a%b%",)


@pytest.mark.parametrize("what", ["error", "deadline", "unique", "rerun"])
def test_has_is_true_false_or_not_asked(what: str) -> None:
    assert asked(f"has:{what}") == TaskParameters(**{f"has_{what}": True})
    assert asked(f"-has:{what}") == TaskParameters(**{f"has_{what}": False})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("since:1h", {"since_ago": timedelta(hours=1)}),
        ("until:1h30m", {"until_ago": timedelta(minutes=90)}),
        ("since:1.5d", {"since_ago": timedelta(hours=36)}),
        ("since:2w", {"since_ago": timedelta(days=14)}),
        ("ended:>=2026-11-18T01:02:03Z", {"ended_from": datetime(2026, 11, 18, 1, 2, 3, tzinfo=UTC)}),
        ("ended:<2026-11-18", {"ended_until": datetime(2026, 11, 18, tzinfo=UTC) - US}),
        (
            "ended:2026-11-18..2026-11-19T06:00+02:00",
            {
                "ended_from": datetime(2026, 11, 18, tzinfo=UTC),
                "ended_until": datetime(2026, 11, 19, 4, tzinfo=UTC),
            },
        ),
        ("since:2026-11-18", {"since_at": datetime(2026, 11, 18, tzinfo=UTC)}),
        ("until:2026-11-18T14:05+02:00", {"until_at": datetime(2026, 11, 18, 12, 5, tzinfo=UTC)}),
        ("tries:>1", {"tries_min": 2}),
        ("tries:>=2", {"tries_min": 2}),
        ("tries:<4", {"tries_max": 3}),
        ("tries:2", {"tries_min": 2, "tries_max": 2}),
        ("tries:2..4", {"tries_min": 2, "tries_max": 4}),
        ("tries:>1 tries:<=4 tries:>2", {"tries_min": 3, "tries_max": 4}),
        ("wait:>30s", {"wait_min": timedelta(seconds=30) + US}),
        ("wait:>=250ms", {"wait_min": timedelta(milliseconds=250)}),
        ("run:<5m", {"run_max": timedelta(minutes=5) - US}),
        ("run:5m..1h", {"run_min": timedelta(minutes=5), "run_max": timedelta(hours=1)}),
        ("run:>1m run:<=1h", {"run_min": timedelta(minutes=1) + US, "run_max": timedelta(hours=1)}),
    ],
)
def test_times_and_ranges_include_both_their_ends(text: str, expected: dict[str, object]) -> None:
    assert asked(text) == TaskParameters(**expected)


@given(storable, storable)
@settings(deadline=None)
def test_literal_text_is_like_itself_and_nothing_else(text: str, other: str) -> None:
    (pattern, _) = asked(f"name:{quoted(text)},x*").name.like or ()
    assert like(pattern, text)
    assert like(pattern, other) is (text == other)


@given(storable, storable)
@settings(deadline=None)
def test_a_star_stands_for_anything(begin: str, end: str) -> None:
    (pattern,) = asked(f"name:{quoted(begin)}*{quoted(end)}").name.like or ()
    assert like(pattern, begin + end)
    assert like(pattern, f"{begin}%_\\{end}")
    assert not like(pattern, f"x{begin}{end}x") or (begin.startswith("x") or end.endswith("x"))


@given(filters)
@settings(deadline=None, max_examples=200)
def test_lists_are_none_or_full_and_their_texts_can_be_stored(text: str) -> None:
    try:
        found = asked(text)
    except FilterError:
        return
    for group in (found, found.id, found.queue, found.name, found.words, found.workflow):
        for field in fields(group):
            value = getattr(group, field.name)
            if isinstance(value, tuple):
                assert value
                assert all("\0" not in each and each.encode() for each in value)
    for texts in (found.id, found.queue, found.name, found.error, found.worker, found.unique, found.workflow):
        assert texts.exact is None or texts.like is None
