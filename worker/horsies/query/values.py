"""The values after a colon: texts with wildcards, ranges, moments; and their written forms."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from horsies.query.problems import UnreadableValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo


WILD: Final = "*?"
BoundT = TypeVar("BoundT", int, datetime)


@dataclass(frozen=True, slots=True)
class Glob:
    """A text in which `*` matches anything and `?` one character; a backslash makes either literal."""

    pattern: str

    @classmethod
    def literal(cls, text: str) -> Glob:
        return cls("".join(map(escaped, text)))

    @property
    def exact(self) -> str | None:
        """The text itself; None if it has a wildcard."""
        return None if any(wild for _, wild in self.pieces()) else self.plain

    @property
    def plain(self) -> str:
        """The text without its escapes."""
        return "".join(char for char, _ in self.pieces())

    @property
    def like(self) -> str:
        """The pattern for LIKE, with its default escape, the backslash."""
        return "".join(("%" if char == "*" else "_") if wild else like_escaped(char) for char, wild in self.pieces())

    def is_in(self, text: str) -> bool:
        """Return whether a part of the text matches."""
        return _regex(self).search(text) is not None

    def matches(self, text: str) -> bool:
        return _regex(self).fullmatch(text) is not None

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yield each character, and whether it is a wildcard."""
        chars = iter(self.pattern)
        for char in chars:
            if char == "\\":
                yield next(chars), False
            else:
                yield char, char in WILD

    def __str__(self) -> str:
        return self._written(_AMONG_VALUES)

    def as_word(self) -> str:
        """Return its written form as a bare word, where a colon would make it a key and a dash would negate it."""
        written = self._written(_AMONG_VALUES | {":"})
        return f"\\{written}" if written.startswith("-") else written

    def _written(self, special: frozenset[str]) -> str:
        pieces = list(self.pieces())
        if not any(wild for _, wild in pieces) and any(char in special or char.isspace() for char, _ in pieces):
            return '"' + "".join(f"\\{char}" if char in '"\\' else char for char, _ in pieces) + '"'
        return "".join(
            f"\\{char}" if not wild and (char in special or char in WILD or char.isspace()) else char
            for char, wild in pieces
        )


_AMONG_VALUES: Final = frozenset(",\"'\\")


@lru_cache(maxsize=256)
def _regex(glob: Glob) -> re.Pattern[str]:
    parts = ((".*" if char == "*" else ".") if wild else re.escape(char) for char, wild in glob.pieces())
    return re.compile("".join(parts), re.DOTALL)


def escaped(char: str) -> str:
    """Return a character of a pattern so that it is matched literally."""
    return f"\\{char}" if char in WILD or char == "\\" else char


_ID: Final = re.compile("[0-9a-f-]+", re.IGNORECASE)
LONGEST_ID: Final = 36


def looks_like_id(glob: Glob) -> bool:
    """Return whether all characters that are not wildcards can occur in a UUID."""
    return _ID.fullmatch("".join(char for char, wild in glob.pieces() if not wild)) is not None


def like_escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)


