"""Times as they are stored."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def aware(value: Any) -> Any:
    """A column that upstream made without a zone holds UTC; every other value is itself."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
