"""Retry policies as users write them, and whether and when a failed task is retried."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from math import isfinite
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from horsies.config.retry_policy import RetryPolicy
from horsies.domain.codes import BUILTIN_CODE_REGISTRY, OperationalErrorCode
from horsies.domain.errors import ConfigurationError, ConfigurationErrors, ErrorCode
from horsies.domain.retry import BackoffStrategy, GiveUp, GiveUpReason, RetryAt, RetryRule, decide_retry, delay_s

TRANSIENT = ["TRANSIENT_ERROR"]


@pytest.mark.parametrize(
    ("strategy", "intervals", "reason"),
    [
        ("fixed", [60, 300], r"len\(intervals\)=2 for max_retries=3"),
        ("exponential", [60, 300, 900], r"len\(intervals\)=3 instead of one"),
    ],
)
def test_intervals_that_do_not_fit_the_backoff_are_refused(
    strategy: BackoffStrategy, intervals: list[int], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        RetryPolicy(max_retries=3, intervals=intervals, backoff_strategy=strategy, auto_retry_for=TRANSIENT)
    assert isinstance(caught.value, ValueError)
    assert caught.value.code is ErrorCode.TASK_INVALID_OPTIONS
    assert caught.value.help_text


@pytest.mark.parametrize(
    "fields",
    [
        {"max_retries": 0, "intervals": [1], "backoff_strategy": "exponential"},
        {"max_retries": 21, "intervals": [1], "backoff_strategy": "exponential"},
        {"intervals": [], "max_retries": 1},
        {"intervals": [1] * 21, "max_retries": 20},
        {"intervals": [0], "max_retries": 1},
        {"intervals": [86_401], "max_retries": 1},
        {"intervals": ["soon"], "max_retries": 1},
        {"backoff_strategy": "linear"},
        {"jitter": "perhaps"},
        {"auto_retry_for": []},
        {"auto_retry_for": [7]},
        {"auto_retry_for": [TimeoutError]},
        {"auto_retry_for": None},
        {"unknown": 1},
    ],
)
def test_values_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        RetryPolicy(**{"auto_retry_for": TRANSIENT, **fields})
    assert isinstance(caught.value, ValueError)


def test_the_ends_of_the_ranges_are_allowed() -> None:
    assert RetryPolicy.exponential(1, max_retries=20, auto_retry_for=TRANSIENT).max_retries == 20
    assert RetryPolicy.exponential(86_400, max_retries=1, auto_retry_for=TRANSIENT).intervals == [86_400]
    assert len(RetryPolicy.fixed([86_400] * 20, auto_retry_for=TRANSIENT).intervals) == 20


@pytest.mark.parametrize("name", ["TimeoutError", "builtins.TimeoutError", "MyException"])
def test_exception_class_names_are_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(ConfigurationError, match="exception_mapper"):
        RetryPolicy.fixed([60], auto_retry_for=[name])


@pytest.mark.parametrize("code", ["rate_limited", "RATE-LIMITED", "", "1ST", "_X", "RATE LIMITED"])
def test_codes_must_be_upper_snake_case(code: str) -> None:
    with pytest.raises(ConfigurationError, match="UPPER_SNAKE_CASE"):
        RetryPolicy.fixed([60], auto_retry_for=[code])


@pytest.mark.parametrize("code", ["RATE_LIMITED", "E2", "X", *BUILTIN_CODE_REGISTRY, *BUILTIN_CODE_REGISTRY.values()])
def test_user_codes_built_in_codes_and_members_are_accepted(code: str) -> None:
    assert RetryPolicy.fixed([60], auto_retry_for=[code]).auto_retry_for == [code]


def test_all_broken_rules_come_together() -> None:
    with pytest.raises(ConfigurationErrors) as caught:
        RetryPolicy(max_retries=2, auto_retry_for=["TimeoutError", "GOOD", "bad"])
    assert len(caught.value.report.errors) == 3
    assert isinstance(caught.value, ValueError)


def test_the_stored_form_is_the_documented_json() -> None:
    policy = RetryPolicy.fixed([1, 5, 25], auto_retry_for=["TRY_AGAIN"], jitter=False)
    assert json.dumps(policy.to_stored(), separators=(",", ":")) == (
        '{"max_retries":3,"intervals":[1,5,25],"backoff_strategy":"fixed","jitter":false,'
        '"auto_retry_for":["TRY_AGAIN"]}'
    )


def test_members_are_stored_as_plain_strings() -> None:
    stored = RetryPolicy.fixed([60], auto_retry_for=[OperationalErrorCode.WORKER_CRASHED, "X"]).to_stored()
    assert [(type(code), code) for code in stored["auto_retry_for"]] == [(str, "WORKER_CRASHED"), (str, "X")]


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy.fixed([60, 300], auto_retry_for=[OperationalErrorCode.WORKER_CRASHED, "X"], jitter=False),
        RetryPolicy.exponential(30, max_retries=5, auto_retry_for=TRANSIENT),
    ],
)
def test_a_stored_policy_reads_back_as_the_same_rule(policy: RetryPolicy) -> None:
    options = json.loads(json.dumps({"retry_policy": policy.to_stored(), "good_until": None}))
    assert RetryRule.from_stored(options) == RetryRule(
        auto_retry_for=frozenset(str(code) for code in policy.auto_retry_for),
        max_retries=policy.max_retries,
        intervals=tuple(policy.intervals),
        backoff_strategy=policy.backoff_strategy,
        jitter=policy.jitter,
    )


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

rules = st.builds(
    RetryRule,
    auto_retry_for=st.frozensets(st.sampled_from(["TIMEOUT", "WORKER_CRASHED", "X"])),
    max_retries=st.integers(0, 20),
    intervals=st.lists(st.integers(1, 86_400), min_size=1, max_size=20).map(tuple),
    backoff_strategy=st.sampled_from(["fixed", "exponential"]),
    jitter=st.booleans(),
)
randoms = st.randoms(use_true_random=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
policies = st.fixed_dictionaries(
    {},
    optional={
        name: json_values | st.sampled_from(["fixed", "exponential"]) | st.lists(json_values | st.just("X"))
        for name in ("auto_retry_for", "max_retries", "intervals", "backoff_strategy", "jitter")
    },
)


def rule(*intervals: int, exponential: bool = False, jitter: bool = False) -> RetryRule:
    strategy: BackoffStrategy = "exponential" if exponential else "fixed"
    return RetryRule(frozenset({"TIMEOUT"}), len(intervals), intervals, strategy, jitter)


def choose(**changes: Any) -> RetryAt | GiveUp:
    """A decision that is a retry after 60 s unless a change says otherwise."""
    rest = {"error_code": "TIMEOUT", "retry_count": 0, "max_retries": 3, "now": NOW, "good_until": None}
    return decide_retry(changes.pop("rule", rule(60, 300, 900)), **{**rest, "rng": Random(1), **changes})


def delays(of: RetryRule, count: int) -> list[float]:
    return [delay_s(of, number, Random(1)) for number in range(1, count + 1)]


def test_fixed_waits_are_the_intervals_and_the_last_one_when_they_run_short() -> None:
    assert delays(rule(60, 300, 900), 5) == [60, 300, 900, 900, 900]


def test_exponential_waits_double_from_the_base() -> None:
    assert delays(rule(30, exponential=True), 5) == [30, 60, 120, 240, 480]


@pytest.mark.parametrize("base", [1, 60])
def test_jitter_spreads_over_the_whole_range(base: int) -> None:
    rng = Random(7)
    drawn = [delay_s(rule(base, jitter=True), 1, rng) / base for _ in range(2000)]
    assert min(drawn) < 0.755
    assert max(drawn) > 1.245
    assert abs(sum(drawn) / len(drawn) - 1) < 0.02


@given(rules, st.integers(1, 25), randoms)
def test_a_delay_lies_within_a_quarter_of_its_base_which_is_at_least_a_second(
    any_rule: RetryRule, number: int, rng: Random
) -> None:
    calm = RetryRule(any_rule.auto_retry_for, 3, any_rule.intervals, any_rule.backoff_strategy, jitter=False)
    base = delay_s(calm, number, rng)
    jittered = delay_s(any_rule, number, rng)
    assert base >= 1.0
    assert base * 0.75 <= jittered <= base * 1.25
    assert any_rule.jitter or jittered == base


@given(st.integers(1, 86_400), st.integers(1, 30))
def test_without_jitter_exponential_waits_never_shrink(base: int, number: int) -> None:
    shorter, longer = (delay_s(rule(base, exponential=True), n, Random(1)) for n in (number, number + 1))
    assert shorter <= longer
    assert number >= 20 or longer == 2 * shorter


@given(
    st.lists(st.integers(), min_size=1, max_size=3).map(tuple),
    st.booleans(),
    st.integers(),
    randoms,
)
def test_a_delay_is_finite_whatever_the_row_holds(
    intervals: tuple[int, ...], exponential: bool, number: int, rng: Random
) -> None:
    delay = delay_s(rule(*intervals, exponential=exponential, jitter=True), number, rng)
    assert isfinite(delay)
    assert delay >= 0.75
    assert NOW + timedelta(seconds=delay) > NOW


@pytest.mark.parametrize("interval", [10**400, -(10**400)])
def test_an_interval_beyond_every_float_does_not_overflow(interval: int) -> None:
    for exponential in (False, True):
        assert isfinite(delay_s(rule(interval, exponential=exponential), 10**400, Random(1)))


def test_a_covered_error_with_budget_is_retried_from_the_given_clock() -> None:
    assert choose() == RetryAt(60.0, NOW + timedelta(seconds=60))
    assert choose(retry_count=2) == RetryAt(900.0, NOW + timedelta(seconds=900))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rule": None}, GiveUpReason.NO_POLICY),
        ({"max_retries": 0}, GiveUpReason.NO_RETRIES),
        ({"max_retries": -1, "retry_count": -5}, GiveUpReason.NO_RETRIES),
        ({"retry_count": 3}, GiveUpReason.RETRIES_SPENT),
        ({"retry_count": 4}, GiveUpReason.RETRIES_SPENT),
        ({"error_code": "OTHER"}, GiveUpReason.CODE_NOT_COVERED),
        ({"error_code": None}, GiveUpReason.CODE_NOT_COVERED),
        ({"error_code": "OTHER", "retry_count": 3}, GiveUpReason.CODE_NOT_COVERED),
        ({"good_until": NOW}, GiveUpReason.DEADLINE_PASSED),
        ({"good_until": NOW - timedelta(seconds=1)}, GiveUpReason.DEADLINE_PASSED),
        ({"good_until": NOW + timedelta(seconds=60)}, GiveUpReason.DEADLINE_TOO_NEAR),
        ({"good_until": NOW + timedelta(microseconds=1)}, GiveUpReason.DEADLINE_TOO_NEAR),
    ],
)
def test_each_reason_to_give_up_is_named(changes: dict[str, Any], reason: GiveUpReason) -> None:
    assert choose(**changes) == GiveUp(reason)


def test_a_retry_due_just_before_the_deadline_is_made() -> None:
    assert isinstance(choose(good_until=NOW + timedelta(seconds=60, microseconds=1)), RetryAt)


@given(
    st.none() | rules,
    st.sampled_from([None, "TIMEOUT", "WORKER_CRASHED", "OTHER"]),
    st.integers(0, 25),
    st.integers(0, 25),
    st.none() | st.integers(-1000, 100_000),
    randoms,
)
def test_no_retry_goes_past_the_budget_or_the_deadline(
    any_rule: RetryRule | None,
    error_code: str | None,
    retry_count: int,
    max_retries: int,
    deadline_s: int | None,
    rng: Random,
) -> None:
    good_until = None if deadline_s is None else NOW + timedelta(seconds=deadline_s)
    decision = decide_retry(
        any_rule,
        error_code=error_code,
        retry_count=retry_count,
        max_retries=max_retries,
        now=NOW,
        good_until=good_until,
        rng=rng,
    )
    allowed = any_rule is not None and retry_count < max_retries and error_code in any_rule.auto_retry_for
    if isinstance(decision, RetryAt):
        assert allowed
        assert decision.due == NOW + timedelta(seconds=decision.delay_s)
        assert good_until is None or decision.due < good_until
    else:
        assert not allowed or good_until is not None


@pytest.mark.parametrize("options", [{}, {"retry_policy": None}, {"retry_policy": [1]}, None, [], "text", 7])
def test_options_without_a_policy_give_no_rule(options: object) -> None:
    assert RetryRule.from_stored(options) is None


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"max_retries": "3", "intervals": 60, "backoff_strategy": "linear", "jitter": None},
        {"max_retries": True, "intervals": [], "backoff_strategy": 1, "jitter": "no"},
        {"max_retries": 2.5, "intervals": [60, "x"], "backoff_strategy": [], "jitter": 0},
        {"max_retries": None, "intervals": [True], "backoff_strategy": None, "jitter": True},
    ],
)
def test_missing_or_foreign_values_fall_back_to_the_documented_defaults(policy: dict[str, Any]) -> None:
    stored = {"retry_policy": {**policy, "auto_retry_for": ["TIMEOUT"]}}
    assert RetryRule.from_stored(stored) == RetryRule(frozenset({"TIMEOUT"}), 3, (60, 300, 900), "fixed", jitter=True)


@pytest.mark.parametrize("codes", [None, "TIMEOUT", {"TIMEOUT": 1}, [], [None, 3, ["TIMEOUT"]]])
def test_unreadable_codes_cover_nothing(codes: object) -> None:
    found = RetryRule.from_stored({"retry_policy": {"auto_retry_for": codes}})
    assert found is not None
    assert found.auto_retry_for == frozenset()


@pytest.mark.parametrize(("stored", "expected"), [(0, 0), (-3, 0), (20, 20), (10**30, 20)])
def test_a_stored_budget_stays_within_the_documented_range(stored: int, expected: int) -> None:
    found = RetryRule.from_stored({"retry_policy": {"max_retries": stored}})
    assert found is not None
    assert found.max_retries == expected


@given(st.fixed_dictionaries({"retry_policy": policies | json_values}) | json_values, st.integers(0, 30), randoms)
def test_no_stored_options_can_stop_a_sweep(options: object, retry_count: int, rng: Random) -> None:
    found = RetryRule.from_stored(options)
    decision = choose(rule=found, error_code="X", retry_count=retry_count, max_retries=20, rng=rng)
    assert isinstance(decision, RetryAt) == (found is not None and "X" in found.auto_retry_for and retry_count < 20)
