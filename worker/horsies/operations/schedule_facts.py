"""The facts that a preview of a verb for schedules reads, and its sentences about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.config.schedule import stored_pattern
from horsies.domain.ids import enqueue_sha
from horsies.domain.quantities import by_whom, clock
from horsies.domain.schedule_times import missed_slots, next_slot, zone_named

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.config.schedule import SchedulePattern

_COLUMNS: Final = {"target": str, "queue": str, "priority": int, "max_retries": int}
_TEXTS: Final = ("args", "kwargs", "task_options")


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule's stored definition: the pattern, and the columns of what it sends."""

    stored: Mapping[str, Any]

    @property
    def target(self) -> str:
        return str(self.stored.get("target"))

    @property
    def queue(self) -> str:
        return str(self.stored.get("queue"))

    @property
    def zone(self) -> str:
        return str(self.stored.get("timezone"))

    @property
    def pattern(self) -> SchedulePattern | None:
        """The pattern; None for a pattern of a later release, or a zone that this machine does not know."""
        try:
            zone_named(self.zone)
            return stored_pattern(self.stored.get("pattern"))
        except ValueError:
            return None

    @property
    def is_workflow(self) -> bool:
        return self.stored.get("kind") == "workflow"

    @property
    def problem(self) -> str | None:
        """The reason why its definition cannot be sent."""
        if self.is_workflow:
            return None  # a scheduler builds it
        wrong = [name for name, kind in _COLUMNS.items() if type(self.stored.get(name)) is not kind]
        wrong += [name for name in _TEXTS if not isinstance(self.stored.get(name), str | None)]
        return f"its definition has no usable {', '.join(wrong)}: start its scheduler again" if wrong else None

    def fingerprint(self, sent_at: datetime) -> str:
        stored = self.stored
        return enqueue_sha(
            task_name=self.target,
            queue_name=self.queue,
            priority=stored["priority"],
            args_json=stored.get("args"),
            kwargs_json=stored.get("kwargs"),
            sent_at=sent_at,
            task_options=stored.get("task_options"),
        )


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """A schedule, its plan and its orders. `registered_at` is when its definition was stored."""

    name: str
    definition: StoredSchedule
    registered_at: datetime
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None
    skip_slot: datetime | None
    next_run_at: datetime | None
    now: datetime
    has_scheduler: bool
    """True if a running scheduler has it."""
    is_served: bool = True
    """True if a live worker serves the queue of its task; read only for previews."""

    @property
    def words(self) -> str:
        if self.paused_at is not None:
            why = f' "{self.reason}"' if self.reason else ""
            return f"paused since {clock(self.paused_at)}{by_whom(self.paused_by)}{why}"
        if self.next_run_at is None:
            return "not planned yet"
        skips = ", which is skipped" if self.skip_slot == self.next_run_at else ""
        return f"planned for {clock(self.next_run_at)}{skips}"

    @property
    def since(self) -> datetime | None:
        return self.paused_at

    @property
    def following(self) -> datetime | None:
        """Return the first run after now; None without a plan, or with a plan that this release cannot read."""
        if self.next_run_at is None or self.next_run_at > self.now:
            return self.next_run_at
        return self._after(self.next_run_at, self.now)

    @property
    def after_next(self) -> datetime | None:
        """Return the run after the next one; it may be in the past if the schedule catches up on missed runs."""
        slot = self.next_run_at
        if slot is None:
            return None
        return self._after(slot, slot if self.definition.stored.get("catch_up_missed") else max(slot, self.now))

    def passed(self, limit: int) -> list[datetime]:
        """Return the slots that are due and were not sent, up to a maximum."""
        pattern, slot = self.definition.pattern, self.next_run_at
        if pattern is None or slot is None or slot > self.now:
            return []
        return missed_slots(pattern, slot, self.now, self.definition.zone, limit)

    def _after(self, slot: datetime, now: datetime) -> datetime | None:
        pattern = self.definition.pattern
        return None if pattern is None else next_slot(pattern, slot, now, self.definition.zone)
