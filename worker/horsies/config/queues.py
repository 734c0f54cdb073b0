"""Queues: one for everything, or several with a priority and a limit each."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from pydantic import Field

from horsies.config.rules import CheckedModel
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.names import why_not_a_queue_name

if TYPE_CHECKING:
    from collections.abc import Iterable


DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY: Final = 100
"""Of an application without queues of its own."""


class QueueMode(Enum):
    DEFAULT = "default"
    CUSTOM = "custom"


class CustomQueueConfig(CheckedModel):
    """One queue: priority 1 is served first; max_concurrency counts over the whole cluster."""

    name: str
    """The name that tasks are sent to."""
    priority: int = Field(default=1, ge=1, le=100)
    """1 is served first."""
    max_concurrency: int = Field(default=5, ge=1)
    """The most tasks of this queue that run at once on all workers together."""

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if reason := why_not_a_queue_name(self.name):
            yield ConfigurationError(
                reason, code=ErrorCode.CONFIG_INVALID_QUEUE_MODE, help_text="shorten CustomQueueConfig(name=…)"
            )
