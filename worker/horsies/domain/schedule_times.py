"""The next run of a schedule: local wall-clock marks and plain intervals, computed without a clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from enum import StrEnum
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Protocol, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The longest real wait is day 31 at 02:30 when the clocks go forward on 31 March: 31 January to 31 May, 121 days. The
# bound only ends the search for times that never occur.
LONGEST_PAUSE = timedelta(days=400)
ONE_DAY = timedelta(days=1)
_MAX_CHANGE = timedelta(hours=3)  # of clocks that go back


class Weekday(StrEnum):
    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


WEEK = tuple(Weekday)


@dataclass(frozen=True, slots=True)
class Every:
    """Elapsed time, counted from the last run, independent of the calendar."""

    seconds: int

    def after(self, instant: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        step = timedelta(seconds=self.seconds)
        while True:
            instant += step
            yield instant


@dataclass(frozen=True, slots=True)
class WallClock:
    """Local wall-clock time: ascending times of day, on the days that both filters allow."""

    times: tuple[time, ...]
    weekdays: frozenset[Weekday] | None = None
    day_of_month: int | None = None

    def falls_on(self, day: date) -> bool:
        return (self.weekdays is None or WEEK[day.weekday()] in self.weekdays) and self.day_of_month in (None, day.day)

    def after(self, instant: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        day = last_hit = instant.astimezone(zone).date()
        while day - last_hit < LONGEST_PAUSE:
            for mark in self.times if self.falls_on(day) else ():
                slot = _earliest_instant(datetime.combine(day, mark), zone)
                if slot is not None and slot > instant:
                    instant, last_hit = slot, day
                    yield slot
            day += ONE_DAY
        raise ValueError(f"{self} has no run in the {LONGEST_PAUSE.days} days after {instant}")


@dataclass(frozen=True, slots=True)
class Cron:
    """The five fields of cron: minute, hour, day of month, month, day of week.

    When clocks change, an expression whose minute or hour begins with `*` continues in elapsed time, as in Debian's
    cron: every five minutes stays every five minutes. Others follow the rule of `calculate_next_run`.
    """

    expression: str

    def after(self, instant: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        elapsed = any(field.startswith("*") for field in self.expression.split()[:2])
        # Start before a change of the clocks, because past local times may come a second time. Otherwise start now,
        # because three hours of minutes take 1 ms.
        near = [(instant + way * _MAX_CHANGE).astimezone(zone) for way in (-1, 1)]
        local = instant.astimezone(zone) if near[0].utcoffset() == near[1].utcoffset() else near[0]
        repeated: list[datetime] = []  # the second instants of local times that occur twice, ascending
        for mark in CronSim(self.expression, local.replace(tzinfo=None)):
            slot = _earliest_instant(mark, zone)
            if slot is None:
                continue
            while repeated and repeated[0] < slot:
                if (again := repeated.pop(0)) > instant:
                    yield again
            if elapsed and (again := mark.replace(tzinfo=zone, fold=1).astimezone(UTC)) != slot:
                repeated.append(again)
            if slot > instant:
                yield slot
        raise ValueError(f"the cron expression {self.expression!r} has no run in the 50 years after {instant}")

    def problem(self) -> str | None:
        """Return why this is no expression, or one that never comes due."""
        if (count := len(self.expression.split())) != 5:
            return f"it has {count} fields, not five: minute, hour, day of month, month, day of week"
        try:
            next(self.after(datetime(2000, 1, 1, tzinfo=UTC), ZoneInfo("UTC")))
        except CronSimError as error:
            return self._never() or str(error).lower()
        except ValueError:
            return "it never comes due"
        return None

    def _never(self) -> str | None:
        """Return why it never comes due, if none of its months has such a day, as the 31st of February."""
        minute, hour, day, month, weekday = self.expression.split()
        try:
            for allowed in (f"{day} *", f"* {month}"):
                CronSim(f"{minute} {hour} {allowed} {weekday}", datetime(2000, 1, 1))  # noqa: DTZ001 - times are local
        except CronSimError:
            return None
        return "it never comes due: none of its months has such a day"


Rhythm: TypeAlias = Every | WallClock | Cron


class Pattern(Protocol):
    """The patterns of `horsies.config.schedule`, which all reduce to one of these rhythms."""

    def rhythm(self) -> Rhythm: ...


def calculate_next_run(pattern: Pattern, from_time: datetime, tz: str = "UTC") -> datetime:
    """The first run strictly after `from_time`, in UTC. A naive time or an unknown zone is a ValueError.

    A local time that the clocks skip has no run; one that occurs twice runs at the earlier instant only.
    """
    return next(_runs_after(pattern, from_time, tz))


def next_slot(pattern: Pattern, slot: datetime, now: datetime, tz: str) -> datetime:
    """The first run after `now` of a schedule that was due at `slot`.

    An interval counts from `slot`, so that late runs do not shift it.
    """
    rhythm, slot, now = pattern.rhythm(), _in_utc(slot), _in_utc(now)
    if isinstance(rhythm, Every):
        step = timedelta(seconds=rhythm.seconds)
        return slot + max(1, (now - slot) // step + 1) * step
    return next(rhythm.after(now, zone_named(tz)))


def missed_slots(pattern: Pattern, first_slot: datetime, now: datetime, tz: str, limit: int) -> list[datetime]:
    """Return the slots due at `now`, oldest first and at most `limit`: `first_slot` as stored, then what follows it."""
    end = _in_utc(now)
    slots = chain([_in_utc(first_slot)], _runs_after(pattern, first_slot, tz))
    return list(islice(takewhile(lambda slot: slot <= end, slots), limit))


def should_run_now(next_run_at: datetime | None, now: datetime) -> bool:
    """Return whether it is due; a schedule that has never been planned runs at once."""
    return next_run_at is None or next_run_at <= now


def zone_named(name: str) -> ZoneInfo:
    """Return the zone of an IANA name; ValueError with the likely spelling otherwise."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # OSError: "America" is a directory of the zone database, and a name may be too long for a file.
        raise ValueError(f"{name!r} is not a known time zone; {_spelling_hint(name)}") from None


def _spelling_hint(name: str) -> str:
    """Match the city alone too, so that "berlin" finds Europe/Berlin."""
    zones = available_timezones()
    spellings = {zone.rpartition("/")[2].lower(): zone for zone in sorted(zones)}
    spellings |= {zone.lower(): zone for zone in zones}
    close = dict.fromkeys(spellings[match] for match in get_close_matches(name.lower(), spellings))
    return f"did you mean {' or '.join(close)}?" if close else "use an IANA name such as Europe/Berlin or UTC"


def _runs_after(pattern: Pattern, from_time: datetime, tz: str) -> Iterator[datetime]:
    return pattern.rhythm().after(_in_utc(from_time), zone_named(tz))


def _in_utc(moment: datetime) -> datetime:
    # Arithmetic and comparisons of times in one local zone ignore its clock changes; UTC has none.
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone, so it names no instant; use datetime.now(UTC) or .astimezone()")
    return moment.astimezone(UTC)


def _earliest_instant(local: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the first instant at which local clocks show `local`; None if they skip it."""
    instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return instant if instant.astimezone(zone).replace(tzinfo=None) == local else None
