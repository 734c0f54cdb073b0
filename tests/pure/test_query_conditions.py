"""Filters as conditions: the meaning of each, and that no character of a user's text gets into a statement."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings, strategies as st
from query_texts import filters, quoted, storable

from horsies.domain.states import TaskStatus
from horsies.query import (
    KEYS,
    WORKFLOWS,
    FilterError,
    TaskConditions,
    parse,
    parse_workflows,
    task_conditions,
    workflow_conditions,
)
from horsies.query.keys import STATES
from horsies.query.parser import TaskFilter, WorkflowFilter
from horsies.views import Cursor, tasks as search, workflows as workflow_search
from horsies.views.searching import Source, Stretch, edge_of, over

US = timedelta(microseconds=1)
ID = "019a7c2e-1111-7222-8333-44441cd6ba9a"


def asked(text: str) -> TaskConditions:
    return task_conditions(parse(text))


def holds(text: str, key: str) -> list[tuple[object, ...]]:
    """The conditions of the key: each is its SQL, then its values."""
    return [(one.sql, *one.values) for one in asked(text).others if one.key == key]


def like(pattern: str, text: str) -> bool:
    """LIKE as PostgreSQL does it, with the backslash as its escape."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def is_shown(given: TaskConditions, status: str, state: str) -> bool:
    """Whether a row with this status, which is shown as this state, meets the conditions on both."""
    parts = [one for one in given.others if one.key == "status" and f"status <> '{status}'" in one.sql]
    return (given.statuses is None or status in given.statuses) and all(state in one.values[0] for one in parts)  # type: ignore[operator]


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
        assert is_shown(found, status.value, status.value) is (status.value in left)
    for status, state in (("PENDING", "RETRY"), ("PENDING", "SCHEDULED"), ("FAILED", "INTERRUPTED")):
        assert is_shown(found, status, state) is (state in left)


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ("error:TIMEOUT", ("FAILED", "CANCELLED", "EXPIRED")),
        ("error:T*", ("FAILED", "CANCELLED", "EXPIRED")),
        ("has:error", ("FAILED", "CANCELLED", "EXPIRED")),
        ("error:TIMEOUT status:live", ("PENDING", "CLAIMED", "RUNNING")),
        ("-error:TIMEOUT", None),
        ("-has:error", None),
    ],
)
def test_an_error_is_looked_for_where_tasks_have_one(text: str, statuses: tuple[str, ...] | None) -> None:
    assert asked(text).statuses == statuses


IS, LIKE = "{} = ANY ({{0}}::text[])", "{} LIKE ANY ({{0}}::text[])"
QUEUE, WORKER = "queue_name", "claimed_by_worker_id"


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("queue", QUEUE), ("name", "task_name"), ("error", "error_code"), ("worker", WORKER), ("unique", "unique_key"),
    ],
)  # fmt: skip
def test_each_text_key_has_its_own_column(key: str, column: str) -> None:
    (condition,) = asked(f"{key}:x").others
    assert (condition.key, condition.sql, condition.values) == (key, IS.format(column), (("x",),))
    assert asked(f"{key}:x").exact(key) == ("x",)
    assert asked(f"{key}:x*").exact(key) is asked(f"-{key}:x").exact(key) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("web-1-4121-0a0b0c0d", (IS, ("web-1-4121-0a0b0c0d",))),
        ("web-1:4121", (LIKE, ("web-1:4121", "web-1-4121-%"))),
        ("web_*:4121", (LIKE, (r"web\_%:4121", r"web\_%-4121-%"))),
        ("web-1:4121,db-1", (LIKE, ("web-1:4121", "web-1-4121-%", "db-1"))),
        ("web-1:x", (IS, ("web-1:x",))),
    ],
)
def test_a_worker_is_its_id_or_the_host_and_pid_that_lists_name_it_by(
    value: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    assert holds(f"worker:{value}", "worker") == [(expected[0].format(WORKER), expected[1])]


def test_arguments_are_searched_for_a_part_after_everything_else() -> None:
    test = "(args LIKE ANY ({0}::text[]) OR kwargs LIKE ANY ({0}::text[]))"
    text = """args:'"order": 42',100% -args:a*b unique:x"""
    assert holds(text, "args") == [(test, ('%"order": 42%', r"%100\%%")), (f"{test} IS NOT TRUE", ("%a%b%",))]
    assert [one.key for one in asked(text).others] == ["unique", "args", "args"]


def bounds_of(text: str) -> list[tuple[str, object]]:
    """Each comparison of a length of time or of an end, with what it is compared to."""
    return [(one.sql[one.sql.rindex(" {0}") - 2 :], *one.values) for one in asked(text).others]  # type: ignore[misc]


FROM, TO = ">= {0}::interval", "<= {0}::interval"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait:>30s", [(FROM, timedelta(seconds=30) + US)]),
        ("wait:>=250ms", [(FROM, timedelta(milliseconds=250))]),
        ("run:<5m", [(FROM, timedelta()), (TO, timedelta(minutes=5) - US)]),
        ("run:5m..1h", [(FROM, timedelta(minutes=5)), (TO, timedelta(hours=1))]),
        ("run:>1m run:<=1h", [(FROM, timedelta(minutes=1) + US), (TO, timedelta(hours=1))]),
        ("ended:<1h", [(FROM, timedelta()), (TO, timedelta(hours=1) - US)]),
        ("ended:>=2026-11-18T01:02:03Z", [(">= {0}::timestamptz", datetime(2026, 11, 18, 1, 2, 3, tzinfo=UTC))]),
        ("ended:<2026-11-18", [("<= {0}::timestamptz", datetime(2026, 11, 18, tzinfo=UTC) - US)]),
        (
            "ended:2026-11-18..2026-11-19T06:00+02:00",
            [
                (">= {0}::timestamptz", datetime(2026, 11, 18, tzinfo=UTC)),
                ("<= {0}::timestamptz", datetime(2026, 11, 19, 4, tzinfo=UTC)),
            ],
        ),
    ],
)
def test_lengths_are_never_negative_and_include_both_their_ends(text: str, expected: list[tuple[str, object]]) -> None:
    assert bounds_of(text) == expected


