"""The retry policies that users write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field

from horsies.config.rules import CheckedModel, broken
from horsies.domain.codes import BuiltInTaskCode, why_not_a_code
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.retry import (
    DEFAULT_INTERVALS,
    DEFAULT_MAX_RETRIES,
    LONGEST_INTERVAL_S,
    MOST_RETRIES,
    BackoffStrategy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_invalid = partial(broken, ErrorCode.TASK_INVALID_OPTIONS)
Interval: TypeAlias = Annotated[int, Field(ge=1, le=LONGEST_INTERVAL_S)]


class RetryPolicy(CheckedModel):
    """The errors that are retried, how often, and after how many seconds."""

    auto_retry_for: list[BuiltInTaskCode | str] = Field(min_length=1)
    """Error codes that are retried; all others end the task."""
    max_retries: int = Field(default=DEFAULT_MAX_RETRIES, ge=1, le=MOST_RETRIES)
    """Maximum number of further runs after the first."""
    intervals: list[Interval] = Field(default=list(DEFAULT_INTERVALS), min_length=1, max_length=MOST_RETRIES)
    """Seconds before each retry; with exponential backoff one value, for the first retry. 1 to 86,400 each."""
    backoff_strategy: BackoffStrategy = "fixed"
    """`fixed`, or `exponential`: each wait is twice as long as the one before."""
    jitter: bool = True
    """Vary each wait by up to a quarter, so that not all retries come at once."""

    @classmethod
    def fixed(
        cls, intervals: Sequence[int], *, auto_retry_for: Sequence[BuiltInTaskCode | str], jitter: bool = True
    ) -> RetryPolicy:
        """Retry once per interval, each after that wait, with `jitter` up to a quarter less or more; at least 1 s."""
        return cls(
            max_retries=len(intervals),
            intervals=list(intervals),
            backoff_strategy="fixed",
            auto_retry_for=list(auto_retry_for),
            jitter=jitter,
        )

    @classmethod
    def exponential(
        cls,
        base_seconds: int,
        *,
        max_retries: int,
        auto_retry_for: Sequence[BuiltInTaskCode | str],
        jitter: bool = True,
    ) -> RetryPolicy:
        """Retry after `base_seconds`, then each time after twice the wait, with `jitter` as for `fixed`."""
        return cls(
            max_retries=max_retries,
            intervals=[base_seconds],
            backoff_strategy="exponential",
            auto_retry_for=list(auto_retry_for),
            jitter=jitter,
        )

    def to_stored(self) -> dict[str, Any]:
        """Return the `retry_policy` object of task_options; the order of the keys counts in enqueue_sha."""
        return {
            "max_retries": self.max_retries,
            "intervals": list(self.intervals),
            "backoff_strategy": self.backoff_strategy,
            "jitter": self.jitter,
            "auto_retry_for": [str(code) for code in self.auto_retry_for],
        }

    def broken_rules(self) -> Iterable[ConfigurationError]:
        count = len(self.intervals)
        if self.backoff_strategy == "fixed" and count != self.max_retries:
            yield _invalid(
                f"fixed backoff has len(intervals)={count} for max_retries={self.max_retries}",
                "give one interval per retry, or use RetryPolicy.fixed([...]), which counts them",
            )
        if self.backoff_strategy == "exponential" and count != 1:
            yield _invalid(
                f"exponential backoff has len(intervals)={count} instead of one base interval",
                "use RetryPolicy.exponential(base_seconds=..., max_retries=...)",
            )
        for code in self.auto_retry_for:
            if reason := why_not_a_code(code):
                yield _invalid(f"auto_retry_for: {reason}", 'codes look like "RATE_LIMITED"')
