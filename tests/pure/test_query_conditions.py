"""Filters as conditions, of tasks, workflows and schedules; no character of a user's text gets into a statement."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings, strategies as st
from query_texts import filters, quoted, storable
from schedule_scene import EVERY_5_MIN, a_run, a_schedule

from horsies.domain.states import TaskStatus, WorkflowStatus
from horsies.query import (
    KEYS,
    SCHEDULES,
    WORKFLOWS,
    FilterError,
    TaskConditions,
    WorkflowConditions,
    completions,
    parse,
    parse_schedules,
    parse_workflows,
    task_conditions,
    workflow_conditions,
)
from horsies.query.keys import STATES
from horsies.query.parser import TaskFilter, WorkflowFilter
from horsies.views import Cursor, Standing, tasks as search, workflows as workflow_search
from horsies.views.row_filter import matching_schedules
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
    bounds = [(one.sql[one.sql.rindex(" {0}") - 2 :], *one.values) for one in asked(text).others]  # type: ignore[misc]
    assert bounds == expected


def test_the_equality_with_some_texts_takes_the_place_of_all_conditions_of_its_key() -> None:
    wanted = asked("queue:mail id:7f3a -id:beef").among("id", ("a", "b"))
    assert wanted.exact("id") == ("a", "b")
    assert sorted(one.key for one in wanted.others) == ["id", "queue"]


@given(storable, storable)
def test_literal_text_is_like_itself_and_nothing_else(text: str, other: str) -> None:
    ((_, (pattern, _)),) = holds(f"name:{quoted(text)},x*", "name")  # type: ignore[misc, has-type]
    assert like(pattern, text)
    assert like(pattern, other) is (text == other)


@given(storable, storable)
def test_a_star_stands_for_anything(begin: str, end: str) -> None:
    ((_, (pattern,)),) = holds(f"name:{quoted(begin)}*{quoted(end)}", "name")  # type: ignore[misc, has-type]
    assert like(pattern, begin + end)
    assert like(pattern, f"{begin}%_\\{end}")
    assert not like(pattern, f"x{begin}{end}x") or (begin.startswith("x") or end.endswith("x"))


@given(filters)
@settings(max_examples=200)
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
@settings(max_examples=200)
def test_no_character_of_a_users_text_is_in_a_statement_on_tasks(words: list[tuple[str, str, str]]) -> None:
    text = " ".join(f"{key}{quoted(value)}{star}" for key, value, star in words)
    understood = parse(text)
    plain = parse(" ".join(f"{key}{quoted('x' * len(value))}{star}" for key, value, star in words))
    assert all(statement.isascii() for statement in statements(understood))
    # Two words of one length ask for one of the same form: their statements are the same to the last character.
    assume(len(plain.terms) == len(understood.terms))
    assert statements(understood) == statements(plain)


@given(st.sampled_from(["name:", "-definition:", "error:", "-error:", "id:", "parent:", ""]), user_texts)
def test_no_character_of_a_users_text_is_in_a_statement_on_workflows(key: str, value: str) -> None:
    found = statements(parse_workflows(f"{key}{quoted(value)}"))
    assert all(statement.isascii() for statement in found)
    assert found == statements(parse_workflows(f"{key}{quoted('x' * len(value))}"))


def test_each_key_of_tasks_and_workflows_has_its_condition() -> None:
    for key in KEYS.values():
        assert task_conditions(parse(key.example)).all, key.name
    for key in WORKFLOWS.keys.values():
        assert workflow_conditions(parse_workflows(key.example)).all, key.name


def flows_asked(text: str) -> WorkflowConditions:
    return workflow_conditions(parse_workflows(text))


def refused(text: str) -> FilterError:
    with pytest.raises(FilterError) as caught:
        parse_workflows(text)
    return caught.value


status_words = st.lists(st.sampled_from(list(WORKFLOWS.states)), max_size=3)


@given(status_words, status_words)
def test_statuses_are_those_asked_for_less_those_excluded(wanted: list[str], excluded: list[str]) -> None:
    covered = frozenset[str]().union(*(WORKFLOWS.states[word] for word in wanted or ["live", "done"]))
    left = covered.difference(*(WORKFLOWS.states[word] for word in excluded))
    text = " ".join([*(f"status:{word}" for word in wanted), *(f"-status:{word}" for word in excluded)])
    if not left:
        assert "no state is left" in str(refused(text))
        return
    every = tuple(status.value for status in WorkflowStatus)
    assert flows_asked(text).statuses == (
        None if len(left) == len(every) else tuple(one for one in every if one in left)
    )


@pytest.mark.parametrize(
    ("text", "start", "end", "suggestion"),
    [
        ("stauts:failed", 0, 6, "status"),
        ("workflow:order", 0, 8, "name"),
        ("def:x", 0, 3, "definition"),
        ("child:yes", 0, 5, "parent"),
        ("status:finished", 7, 15, "completed"),
        ("status:active", 7, 13, "running"),
        ("status:halted", 7, 13, "paused"),
        ("status:canceled", 7, 15, "cancelled"),
        ("status:retry", 7, 12, None),
        ("queue:mail", 0, 10, '"queue:mail"'),
        ("since:1hour", 6, 11, "1h"),
        ("-since:1h", 0, 9, "until:1h"),
    ],
)
def test_a_mistake_is_pointed_at_with_what_was_probably_meant(
    text: str, start: int, end: int, suggestion: str | None
) -> None:
    (problem,) = refused(text).problems
    assert (problem.start, problem.end, problem.suggestion) == (start, end, suggestion)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("parent:yes,019a", "parent takes yes or no, or ids, not both"),
        ("-parent:yes parent:019a", "no workflow is left"),
        ("parent:yes -parent:yes", "no workflow is left"),
        ("since:1h until:2h", "swap them"),
        ("\0", "no workflow can contain this character"),
    ],
)
def test_what_no_workflow_can_match_is_refused(text: str, why: str) -> None:
    assert why in str(refused(text))


def test_every_key_is_explained_and_its_example_understood() -> None:
    for key in WORKFLOWS.keys.values():
        assert key.example in WORKFLOWS.describe()
        assert parse_workflows(key.example).terms
    assert "run:" not in WORKFLOWS.describe()


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("", [f"{key}:" for key in WORKFLOWS.keys]),
        ("st", ["status:"]),
        ("fail", ["status:failed"]),
        ("status:pa", ["status:paused"]),
        ("parent:", ["parent:yes", "parent:no"]),
        ("def", ["definition:"]),
        ("name:mon", ["name:month_end"]),
        ("queue:", []),
    ],
)
def test_completion_offers_the_words_of_this_language(text: str, completed: list[str]) -> None:
    found = completions(text, len(text), {"name": ["month_end"], "queue": ["mail"]}, WORKFLOWS)
    assert [text[: each.start] + each.text + text[each.end :] for each in found][: len(completed)] == completed
    assert bool(found) is bool(completed)


NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
SOON, LATE = NOON + timedelta(minutes=5), NOON - timedelta(minutes=5)

ROWS = {
    row.name: row
    for row in (
        a_schedule("nightly_report", timezone="Europe/Berlin", queue="bulk", next_run_at=NOON + timedelta(hours=13)),
        a_schedule(
            "sync", pattern=EVERY_5_MIN, target="shop.sync", next_run_at=SOON, run_count=500, runs=(a_run(NOON),)
        ),
        a_schedule("broken", target="shop.broken", next_run_at=SOON, runs=(a_run(NOON), a_run(LATE, "FAILED"))),
        a_schedule("worse", next_run_at=SOON, runs=(a_run(NOON, "SKIPPED"), a_run(LATE, "FAILED")), skip_slot=SOON),
        a_schedule("late", next_run_at=LATE),
        a_schedule("alone", next_run_at=SOON, schedulers=()),
        a_schedule("paused", kind="workflow", target="month_end", next_run_at=LATE, paused_at=LATE),
        a_schedule("theirs", definition=None, next_run_at=SOON),
    )
}


def found(text: str) -> set[str]:
    return {row.name for row in matching_schedules(parse_schedules(text), ROWS.values(), NOON)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set(ROWS)),
        ("status:overdue", {"late"}),
        ("status:stuck", {"late", "alone"}),
        ("status:paused,unserved", {"paused", "alone"}),
        ("-status:scheduled", {"late", "alone", "paused"}),
        ("name:*ly*", {"nightly_report"}),
        ("sends:shop.*", set(ROWS) - {"paused", "theirs"}),
        ("month", {"paused"}),
        ("broken", {"broken"}),
        ("queue:bulk", {"nightly_report"}),
        ("zone:Europe/*", {"nightly_report"}),
        ("last:completed", {"sync", "broken"}),
        ("last:failed", {"worse"}),
        ("has:failures", {"broken", "worse"}),
        ("has:failures -has:skip", {"broken"}),
        ("has:workflow", {"paused"}),
        ("next:<10m status:scheduled", {"sync", "broken", "worse", "theirs"}),
        ("next:>1h", {"nightly_report"}),
        ("runs:>0", {"sync"}),
    ],
)
def test_the_schedules_that_match(text: str, names: set[str]) -> None:
    assert found(text) == names


def test_each_state_can_be_asked_for() -> None:
    assert SCHEDULES.every_state == {*Standing}


@pytest.mark.parametrize(
    ("text", "meant"), [("status:missed", "overdue"), ("status:pausd", "paused"), ("task:a", "sends")]
)
def test_a_mistake_is_pointed_at_with_what_was_meant(text: str, meant: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_schedules(text)
    assert caught.value.problems[0].suggestion == meant


def test_the_example_is_a_filter() -> None:
    assert parse_schedules(SCHEDULES.example).text == SCHEDULES.example
