"""The tasks and workflows that schedules send: those of each slot, checked before a scheduler starts."""

from __future__ import annotations

import inspect
import traceback
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar

from horsies.config.schedule import Schedule, TaskSchedule, WorkflowSchedule, config_hash
from horsies.domain.codec import dump_value, to_json
from horsies.domain.errors import ConfigurationError, ErrorCode, HorsiesError, RegistryError, flatten, raise_collected
from horsies.domain.ids import enqueue_sha, scheduled_task_id
from horsies.domain.result import Err
from horsies.domain.schedule_times import calculate_next_run, missed_slots, next_slot
from horsies.lifecycle.scheduling import ScheduleAdvance, SlotUse
from horsies.task.options import queue_problem, route
from horsies.task.sending import sends_suppressed
from horsies.workflow.definition import build_for, find_definition, known_definitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from horsies.domain.plan import WorkflowPlan
    from horsies.lifecycle.scheduling import DueSchedule
    from horsies.store.enqueue import EnqueueRequest
    from horsies.task.function import TaskFunction
    from horsies.workflow.definition import WorkflowDefinition
    from horsies.workflow.spec import WorkflowApp


class Scheduled(ABC):
    """One enabled schedule of an application."""

    most_at_once: ClassVar[int] = 10_000
    """How many slots are caught up in one tick, also if max_catch_up_runs is higher."""

    def __init__(self, app: WorkflowApp, schedule: Schedule) -> None:
        self.app = app
        self.schedule = schedule
        self.hash = config_hash(schedule)

    @property
    def name(self) -> str:
        return self.schedule.name

    @property
    def definition(self) -> str:
        """The pattern and what it sends, as JSON in horsies_schedules: commands and the console have no application."""
        schedule = self.schedule
        plan = {
            "pattern": schedule.pattern.model_dump(mode="json", exclude_none=True),
            "timezone": schedule.timezone,
            "catch_up_missed": schedule.catch_up_missed,
            "max_catch_up_runs": schedule.max_catch_up_runs,
            "check_interval_seconds": self.app.config.schedule_interval_s,
        }
        return to_json(plan | self.sent())

    @abstractmethod
    def sent(self) -> dict[str, Any]:
        """Return the part of the definition that says what it sends."""

    @abstractmethod
    def use(self, slot: datetime) -> SlotUse:
        """Return what a slot sends; every scheduler computes the same."""

    def next_run(self, now: datetime) -> datetime:
        """Return the next run of a schedule that has not run yet."""
        return calculate_next_run(self.schedule.pattern, now, self.schedule.timezone)

    def run_of(self, due: DueSchedule) -> ScheduleAdvance:
        """Return what a due schedule sends now; a slot that an operator ordered to skip sends nothing."""
        slots, next_run_at = self.due_slots(due.slot, due.now)
        uses = [SlotUse(slot) if slot == due.skip_slot else self.use(slot) for slot in slots]
        return ScheduleAdvance(due, next_run_at, uses)

    def due_slots(self, slot: datetime | None, now: datetime) -> tuple[list[datetime], datetime]:
        """Return the slots to send now, and when the schedule comes due next."""
        schedule, zone = self.schedule, self.schedule.timezone
        if slot is None:
            return [now], self.next_run(now)
        if not schedule.catch_up_missed:
            return [slot], next_slot(schedule.pattern, slot, now, zone)
        most = min(schedule.max_catch_up_runs, self.most_at_once)
        slots = missed_slots(schedule.pattern, slot, now, zone, most)
        return slots, calculate_next_run(schedule.pattern, slots[-1], zone)


class ScheduledTask(Scheduled):
    """A schedule with the row that it sends, but for id and time."""

    def __init__(self, app: WorkflowApp, schedule: TaskSchedule, request: EnqueueRequest) -> None:
        super().__init__(app, schedule)
        self.request = request

    def sent(self) -> dict[str, Any]:
        request = self.request
        *_, max_retries = request.columns()
        return {
            "kind": "task",
            "target": request.task_name,
            "queue": request.queue_name,
            "priority": request.priority,
            "args": request.args_json,
            "kwargs": request.kwargs_json,
            "task_options": request.task_options,
            "max_retries": max_retries,
        }

    def use(self, slot: datetime) -> SlotUse:
        return SlotUse(slot, self.at(slot))

    def at(self, slot: datetime) -> EnqueueRequest:
        """Return the row of one slot."""
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
        return request._replace(task_id=scheduled_task_id(self.name, slot), sent_at=slot, enqueue_sha=sha)


