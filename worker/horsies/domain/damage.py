"""Stored values that Python or this release cannot express: they become the nearest value of their type, marked.

A row may be written by hand, by another program or by another release. Its readers must neither fail nor hide the
damage: each of these values can be used like any other of its type, and `damaged_fields` names the fields of a record
that have one. `tests/process/test_damaged_rows.py` damages each column in each way that its type allows.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_MAX_SHOWN: Final = 200
LARGEST_NUMBER: Final = 1e15
"""No count or size is larger, and sums and percentages of such numbers stay within the range of a float."""
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_CYCLE_YEARS: Final = 400
_CYCLE_TICKS: Final = 146_097 * 86_400_000_000
_PLAIN: Final = re.compile(
    r"-?(infinity|inf|nan)|\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d\+00( BC)?|-?\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE
)
_ENDLESS: Final = {2**63 - 1: "infinity", -(2**63): "-infinity"}


class Damaged:
    """The mark of a value that replaces a stored one."""

    stored: str
    """The stored value as PostgreSQL shows it; of a long one only the beginning."""


DamagedT = TypeVar("DamagedT", bound=Damaged)


class EdgeTime(datetime):
    """A time near the bounds of datetime. A conversion or a sum that would exceed them leaves it as it is."""

    def astimezone(self, tz: Any = None) -> datetime:  # type: ignore[override]
        try:
            return super().astimezone(tz)
        except (OverflowError, ValueError):
            return self

    def __add__(self, other: timedelta) -> Any:
        try:
            return _plain(self) + other
        except OverflowError:
            return self

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        try:
            return _plain(self) - other
        except OverflowError:
            return self


class DamagedTime(EdgeTime, Damaged):
    """A time before the year 1 or after the year 9999, or infinity. It is written back as it was read."""

    ticks: int
    """Microseconds since 2000, as PostgreSQL stores them."""

    @classmethod
    def of(cls, ticks: int) -> DamagedTime:
        time = cls(9999, 12, 31, 23, 59, 59, 999_999, UTC) if ticks > 0 else cls(1, 1, 1, tzinfo=UTC)
        time.ticks = ticks
        time.stored = _ENDLESS.get(ticks) or _far(ticks)
        return time

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return DamagedTime.of, (self.ticks,)


class DamagedNumber(float, Damaged):
    """0 in place of NaN, Infinity or an impossibly large number."""

    @classmethod
    def of(cls, stored: float) -> DamagedNumber:
        return _marked(cls(), str(stored))


class DamagedText(str, Damaged):
    """A text in place of a stored one that cannot be read."""

    @classmethod
    def of(cls, text: str, stored: str) -> DamagedText:
        return _marked(cls(text), stored)


class DamagedMap(dict[str, Any], Damaged):
    """The readable part of JSON that should be an object."""


class DamagedList(tuple[Any, ...], Damaged):
    """The items of the right type of an array."""


def _marked(value: DamagedT, stored: str) -> DamagedT:
    value.stored = stored[:_MAX_SHOWN]
    return value


def _plain(time: datetime) -> datetime:
    return datetime.combine(time.date(), time.timetz())


def _far(ticks: int) -> str:
    """Format a time beyond the bounds of datetime as PostgreSQL does: the calendar repeats itself every 400 years."""
    cycles, rest = divmod(ticks, _CYCLE_TICKS)
    time = _EPOCH + timedelta(microseconds=rest)
    year = time.year + _CYCLE_YEARS * cycles
    shown = f"{year:04}" if year > 0 else f"{1 - year:04}"
    return f"{shown}{time:-%m-%d %H:%M:%S}+00{'' if year > 0 else ' BC'}"


def number(stored: float | None) -> float | None:
    if stored is None or (math.isfinite(stored) and abs(stored) <= LARGEST_NUMBER):
        return stored
    return DamagedNumber.of(stored)


def texts(stored: Iterable[Any] | None) -> tuple[str, ...]:
    return _items(stored, lambda item: isinstance(item, str))


def whole_numbers(stored: Iterable[Any] | None) -> tuple[int, ...]:
    return _items(stored, is_whole)


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether it is an int; true and false, which are ints in Python, are not numbers in JSON."""
    return isinstance(value, int) and not isinstance(value, bool)


def _items(stored: Iterable[Any] | None, is_right: Callable[[Any], bool]) -> tuple[Any, ...]:
    found = tuple(stored or ())
    kept = tuple(item for item in found if is_right(item))
    if len(kept) == len(found):
        return kept
    return _marked(DamagedList(kept), str(found))


def json_map(stored: str | None, *, values: Callable[[Any], bool] = lambda _: True) -> Mapping[str, Any]:
    """Parse a JSON object, empty for NULL; leave out entries whose value `values` rejects."""
    if stored is None:
        return {}
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        kept = {key: value for key, value in found.items() if values(value)}
        if len(kept) == len(found):
            return kept
    else:
        kept = {}
    return _marked(DamagedMap(kept), stored)


def damaged_fields(record: object) -> dict[str, str]:
    """Return what is stored in each damaged field of a dataclass or named tuple, by the field's name.

    Fields of records in it have names like `snapshot.queues`.
    """
    return dict(_damaged(record, ""))


def _damaged(record: object, within: str) -> Iterator[tuple[str, str]]:
    for name in _names(record):
        value = getattr(record, name)
        if isinstance(value, Damaged):
            yield within + name, value.stored
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            for item in value:
                yield from _damaged(item, f"{within}{name}.")
        else:
            yield from _damaged(value, f"{within}{name}.")


def _names(record: object) -> tuple[str, ...]:
    if is_dataclass(record):
        return tuple(field.name for field in fields(record))
    return getattr(record, "_fields", ())


def plain_stored(stored: str) -> str:
    """Return a stored time or number; empty for any other text."""
    return stored if _PLAIN.fullmatch(stored) else ""
