"""The policy in a row's task_options: whether and when a failed task is tried again, and how long a run may take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from horsies.domain.damage import is_whole

if TYPE_CHECKING:
    from random import Random

BackoffStrategy: TypeAlias = Literal["fixed", "exponential"]

DEFAULT_MAX_RETRIES = 3
DEFAULT_INTERVALS = (60, 300, 900)
MOST_RETRIES = 20
LONGEST_INTERVAL_S = 86_400

TIMEOUT: Final = "timeout_ms"
"""The key in task_options of the time limit that a send gave its task."""
_TIMEOUT_IN_TEXT: Final = f'"{TIMEOUT}"'

JITTER = 0.25
SHORTEST_DELAY_S = 1.0  # before the jitter
# The last step of the longest possible policy. A stored row may contain anything, and without a bound its due time
# would exceed the year 9999.
LONGEST_DELAY_S = LONGEST_INTERVAL_S * 2.0 ** (MOST_RETRIES - 1)


@dataclass(frozen=True, slots=True)
class RetryRule:
    """The retry part of a row's task_options, as far as it can be read."""

    auto_retry_for: frozenset[str]
    max_retries: int = DEFAULT_MAX_RETRIES
    intervals: tuple[int, ...] = DEFAULT_INTERVALS
    backoff_strategy: BackoffStrategy = "fixed"
    jitter: bool = True

    @classmethod
    def from_text(cls, task_options: str | None) -> RetryRule | None:
        """Read the column; None if it is no JSON, as in a row that was written with plain SQL. Never raises."""
        try:
            return cls.from_stored(json.loads(task_options)) if task_options else None
        except (ValueError, RecursionError):  # RecursionError: brackets nested by the thousand
            return None

    @classmethod
    def from_stored(cls, options: object) -> RetryRule | None:
        """Read the rule; None without a policy. Never raises: one bad row must not stop a sweep over all of them."""
        policy = options.get("retry_policy") if isinstance(options, Mapping) else None
        if not isinstance(policy, Mapping):
            return None
        codes, retries, intervals = map(policy.get, ("auto_retry_for", "max_retries", "intervals"))
        if not isinstance(intervals, list) or not intervals or not all(map(is_whole, intervals)):
            intervals = DEFAULT_INTERVALS
        return cls(
            auto_retry_for=frozenset(
                code for code in (codes if isinstance(codes, list) else ()) if isinstance(code, str)
            ),
            max_retries=min(max(retries, 0), MOST_RETRIES) if is_whole(retries) else DEFAULT_MAX_RETRIES,
            intervals=tuple(intervals),
            backoff_strategy="exponential" if policy.get("backoff_strategy") == "exponential" else "fixed",
            jitter=policy.get("jitter") is not False,
        )


class GiveUpReason(StrEnum):
    """The reasons why there is no further attempt; the task keeps its original error."""

    NO_POLICY = "no retry policy"
    NO_RETRIES = "max_retries is 0"
    RETRIES_SPENT = "all retries are spent"
    CODE_NOT_COVERED = "the error code is not in auto_retry_for"
    DEADLINE_PASSED = "good_until has passed"
    DEADLINE_TOO_NEAR = "good_until comes before the next attempt"


@dataclass(frozen=True, slots=True)
class RetryAt:
    delay_s: float
    due: datetime


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: GiveUpReason


RETRIES_SPENT: Final = GiveUp(GiveUpReason.RETRIES_SPENT)


def decide_retry(
    rule: RetryRule | None,
    *,
    error_code: str | None,
    retry_count: int,
    max_retries: int,
    now: datetime,
    good_until: datetime | None,
    rng: Random,
) -> RetryAt | GiveUp:
    """Decide by the row's columns `retry_count`, `max_retries` and `good_until`, and by the database's clock `now`."""
    if rule is None:
        return GiveUp(GiveUpReason.NO_POLICY)
    if max_retries <= 0:
        return GiveUp(GiveUpReason.NO_RETRIES)
    if error_code not in rule.auto_retry_for:
        return GiveUp(GiveUpReason.CODE_NOT_COVERED)
    if retry_count >= max_retries:
        return RETRIES_SPENT
    if good_until is not None and good_until <= now:
        return GiveUp(GiveUpReason.DEADLINE_PASSED)
    delay = delay_s(rule, retry_count + 1, rng)
    due = now + timedelta(seconds=delay)
    if good_until is not None and due >= good_until:
        return GiveUp(GiveUpReason.DEADLINE_TOO_NEAR)
    return RetryAt(delay, due)


def delay_s(rule: RetryRule, retry_number: int, rng: Random) -> float:
    """Return the seconds before retry `retry_number`, counted from 1; finite for any number."""
    is_fixed = rule.backoff_strategy == "fixed"
    interval = rule.intervals[min(max(retry_number, 1), len(rule.intervals)) - 1 if is_fixed else 0]
    seconds = float(min(max(interval, 0), LONGEST_DELAY_S))
    if not is_fixed:
        seconds = min(seconds * 2.0 ** (min(max(retry_number, 1), MOST_RETRIES) - 1), LONGEST_DELAY_S)
    seconds = max(seconds, SHORTEST_DELAY_S)
    return seconds * rng.uniform(1 - JITTER, 1 + JITTER) if rule.jitter else seconds


def timeout_of(task_options: str | None, default: int | None) -> int | None:
    """Return the limit of a run in ms: that of the send if it gave one, else the task's. Never raises."""
    if task_options is None or _TIMEOUT_IN_TEXT not in task_options:  # the usual case: no JSON has to be parsed
        return default
    try:
        stored = json.loads(task_options).get(TIMEOUT)
    except (AttributeError, ValueError, RecursionError):
        return default
    return stored if type(stored) is int and stored > 0 else default