@dataclass(frozen=True, slots=True)
class _Written:
    """A value with the text that it was parsed from, or that means the same."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the words of its key."""

    word: str

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True, slots=True)
class Range(_Written):
    """Whole numbers from `low` to `high`, both included; durations are counted in microseconds."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Times(_Written):
    """Moments from `low` to `high`, both included and fixed."""

    low: datetime | None = None
    high: datetime | None = None


@dataclass(frozen=True, slots=True)
class Moment(_Written):
    """Either a duration before now or a time."""

    ago: timedelta | None = None
    at: datetime | None = None
    of_day: bool = field(default=False, compare=False)
    """True if it was written as a time of day."""


Value: TypeAlias = Glob | Range | Moment | Times | Choice

_UNITS: Final = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|[smhdw])")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+")
_LONG_UNIT: Final = re.compile(r"(?<=[0-9]) ?(ms|m(?=in)|[shdw])[a-z]*")

LONGEST: Final = timedelta(days=36_500)
MOST_TRIES: Final = 1_000_000


def read_microseconds(text: str) -> int:
    """Parse a duration such as `1h30m` to microseconds."""
    if not _DURATION.fullmatch(text):
        raise UnreadableValue(
            f"{text!r} is not a duration; write 30s, 5m, 1h30m, 2d (ms s m h d w)", _as_duration(text)
        )
    total = sum(round(float(number) * _UNITS[unit]) for number, unit in _PART.findall(text))
    if total > LONGEST // timedelta(microseconds=1):
        raise UnreadableValue(f"{text!r} is longer than a hundred years")
    return total


def _as_duration(text: str) -> str | None:
    """Return the probable meaning of a text such as `30`, `5 min` or `2hours`."""
    shorter = _LONG_UNIT.sub(r"\1", text) if re.search("[a-z]", text) else f"{text}m"
    return shorter if _DURATION.fullmatch(shorter) else None


def _number(text: str) -> int:
    if not re.fullmatch("[0-9]+", text):
        raise UnreadableValue(f"{text!r} is not a number; write >1, <4, 2..3 or 2")
    if len(text) > len(str(MOST_TRIES)) or int(text) > MOST_TRIES:
        raise UnreadableValue(f"{text!r} is too large; the most is {MOST_TRIES}")
    return int(text)


_COMPARISON: Final = re.compile(r"(?P<sign>>=|<=|>|<|=|)(?P<amount>[^<>=]*)", re.DOTALL)


def read_count(text: str, *, least: int) -> Range:
    return _read_range(text, _number, least)


def read_span(text: str) -> Range:
    """Parse a range of durations. A single duration is an error: nothing lasts exactly five minutes."""
    alone = text.removeprefix("=")
    if ".." not in text and (_DURATION.fullmatch(alone) or _as_duration(alone)):
        raise UnreadableValue(f"{text} alone is not a range: longer or shorter?", f">{_as_duration(alone) or alone}")
    return _read_range(text, read_microseconds, least=0)


def _read_range(text: str, read: Callable[[str], int], least: int) -> Range:
    if ".." in text:
        found = _read_between(text, read)
    elif match := _COMPARISON.fullmatch(text):
        sign, amount = match.groups()
        number = _read_after(sign, amount, read)
        found = Range(sign.removeprefix("=") + amount, *_limits(sign, number - 1, number, number + 1))
    else:
        raise UnreadableValue(f"{text!r} is not a range; write >A, >=A, <B, <=B or A..B")
    if found.high is not None and found.high < least:
        raise UnreadableValue(f"no value is {text}; the minimum is {least}")
    return found


def _read_between(text: str, read: Callable[[str], int]) -> Range:
    first, _, last = text.partition("..")
    low = read(first) if first else None
    high = read(last) if last else None
    if low is None and high is None:
        raise UnreadableValue("a range has at least one end; write A..B")
    if low is not None and high is not None and low > high:
        raise UnreadableValue(f"{first} is more than {last}", f"{last}..{first}")
    return Range(text, low, high)


def _read_after(sign: str, amount: str, read: Callable[[str], int]) -> int:
    """Parse the amount; a suggested correction keeps its sign."""
    try:
        return read(amount)
    except UnreadableValue as error:
        raise UnreadableValue(error.message, error.suggestion and sign + error.suggestion) from None


def _limits(sign: str, before: BoundT, value: BoundT, after: BoundT) -> tuple[BoundT | None, BoundT | None]:
    """Return the lowest and the highest value that compare like this with `value`; None for no limit."""
    match sign:
        case ">":
            return after, None
        case ">=":
            return value, None
        case "<":
            return None, before
        case "<=":
            return None, value
        case _:
            return value, value


_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
_TIME: Final = re.compile(rf"{_DAY}(?:[t ]{_CLOCK}(?:z|[+-][0-9]{{2}}:?[0-9]{{2}})?)?")


_TIME_OF_DAY: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(z?)")


@dataclass(frozen=True, slots=True)
class Present:
    """The time at which a filter is parsed, and the zone (None: this machine's) of its times without a zone."""

    now: datetime
    zone: tzinfo | None = UTC

    def at(self, clocks: datetime) -> datetime:
        """Return the moment at which the clocks of the zone show this time."""
        # If the clocks changed last night, the offset before was another one.
        return (clocks if self.zone is None else clocks.replace(tzinfo=self.zone)).astimezone(UTC)

    def last(self, time_of_day: time) -> datetime:
        """Return today at this time, or yesterday if that is in the future."""
        today = datetime.combine(self.now.astimezone(self.zone).date(), time_of_day)
        at = self.at(today)
        return at if at <= self.now else self.at(today - timedelta(days=1))

    def first_after(self, since: datetime, until: datetime) -> datetime:
        """Return the first moment after `since` with the time of day of `until`."""
        while until < since:
            until = self.at(until.astimezone(self.zone).replace(tzinfo=None) + timedelta(days=1))
        return until

    def moment(self, at: datetime) -> Moment:
        """Return a moment whose text names the offset of the zone, and so means the same anywhere."""
        here = at.astimezone(self.zone)
        # Offsets of the years before time zones have seconds.
        there = here.astimezone(UTC) if (here.utcoffset() or timedelta()) % _MINUTE else here
        return Moment(there.isoformat().replace("+00:00", "Z"), at=at)


def read_moment(text: str, present: Present | None = None) -> Moment:
    """Parse a duration before now, a day, a time, or a time of day, which means the last one.

    Without `present`, times without a zone are in UTC.
    """
    present = present or Present(datetime.now(UTC))
    if clock := _TIME_OF_DAY.fullmatch(text):
        last = (Present(present.now) if clock[4] else present).last(_time_of_day(clock))
        return replace(present.moment(last), of_day=True)
    if _TIME.fullmatch(text):
        return _read_time(text, present)
    if re.match("[0-9]{4}-", text):
        raise UnreadableValue(
            f"{text.upper()!r} is not a time; write 2026-11-18 or 2026-11-18T14:05 or 2026-11-18T14:05+02:00"
        )
    return Moment(text, ago=timedelta(microseconds=read_microseconds(text)))


def _time_of_day(clock: re.Match[str]) -> time:
    hour, minute, second, _ = clock.groups()
    try:
        return time(int(hour), int(minute), int(second or 0))
    except ValueError as error:
        raise UnreadableValue(f"there is no such time: {error}") from error


def _read_time(text: str, present: Present) -> Moment:
    try:
        at = datetime.fromisoformat(text.upper())
        zone = present if at.tzinfo is None else Present(present.now, at.tzinfo)
        return zone.moment(zone.at(at.replace(tzinfo=None)))
    except (ValueError, OverflowError) as error:
        raise UnreadableValue(f"there is no such time: {error}") from error


_MICROSECOND: Final = timedelta(microseconds=1)


def read_past(text: str, present: Present | None = None) -> Range | Times:
    """Parse how long ago, or between which times: `<10m`, `>=2026-11-18T14:05`, `2026-11-18..2026-11-19T06:00`."""
    if ".." in text:
        first, _, last = text.partition("..")
        return _read_times_between(first, last, present) if _is_time(first) or _is_time(last) else read_span(text)
    match = _COMPARISON.fullmatch(text)
    if match is None or not _is_time(match["amount"]):
        return read_span(text)
    sign, written = match.groups()
    if sign in ("", "="):
        written = written.upper()
        raise UnreadableValue(f"{written} alone is not a range: from then on or before?", f">={written}")
    moment = read_moment(written, present)
    at = moment.at
    assert at is not None
    return Times(f"{sign}{moment}", *_limits(sign, at - _MICROSECOND, at, at + _MICROSECOND))


def _read_times_between(first: str, last: str, present: Present | None) -> Times:
    low, high = (read_moment(each, present) if each else None for each in (first, last))
    from_, until = (None if each is None else each.at for each in (low, high))
    if (low is not None and from_ is None) or (high is not None and until is None):
        raise UnreadableValue(f"{first}..{last} mixes a time and a duration; write two times, or >=A")
    if from_ is not None and until is not None and from_ > until:
        raise UnreadableValue(f"{low} is later than {high}", f"{high}..{low}")
    return Times(f"{low or ''}..{high or ''}", from_, until)


def _is_time(text: str) -> bool:
    return re.match("[0-9]{4}-", text) is not None or _TIME_OF_DAY.fullmatch(text) is not None


def read_delay(text: str, now: datetime) -> datetime:
    """Return the moment after this duration. Raise UnreadableValue for any other text."""
    return now + timedelta(microseconds=read_microseconds(text.strip().lower()))


def read_ahead(text: str, now: datetime) -> datetime:
    """Parse a time after `now`, in UTC if no zone is given; a time of day means the next one.

    Raise UnreadableValue for any other text.
    """
    text = text.strip().lower()
    if clock := _TIME_OF_DAY.fullmatch(text):
        today = datetime.combine(now.astimezone(UTC), _time_of_day(clock), UTC)
        return today if today > now else today + timedelta(days=1)
    if not re.match("[0-9]{4}-", text) or (at := read_moment(text).at) is None:
        raise UnreadableValue(f"{text!r} is not a time; write 03:00, 2026-11-20T03:00 (UTC) or 2026-11-20T03:00+01:00")
    if at <= now:
        raise UnreadableValue(f"{text.upper()} has passed")
    if at - now > LONGEST:
        raise UnreadableValue(f"{text.upper()} is more than a hundred years ahead")
    return at
