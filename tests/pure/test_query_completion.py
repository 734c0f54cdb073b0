"""Completion: the offers at the cursor, and that taking one leaves a valid filter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from query_texts import any_text, storable

from horsies.query import KEYS, completions, parse

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
@settings(deadline=None, max_examples=300)
def test_completion_never_fails_and_stays_inside_the_text(text: str, cursor: int) -> None:
    for each in completions(text, cursor, SEEN):
        assert 0 <= each.start <= each.end <= len(text)
        assert each.text


@given(st.sampled_from(["queue", "name", "error", "worker", "unique"]), storable)
@settings(deadline=None)
def test_a_completed_value_is_found_as_it_is(key: str, value: str) -> None:
    (found,) = completions(f"{key}:", len(key) + 1, {key: [value]})
    (term,) = parse(f"{key}:{found.text}").terms
    assert [glob.exact for glob in term.values] == [value]