class ScheduledWorkflow(Scheduled):
    """A schedule with the definition of the workflow that it starts."""

    # They are created in one transaction, which must end within the time of a tick.
    most_at_once = 20

    def __init__(self, app: WorkflowApp, schedule: WorkflowSchedule, definition: type[WorkflowDefinition[Any]]) -> None:
        super().__init__(app, schedule)
        self._definition = definition
        self._params = schedule.params

    def sent(self) -> dict[str, Any]:
        key = self._definition.definition_key
        params = dump_value(self._params) if self._params else None
        return {"kind": "workflow", "target": self._definition.name, "definition_key": key, "kwargs": params}

    def use(self, slot: datetime) -> SlotUse:
        return SlotUse(slot, workflow_id=scheduled_task_id(self.name, slot))

    def plan(self) -> WorkflowPlan:
        """Plan the workflow by the user's `build_with`, so call it in a thread. ConfigurationError if that fails."""
        try:
            return build_for(self._definition, self.app, self._params).to_plan()
        except HorsiesError as error:
            # Its own help and notes say more than a schedule's.
            raise _invalid(self.schedule, f"its workflow cannot be built: {error.message}", error.help_text) from error
        except (Exception, SystemExit) as error:  # build_with is user code, and must not end the scheduler
            # str(error) is user code and may raise; the traceback module takes care of that.
            text = traceback.TracebackException(type(error), error, None)
            message = f"its workflow cannot be built: {type(error).__name__}: {text}"
            raise _invalid(self.schedule, message.rstrip(), None) from error


def schedule_errors(app: WorkflowApp, tasks: Mapping[str, TaskFunction[..., Any, Any, Any]]) -> list[HorsiesError]:
    """Return the errors that would keep a scheduler from starting."""
    try:
        schedules_of(app, tasks)
    except HorsiesError as error:
        return list(flatten([error]))
    return []


def schedules_of(app: WorkflowApp, tasks: Mapping[str, TaskFunction[..., Any, Any, Any]]) -> list[Scheduled]:
    """Return the enabled schedules of an application; all that cannot send are reported together."""
    errors: list[HorsiesError] = []
    found: list[Scheduled] = []
    for schedule in app.config.enabled_schedules:
        try:
            if isinstance(schedule, WorkflowSchedule):
                found.append(_workflow(app, schedule))
            else:
                found.append(_task(app, schedule, tasks))
        except HorsiesError as error:
            errors.append(error)
    raise_collected(errors)
    return found


def _task(
    app: WorkflowApp, schedule: TaskSchedule, tasks: Mapping[str, TaskFunction[..., Any, Any, Any]]
) -> ScheduledTask:
    task = tasks.get(schedule.task_name)
    if task is None:
        raise RegistryError(
            f"schedule {schedule.name!r}: task {schedule.task_name!r} is not registered",
            code=ErrorCode.TASK_NOT_REGISTERED,
            location=schedule.defined_at(),
            help_text=_where_to_define(schedule.task_name, tasks),
        )
    prepared = task.to_send(*schedule.args, **schedule.kwargs).prepare(suppressed=False, sent_at=datetime.now(UTC))
    if isinstance(prepared, Err):
        help_text = "give the task's arguments as args and kwargs of the schedule"
        raise _invalid(schedule, prepared.err_value.message, help_text)
    request = prepared.ok_value
    if schedule.queue_name not in (None, request.queue_name):
        if (problem := queue_problem(app.config, schedule.queue_name)) is not None:
            raise _invalid(schedule, problem.message, problem.help_text)
        queue, priority = route(app.config, schedule.queue_name)
        request = request._replace(queue_name=queue, priority=priority)
    return ScheduledTask(app, schedule, request)


def _workflow(app: WorkflowApp, schedule: WorkflowSchedule) -> ScheduledWorkflow:
    definition = find_definition(schedule.workflow)
    if definition is None:
        message = f"no WorkflowDefinition has the key {schedule.workflow!r}"
        raise _invalid(schedule, message, _where_to_define(schedule.workflow, known_definitions()))
    try:
        inspect.signature(definition.build_with).bind(app, **schedule.params)
        dump_value(schedule.params)
    except (TypeError, ValueError) as error:  # CodecError is a ValueError
        message = f"its params do not fit {definition.__qualname__}.build_with: {error}"
        raise _invalid(schedule, message, "give the parameters of build_with, by name, as params") from error
    scheduled = ScheduledWorkflow(app, schedule, definition)
    with sends_suppressed():
        scheduled.plan()
    return scheduled


def _where_to_define(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    hint = f"did you mean {close[0]!r}? Otherwise " if close else ""
    return f"{hint}import its module where the application is defined, or name it in discover_tasks"


def _invalid(schedule: Schedule, message: str, help_text: str | None) -> ConfigurationError:
    return ConfigurationError(
        f"schedule {schedule.name!r}: {message}",
        code=ErrorCode.CONFIG_INVALID_SCHEDULE,
        location=schedule.defined_at(),
        help_text=help_text,
    )
