"""Filters made by keys: they match what is on the screen, and what cannot be expressed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from horsies.query import parse
from horsies.query.keys import EVERY_STATE, SCHEDULED
from horsies.query.language import states
from horsies.views import GROUPINGS, Sort
from horsies_tui.tasks.filter_edits import GROUP_KEYS, NoSuchFilter, all_shown, of_groups, of_states

SOME_STATES = st.frozensets(st.sampled_from(sorted(EVERY_STATE - {SCHEDULED})), min_size=1)
"""As rows show them: a scheduled task is shown as pending."""


@given(SOME_STATES)
def test_a_filter_of_states_covers_exactly_these(wanted: frozenset[str]) -> None:
    made = of_states(parse("queue:mail"), wanted)
    assert states(parse(made.text)) == (wanted | {SCHEDULED} if "PENDING" in wanted else wanted)
    assert "queue:mail" in made.text


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("", {"FAILED", "INTERRUPTED"}, "status:failed"),
        ("", {"FAILED"}, "status:failed -status:interrupted"),
        ("", {"RETRY"}, "status:retry"),
        ("status:done queue:mail", {"RUNNING"}, "status:running queue:mail"),
        ("", {"PENDING", "RETRY", "CLAIMED", "RUNNING"}, "status:live"),
        ("status:failed since:1h", set(), "since:1h"),
        ("status:failed", EVERY_STATE, ""),
    ],
)
def test_states_are_written_as_a_person_would(before: str, wanted: set[str], after: str) -> None:
    assert of_states(parse(before), frozenset(wanted)).text == after


def test_every_grouping_narrows_some_key() -> None:
    assert set(GROUP_KEYS) == set(GROUPINGS)


def test_a_group_takes_the_place_of_what_was_asked_of_its_key() -> None:
    """If the key were added again, the filter would match either."""
    before = parse("error:RATE*,TIMEOUT -error:OLD queue:pay")
    assert of_groups(before, "error_code", ["RATE_LIMITED"]).text == "-error:OLD queue:pay error:RATE_LIMITED"


def test_a_name_with_signs_of_the_language_is_meant_as_it_is() -> None:
    name = 'shop.*,"a b"'
    made = of_groups(parse(""), "task_name", [name])
    assert [str(value.exact) for term in parse(made.text).terms for value in term.values] == [name]


def test_several_groups_are_any_of_them() -> None:
    assert of_groups(parse("since:1h"), "queue_name", ["mail", "pay"]).text == "since:1h queue:mail,pay"


def test_tasks_without_an_error_code_are_those_that_were_counted() -> None:
    """Codes are counted among the tasks that ended badly; otherwise every completed task would match too."""
    assert of_groups(parse(""), "error_code", [None]).text == "status:failed,cancelled,expired -has:error"
    assert of_groups(parse("status:live"), "error_code", [None]).text == "status:live -has:error"


@pytest.mark.parametrize(("by", "keys"), [("worker", [None]), ("error_code", ["TIMEOUT", None])])
def test_a_group_that_no_filter_can_mean_is_refused(by: str, keys: list[str | None]) -> None:
    with pytest.raises(NoSuchFilter):
        of_groups(parse(""), by, keys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sort", "meant"),
    [
        ("queue:mail", Sort.NEWEST, "queue:mail"),
        ("queue:mail", Sort.WAITING, "status:pending,retry queue:mail"),
        ("queue:mail status:live", Sort.RUNNING, "status:running queue:mail"),
        ("status:failed", Sort.FINISHED, "status:failed"),
    ],
)
def test_all_that_match_are_those_that_the_order_shows(text: str, sort: Sort, meant: str) -> None:
    assert all_shown(parse(text), sort).text == meant


@pytest.mark.parametrize(("text", "sort"), [("", Sort.NEWEST), ("", Sort.WAITING), ("status:failed", Sort.WAITING)])
def test_the_whole_table_and_nothing_at_all_are_never_meant(text: str, sort: Sort) -> None:
    with pytest.raises(NoSuchFilter):
        all_shown(parse(text), sort)