def test_the_equality_with_some_texts_takes_the_place_of_all_conditions_of_its_key() -> None:
    wanted = asked("queue:mail id:7f3a -id:beef").among("id", ("a", "b"))
    assert wanted.exact("id") == ("a", "b")
    assert sorted(one.key for one in wanted.others) == ["id", "queue"]


@given(storable, storable)
@settings(deadline=None)
def test_literal_text_is_like_itself_and_nothing_else(text: str, other: str) -> None:
    ((_, (pattern, _)),) = holds(f"name:{quoted(text)},x*", "name")  # type: ignore[misc, has-type]
    assert like(pattern, text)
    assert like(pattern, other) is (text == other)


@given(storable, storable)
@settings(deadline=None)
def test_a_star_stands_for_anything(begin: str, end: str) -> None:
    ((_, (pattern,)),) = holds(f"name:{quoted(begin)}*{quoted(end)}", "name")  # type: ignore[misc, has-type]
    assert like(pattern, begin + end)
    assert like(pattern, f"{begin}%_\\{end}")
    assert not like(pattern, f"x{begin}{end}x") or (begin.startswith("x") or end.endswith("x"))


@given(filters)
@settings(deadline=None, max_examples=200)
def test_lists_are_never_empty_and_their_texts_can_be_stored(text: str) -> None:
    try:
        found = asked(text)
    except FilterError:
        return
    for value in (value for one in found.all for value in one.values):
        if isinstance(value, tuple):
            assert value
            assert all("\0" not in each and each.encode() for each in value)


SOURCES = [one for one in vars(search).values() if isinstance(one, Source)]
WORKFLOW_SOURCES = [one for one in vars(workflow_search).values() if isinstance(one, Source)]
PLACE = Cursor(datetime(2026, 11, 18, tzinfo=UTC), "the id of a row", 7)


def statements(understood: TaskFilter | WorkflowFilter) -> list[str]:
    """Each statement that a search for the filter may send, for every source and from the middle of it."""
    if isinstance(understood, TaskFilter):
        table, wanted, sources = search.TASKS, task_conditions(understood), SOURCES
        # The other sources are chosen only for filters that they can serve.
        sources = [one for one in sources if not one.serves - {"since", "until", "queue"} or one.served(wanted)]
    else:
        table, wanted, sources = workflow_search.WORKFLOWS, workflow_conditions(understood), WORKFLOW_SOURCES
        sources = [one for one in sources if not one.serves - {"since", "until"} or one.served(wanted)]
    found: list[str] = []
    for source in sources:
        stretch = Stretch(source, False, PLACE, PLACE, 100)
        texts = [over(table, wanted, stretch, "SELECT * FROM row ORDER BY /* order */ LIMIT $1", 50)]
        texts += [edge_of(table, wanted, stretch)] if source.is_walked else []
        for text, values in texts:
            assert {int(number) for number in re.findall(r"\$([0-9]+)", text)} == {*range(1, len(values) + 1)}
            found.append(text)
    return found


def test_each_kind_of_source_is_among_the_statements() -> None:
    assert len(SOURCES) == 10
    assert len(WORKFLOW_SOURCES) == 6
    assert len(statements(parse(f"id:{ID} status:failed workflow:{ID}"))) == 15


# Characters that occur in no statement, around what would end a string or a statement, or be taken for a place in it.
strange = st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]), min_size=1, max_size=2)
hostile = st.sampled_from(
    ["'; DROP TABLE horsies_tasks; --", "'", '"', "\\", "%", ")", "$1", "{0}", "/* most */", "/* rows */"]
)
user_texts = st.tuples(strange, hostile, strange).map("".join)
NEGATED = ("-", "-queue:", "-worker:", "-id:", "-workflow:", "-args:")
keys = st.sampled_from(["", "queue:", "name:", "error:", "worker:", "id:", "workflow:", "args:", "unique:", *NEGATED])


@given(st.lists(st.tuples(keys, user_texts, st.sampled_from(["", "*"])), min_size=1, max_size=4))
@settings(deadline=None, max_examples=200)
def test_no_character_of_a_users_text_is_in_a_statement_on_tasks(words: list[tuple[str, str, str]]) -> None:
    text = " ".join(f"{key}{quoted(value)}{star}" for key, value, star in words)
    understood = parse(text)
    plain = parse(" ".join(f"{key}{quoted('x' * len(value))}{star}" for key, value, star in words))
    assert all(statement.isascii() for statement in statements(understood))
    # Two words of one length ask for one of the same form: their statements are the same to the last character.
    assume(len(plain.terms) == len(understood.terms))
    assert statements(understood) == statements(plain)


@given(st.sampled_from(["name:", "-definition:", "error:", "-error:", "id:", "parent:", ""]), user_texts)
@settings(deadline=None)
def test_no_character_of_a_users_text_is_in_a_statement_on_workflows(key: str, value: str) -> None:
    found = statements(parse_workflows(f"{key}{quoted(value)}"))
    assert all(statement.isascii() for statement in found)
    assert found == statements(parse_workflows(f"{key}{quoted('x' * len(value))}"))


def test_each_key_of_tasks_and_workflows_has_its_condition() -> None:
    for key in KEYS.values():
        assert task_conditions(parse(key.example)).all, key.name
    for key in WORKFLOWS.keys.values():
        assert workflow_conditions(parse_workflows(key.example)).all, key.name
