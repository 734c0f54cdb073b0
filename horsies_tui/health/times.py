"""Durations in alerts: whole minutes, because a text that changes each second is sent each second."""

from __future__ import annotations

import re
from typing import Final

from horsies.domain.quantities import span

_WITH_SECONDS: Final = re.compile(r"\b(\d+m)\d\ds\b")


def lasting(seconds: float) -> str:
    """4s, 2m, 3h05m, 2d3h."""
    return whole_minutes(span(seconds))


def whole_minutes(words: str) -> str:
    """The same text without seconds; the recovery report has its times to the second."""
    return _WITH_SECONDS.sub(r"\1", words)
