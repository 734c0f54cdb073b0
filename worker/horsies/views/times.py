"""Times in their stored form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def aware(value: Any) -> Any:
    """A column that upstream created without a zone contains UTC; every other value is returned unchanged."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
