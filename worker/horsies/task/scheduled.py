"""The tasks of schedules: what each slot sends, checked before a scheduler starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from horsies.config.schedule import TaskSchedule, config_hash
from horsies.domain.digests import enqueue_sha, scheduled_task_id
from horsies.domain.errors import ConfigurationError, ErrorCode, HorsiesError, RegistryError, flatten, raise_collected
from horsies.domain.result import Err
from horsies.domain.schedule import calculate_next_run, missed_slots, next_slot
from horsies.task.checks import queue_problem, route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.config.app import AppConfig
    from horsies.store.enqueue import EnqueueRequest
    from horsies.task.function import TaskFunction


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """One enabled schedule and the row that it sends, but for id and time."""

    schedule: TaskSchedule
    hash: str
    request: EnqueueRequest

    def next_run(self, now: datetime) -> datetime:
        """Of a schedule that has not run yet."""
        return calculate_next_run(self.schedule.pattern, now, self.schedule.timezone)

    def due_slots(self, slot: datetime | None, now: datetime) -> tuple[list[datetime], datetime]:
        """The slots to send now, and when it comes due next."""
        schedule, zone = self.schedule, self.schedule.timezone
        if slot is None:
            return [now], self.next_run(now)
        if not schedule.catch_up_missed:
            return [slot], next_slot(schedule.pattern, slot, now, zone)
        slots = missed_slots(schedule.pattern, slot, now, zone, schedule.max_catch_up_runs)
        return slots, calculate_next_run(schedule.pattern, slots[-1], zone)

    def at(self, slot: datetime) -> EnqueueRequest:
        """The row of one slot: whichever scheduler makes it, it is the same."""
        request = self.request
        sha = enqueue_sha(
            task_name=request.task_name,
            queue_name=request.queue_name,
            priority=request.priority,
            args_json=request.args_json,
            kwargs_json=request.kwargs_json,
            sent_at=slot,
            task_options=request.task_options,
        )
        return request._replace(task_id=scheduled_task_id(self.schedule.name, slot), sent_at=slot, enqueue_sha=sha)


def schedule_errors(config: AppConfig, tasks: Mapping[str, TaskFunction[..., Any, Any, Any]]) -> list[HorsiesError]:
    """All that would keep a scheduler from starting."""
    try:
        scheduled_tasks(config, tasks)
    except HorsiesError as error:
        return list(flatten([error]))
    return []


def scheduled_tasks(config: AppConfig, tasks: Mapping[str, TaskFunction[..., Any, Any, Any]]) -> list[ScheduledTask]:
    """The enabled schedules of an application; all that cannot send are reported together."""
    errors: list[HorsiesError] = []
    found: list[ScheduledTask] = []
    for schedule in config.enabled_schedules:
        try:
            found.append(_scheduled(config, schedule, tasks))
        except HorsiesError as error:
            errors.append(error)
    raise_collected(errors)
    return found


def _scheduled(
    config: AppConfig, schedule: TaskSchedule, tasks: Mapping[str, TaskFunction[..., Any, Any, Any]]
) -> ScheduledTask:
    task = tasks.get(schedule.task_name)
    if task is None:
        close = get_close_matches(schedule.task_name, tasks, 1)
        hint = f"did you mean {close[0]!r}? Otherwise " if close else ""
        raise RegistryError(
            f"schedule {schedule.name!r}: task {schedule.task_name!r} is not registered",
            code=ErrorCode.TASK_NOT_REGISTERED,
            location=schedule.defined_at(),
            help_text=f"{hint}import its module where the application is defined, or name it in discover_tasks",
        )
    prepared = task.to_send(*schedule.args, **schedule.kwargs).prepare(suppressed=False, sent_at=datetime.now(UTC))
    if isinstance(prepared, Err):
        help_text = "give the task's arguments as args and kwargs of the schedule"
        raise _invalid(schedule, prepared.err_value.message, help_text)
    request = prepared.ok_value
    if schedule.queue_name not in (None, request.queue_name):
        if (problem := queue_problem(config, schedule.queue_name)) is not None:
            raise _invalid(schedule, problem.message, problem.help_text)
        queue, priority = route(config, schedule.queue_name)
        request = request._replace(queue_name=queue, priority=priority)
    return ScheduledTask(schedule, config_hash(schedule), request)


def _invalid(schedule: TaskSchedule, message: str, help_text: str | None) -> ConfigurationError:
    return ConfigurationError(
        f"schedule {schedule.name!r}: {message}",
        code=ErrorCode.CONFIG_INVALID_SCHEDULE,
        location=schedule.defined_at(),
        help_text=help_text,
    )
