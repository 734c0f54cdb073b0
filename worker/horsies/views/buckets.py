"""Time ranges of equal length, in which series are read and cached."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from horsies.views.reading import decoded

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Buckets:
    """`count` of them, `step` long each, the first from `first` on. Repeated reads use the same bounds."""

    first: datetime
    step: timedelta
    count: int

    @classmethod
    def until(cls, now: datetime, window: timedelta, step: timedelta) -> Buckets:
        """The last one contains `now`; together they are not shorter than the window."""
        count = -(-window // step)
        newest = _EPOCH + (now - _EPOCH) // step * step
        return cls(newest - (count - 1) * step, step, count)

    @property
    def starts(self) -> tuple[datetime, ...]:
        return tuple(self.first + number * self.step for number in range(self.count))

    @property
    def end(self) -> datetime:
        """The end of the last one; it may lie in the future."""
        return self.first + self.count * self.step

    def index(self, moment: datetime) -> int | None:
        """The number of the one that contains this moment, or None."""
        number = (moment - self.first) // self.step
        return number if 0 <= number < self.count else None

    def newest(self, count: int) -> Buckets:
        """The last `count` of them."""
        count = min(count, self.count)
        return Buckets(self.first + (self.count - count) * self.step, self.step, count)


def by_bucket(rows: Sequence[Sequence[Any]]) -> dict[int, tuple[Any, ...]]:
    """Rows of a statement whose first column is the number of a bucket, counted from zero."""
    return {row[0]: tuple(map(decoded, tuple(row)[1:])) for row in rows}
