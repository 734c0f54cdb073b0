"""Retry policies as users write them: the documented examples, ranges, rules and the stored form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from horsies.config.retry_policy import RetryPolicy
from horsies.domain.codes import BUILTIN_CODE_REGISTRY, OperationalErrorCode
from horsies.domain.errors import ConfigurationError, ConfigurationErrors, ErrorCode
from horsies.domain.retry import RetryRule

TRANSIENT = ["TRANSIENT_ERROR"]


def test_fixed_is_the_documented_equivalent() -> None:
    assert RetryPolicy.fixed([60, 300, 900], auto_retry_for=["TRANSIENT_ERROR"]) == RetryPolicy(
        max_retries=3,
        intervals=[60, 300, 900],
        backoff_strategy="fixed",
        auto_retry_for=["TRANSIENT_ERROR"],
    )


def test_exponential_is_the_documented_equivalent() -> None:
    assert RetryPolicy.exponential(base_seconds=30, max_retries=5, auto_retry_for=["TRANSIENT_ERROR"]) == RetryPolicy(
        max_retries=5,
        intervals=[30],
        backoff_strategy="exponential",
        auto_retry_for=["TRANSIENT_ERROR"],
    )


def test_too_few_intervals_for_fixed_backoff_are_refused() -> None:
    with pytest.raises(ValueError, match=r"len\(intervals\)=2 for max_retries=3") as caught:
        RetryPolicy(max_retries=3, intervals=[60, 300], backoff_strategy="fixed", auto_retry_for=["TRANSIENT_ERROR"])
    assert isinstance(caught.value, ConfigurationError)
    assert caught.value.code is ErrorCode.TASK_INVALID_OPTIONS
    assert caught.value.help_text


def test_several_intervals_for_exponential_backoff_are_refused() -> None:
    with pytest.raises(ValueError, match=r"len\(intervals\)=3 instead of one"):
        RetryPolicy(
            max_retries=3,
            intervals=[60, 300, 900],
            backoff_strategy="exponential",
            auto_retry_for=["TRANSIENT_ERROR"],
        )


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
