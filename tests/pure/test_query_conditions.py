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


PENDING_PART = (
    "(status <> 'PENDING' OR CASE WHEN next_retry_at > statement_timestamp() THEN 'RETRY'"
    " WHEN enqueued_at > statement_timestamp() THEN 'SCHEDULED' ELSE 'PENDING' END = ANY ({0}::text[]))"
)
FAILED_PART = (
    "(status <> 'FAILED' OR CASE WHEN error_code = 'TASK_INTERRUPTED' THEN 'INTERRUPTED' ELSE 'FAILED' END"
    " = ANY ({0}::text[]))"
)


@pytest.mark.parametrize(
    ("text", "statuses", "parts"),
    [
        ("status:failed,running", ("RUNNING", "FAILED"), []),
        ("status:retry", ("PENDING",), [(PENDING_PART, ("RETRY",))]),
        ("status:pending", ("PENDING",), [(PENDING_PART, ("PENDING", "SCHEDULED"))]),
        ("status:pending,retry", ("PENDING",), []),
        ("status:scheduled", ("PENDING",), [(PENDING_PART, ("SCHEDULED",))]),
        ("status:pending -status:scheduled", ("PENDING",), [(PENDING_PART, ("PENDING",))]),
        ("status:interrupted", ("FAILED",), [(FAILED_PART, ("INTERRUPTED",))]),
        ("status:failed -status:interrupted", ("FAILED",), [(FAILED_PART, ("FAILED",))]),
        ("status:live", ("PENDING", "CLAIMED", "RUNNING"), []),
        ("-status:live", ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED"), []),
        ("-status:retry", None, [(PENDING_PART, ("PENDING", "SCHEDULED"))]),
        ("status:live,done", None, []),
    ],
)
def test_statuses_stay_exact_so_that_partial_indexes_serve_them(
    text: str, statuses: tuple[str, ...] | None, parts: list[tuple[object, ...]]
) -> None:
    assert (asked(text).statuses, holds(text, "status")) == (statuses, parts)


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
IS_NOT, NOT_LIKE = f"({IS}) IS NOT TRUE", f"({LIKE}) IS NOT TRUE"
QUEUE, WORKER = "queue_name", "claimed_by_worker_id"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("queue:email", [(IS, ("email",))]),
        ("queue:a queue:b,c", [(IS, ("a", "b", "c"))]),
        ("queue:a,b_*", [(LIKE, ("a", r"b\_%"))]),
        ("queue:50%?", [(LIKE, (r"50\%_",))]),
        (r"queue:a\*", [(IS, ("a*",))]),
        ('queue:"a*"', [(IS, ("a*",))]),
        (r'queue:"c:\\temp"', [(IS, (r"c:\temp",))]),
        ("-queue:low", [(IS_NOT, ("low",))]),
        ("-queue:low,l*", [(NOT_LIKE, ("low", "l%"))]),
        ("queue:a -queue:b*", [(IS, ("a",)), (NOT_LIKE, ("b%",))]),
    ],
)
def test_texts_are_equal_or_like(text: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert holds(text, "queue") == [(sql.format(QUEUE), values) for sql, values in expected]


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


NODE = "(EXISTS (SELECT FROM horsies_workflow_tasks node WHERE node.task_id = task.id AND {})) IS TRUE"


@pytest.mark.parametrize(("key", "around", "column"), [("id", "{}", "task.id"), ("workflow", NODE, "node.workflow_id")])
@pytest.mark.parametrize(
    ("value", "sql", "values"),
    [
        ("7F3A", LIKE, ("7f3a%", "%7f3a")),
        (ID.upper(), IS, (ID,)),
        (f"{ID},7f3a", LIKE, (ID, "7f3a%", "%7f3a")),
        ("…1cd6ba9a", LIKE, ("%1cd6ba9a",)),
        ("019a…", LIKE, ("019a%",)),
        ("Import_1", LIKE, (r"Import\_1%", r"%Import\_1")),
    ],
)
def test_an_id_is_whole_or_how_it_begins_or_ends(
    key: str, around: str, column: str, value: str, sql: str, values: tuple[str, ...]
) -> None:
    assert holds(f"{key}:{value}", key) == [(around.replace("{}", sql.format(column)), values)]


def test_a_task_in_no_such_workflow_has_no_node_there() -> None:
    has_none = NODE.replace("IS TRUE", "IS NOT TRUE").replace("{}", IS.format("node.workflow_id"))
    assert holds(f"-workflow:{ID}", "workflow") == [(has_none, (ID,))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workflow:yes", "is_workflow_task"),
        ("workflow:no", "NOT (is_workflow_task)"),
        ("-workflow:no", "is_workflow_task"),
    ],
)
def test_membership_in_any_workflow_is_yes_or_no(text: str, expected: str) -> None:
    assert holds(text, "workflow") == [(expected,)]


