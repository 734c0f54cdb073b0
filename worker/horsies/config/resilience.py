"""The delays and limits with which a worker waits for its database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from horsies.config.rules import CheckedModel
from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable


class WorkerResilienceConfig(CheckedModel):
    """Retry delays double from initial to max; 0 attempts means for ever. Polling backs up lost notifications."""

    rules_stand_alone = True

    db_retry_initial_ms: int = Field(default=500, ge=100, le=60_000)
    """The first wait after a failure of the database; each further one is twice as long."""
    db_retry_max_ms: int = Field(default=30_000, ge=500, le=300_000)
    """The longest wait."""
    db_retry_max_attempts: int = Field(default=0, ge=0, le=10_000)
    """After how many failures the start of a worker gives up; 0 for never."""
    notify_poll_interval_ms: int = Field(default=5_000, ge=1_000, le=300_000)
    """How often a worker looks for tasks without a notification."""

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if self.db_retry_max_ms < self.db_retry_initial_ms:
            yield ConfigurationError(
                f"db_retry_max_ms={self.db_retry_max_ms} is below db_retry_initial_ms={self.db_retry_initial_ms}",
                code=ErrorCode.CONFIG_INVALID_RESILIENCE,
                help_text="delays grow from initial to max: raise db_retry_max_ms or lower db_retry_initial_ms",
            )