NAME, NAME_OR_ID = (
    "task_name LIKE ANY ({0}::text[])",
    "(task_name LIKE ANY ({0}::text[]) OR task.id LIKE ANY ({1}::text[]))",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("send", (NAME, ("%send%",))),
        ("send_*", (NAME, (r"send\_%",))),
        ("send mail", (NAME, ("%send%", "%mail%"))),
        ("7F3A", (NAME_OR_ID, ("%7F3A%",), ("7f3a%", "%7f3a"))),
        ("…1cd6", (NAME_OR_ID, ("%1cd6",), ("%1cd6",))),
        ("-send", (f"NOT ({NAME})", ("%send%",))),
        ("-7f3a", (f"NOT ({NAME_OR_ID})", ("%7f3a%",), ("7f3a%", "%7f3a"))),
    ],
)
def test_a_bare_word_is_part_of_a_name_or_of_an_id(text: str, expected: tuple[object, ...]) -> None:
    assert holds(text, "") == [expected]


def test_arguments_are_searched_for_a_part_after_everything_else() -> None:
    test = "(args LIKE ANY ({0}::text[]) OR kwargs LIKE ANY ({0}::text[]))"
    text = """args:'"order": 42',100% -args:a*b unique:x"""
    assert holds(text, "args") == [(test, ('%"order": 42%', r"%100\%%")), (f"{test} IS NOT TRUE", ("%a%b%",))]
    assert [one.key for one in asked(text).others] == ["unique", "args", "args"]


@pytest.mark.parametrize(
    ("what", "fact"),
    [
        ("error", "error_code IS NOT NULL"),
        ("deadline", "good_until IS NOT NULL"),
        ("unique", "unique_key IS NOT NULL"),
        ("rerun", "rerun_of IS NOT NULL"),
        ("due", "enqueued_at <= statement_timestamp()"),
    ],
)
def test_has_is_true_or_false(what: str, fact: str) -> None:
    assert holds(f"has:{what}", "has") == [(fact,)]
    assert holds(f"-has:{what}", "has") == [(f"NOT ({fact})",)]


AGO, AT = "created_at {} statement_timestamp() - {{0}}::interval", "created_at {} {{0}}::timestamptz"
TRY = "retry_count + 1 {} {{0}}::integer"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("since:1h", [(AGO.format(">="), timedelta(hours=1))]),
        ("until:1h30m", [(AGO.format("<="), timedelta(minutes=90))]),
        ("since:1.5d", [(AGO.format(">="), timedelta(hours=36))]),
        ("since:2w", [(AGO.format(">="), timedelta(days=14))]),
        ("since:2026-11-18", [(AT.format(">="), datetime(2026, 11, 18, tzinfo=UTC))]),
        ("until:2026-11-18T14:05+02:00", [(AT.format("<="), datetime(2026, 11, 18, 12, 5, tzinfo=UTC))]),
        ("tries:>1", [(TRY.format(">="), 2)]),
        ("tries:>=2", [(TRY.format(">="), 2)]),
        ("tries:<4", [(TRY.format("<="), 3)]),
        ("tries:2", [(TRY.format(">="), 2), (TRY.format("<="), 2)]),
        ("tries:2..4", [(TRY.format(">="), 2), (TRY.format("<="), 4)]),
        ("tries:>1 tries:<=4 tries:>2", [(TRY.format(">="), 3), (TRY.format("<="), 4)]),
    ],
)
def test_times_and_ranges_include_both_their_ends(text: str, expected: list[tuple[object, ...]]) -> None:
    assert [(one.sql, *one.values) for one in asked(text).others] == expected


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
