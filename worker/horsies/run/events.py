"""The worker's log: one record per event, readable for people, complete for machines."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from horsies.domain.codes import OperationalErrorCode
from horsies.domain.masking import mask
from horsies.hooks import TaskFailed, TaskRetried

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.config.contexts import DatabaseChoice
    from horsies.domain.errors import HorsiesError
    from horsies.hooks import Event
    from horsies.lifecycle.finishing import Outcome
    from horsies.lifecycle.recovering import CrashedRun
    from horsies.lifecycle.scheduling import ScheduleRun
    from horsies.run.in_flight import InFlightTask
    from horsies.run.metrics.of_worker import WorkerMetrics

LOGGER_NAME = "horsies.worker"
_STYLES = {
    "finished": "\x1b[32m",
    "failed": "\x1b[31m",
    "crashed": "\x1b[31m",
    "retry": "\x1b[33m",
    "interrupted": "\x1b[33m",
    "lost claim": "\x1b[35m",
    "expired": "\x1b[33m",
}
_RESET = "\x1b[0m"


class Seconds(float):
    """A number for machines; for people in a comparable form: 34ms, 4.1s, 12m."""

    def __str__(self) -> str:
        seconds = float(self)
        if seconds < 1:
            return f"{seconds * 1000:.0f}ms"
        if seconds < 120:
            return f"{seconds:.1f}s"
        return f"{seconds / 60:.0f}m" if seconds < 7200 else f"{seconds / 3600:.1f}h"

    __format__ = object.__format__  # float's own would print all digits


class HookCalls(Protocol):
    """What calls the hooks of the application; it reports to `Events`, too."""

    worker_id: str

    def tell(self, event: Event) -> None: ...

    async def close(self, within_s: float) -> None: ...


class Events:
    """Names and levels of all events, and the counters of the status line."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger(LOGGER_NAME)
        self.metrics: WorkerMetrics | None = None
        """Set by a worker that is scraped."""
        self.hooks: HookCalls | None = None
        """Set by a worker whose application has any."""
        self.finished = 0
        self.failed = 0
        self.retried = 0
        self.stale = 0

    def started(self, entry: InFlightTask) -> None:
        """Its row is RUNNING, and its job goes to the child."""
        if self.metrics is not None:
            self.metrics.started(entry)
        child = entry.child.pid if entry.child else 0
        self._log(logging.DEBUG, "started", task=entry.task.task_name, id=entry.task_id, child=child)

    def task_finished(self, entry: InFlightTask, duration_s: float | None) -> None:
        self.finished += 1
        if self.metrics is not None:
            self.metrics.ended(entry, "completed", None, duration_s)
        took = Seconds(duration_s or 0.0)
        self._log(logging.INFO, "finished", task=entry.task.task_name, id=entry.task_id, took=took)

    def task_failed(self, entry: InFlightTask, outcome: Outcome, duration_s: float | None) -> None:
        self.failed += 1
        code, message = outcome.error_code, outcome.error_message
        if self.metrics is not None:
            self.metrics.ended(entry, "failed", code, duration_s)
        if self.hooks is not None:
            self.hooks.tell(_failed(entry, outcome, self.hooks.worker_id))
        self._log(logging.WARNING, "failed", task=entry.task.task_name, id=entry.task_id, code=code, message=message)

    def task_retried(
        self, entry: InFlightTask, outcome: Outcome, due: datetime | None, duration_s: float | None
    ) -> None:
        self.retried += 1
        if self.metrics is not None:
            self.metrics.ended(entry, "retried", outcome.error_code, duration_s)
        if self.hooks is not None:
            self.hooks.tell(_retried(entry, outcome, due, self.hooks.worker_id))
        self._log(
            logging.WARNING,
            "retry",
            task=entry.task.task_name,
            id=entry.task_id,
            code=outcome.error_code,
            due_in=Seconds(outcome.retry_delay_s or 0.0),
            failed_attempts=entry.task.retry_count + 1,
        )

    def task_interrupted(self, entry: InFlightTask, outcome: Outcome, *, requeued: bool) -> None:
        if self.metrics is not None:
            self.metrics.ended(entry, "requeued" if requeued else "failed", outcome.error_code, None)
        if self.hooks is not None and not requeued:
            self.hooks.tell(_failed(entry, outcome, self.hooks.worker_id))
        now = "PENDING" if requeued else "FAILED"
        self._log(logging.WARNING, "interrupted", task=entry.task.task_name, id=entry.task_id, now=now)

    def task_expired(self, entry: InFlightTask) -> None:
        if self.metrics is not None:
            self.metrics.expired(entry)
        self._log(logging.WARNING, "expired", task=entry.task.task_name, id=entry.task_id)

    def claim_lost(self, entry: InFlightTask, doing: str) -> None:
        self.stale += 1
        if self.metrics is not None:
            self.metrics.claim_lost(entry, doing)
        self._log(logging.WARNING, "lost claim", task=entry.task.task_name, id=entry.task_id, doing=doing)

    def outcome_refused(self, task_id: str, task_name: str, error: Exception) -> None:
        """The database rejects an outcome; it is kept, and sent again from time to time."""
        words = mask(f"{type(error).__name__}: {error}".split("\n", 1)[0])
        self._log(logging.ERROR, "outcome refused", task=task_name, id=task_id, error=words)

    def outcome_waits(self, task_id: str, task_name: str, holder: str) -> None:
        """Its row is locked by another session; it is sent again until it can be stored."""
        self._log(logging.WARNING, "outcome waits for a lock", task=task_name, id=task_id, locked_by=holder)

    def start_waits(self, task_id: str, task_name: str, holder: str) -> None:
        """Its row is locked by another session; the task is released when the lock ends."""
        self._log(logging.WARNING, "start waits for a lock", task=task_name, id=task_id, locked_by=holder)

    def outcome_lost(self, task_id: str, task_name: str) -> None:
        """The worker ends without having stored it."""
        self._log(logging.ERROR, "outcome lost", task=task_name, id=task_id)

    def child_exited(self, index: int, pid: int, how: str, tasks: int) -> None:
        if self.metrics is not None:
            self.metrics.child_exited(crashed=tasks > 0)
        level = logging.ERROR if tasks else logging.INFO
        self._log(level, "crashed" if tasks else "child exited", child=index, pid=pid, how=how, tasks=tasks)

    def output(self, child: int, task_id: str | None, stream: str, line: str) -> None:
        self._log(logging.INFO, stream, child=child, id=task_id, line=line)

    def loop_failed(self, name: str, error: Exception, failures: int, delay_s: float, *, transient: bool) -> None:
        """The first failure in a row is logged with its traceback, later ones in a line."""
        if self.metrics is not None:
            self.metrics.step_failed(name)
        self._logger.log(
            logging.WARNING if transient else logging.ERROR,
            "loop failed",
            extra={
                "fields": {
                    "loop": name,
                    "error": mask(f"{type(error).__name__}: {error}".split("\n", 1)[0]),
                    "failures": failures,
                    "again_in": Seconds(delay_s),
                }
            },
            exc_info=error if failures == 1 and not transient else None,
        )

    def loop_stepped(self, name: str, seconds: float) -> None:
        """A step succeeded; of interest to metrics alone."""
        if self.metrics is not None:
            self.metrics.stepped(name, seconds)

    def beaten(self, runs: int) -> None:
        """Heartbeats of so many runs were stored."""
        if self.metrics is not None:
            self.metrics.beaten(runs)

    def blocked(self, name: str, error: Exception) -> None:
        """A lock or a full disk prevents writes. Logged once; unblocked() is the end."""
        words = mask(f"{type(error).__name__}: {error}".split("\n", 1)[0])
        self._log(logging.WARNING, "cannot write", loop=name, error=words)

    def unblocked(self, after_s: float) -> None:
        self._log(logging.WARNING, "writes again", after=Seconds(after_s))

    def loop_stuck(self, name: str, since_s: float) -> None:
        self._log(logging.ERROR, "loop stuck", loop=name, since=Seconds(since_s))

    def loop_recovered(self, name: str, failures: int) -> None:
        self._log(logging.INFO, "loop recovered", loop=name, after_failures=failures)

    def slots_used(self, run: ScheduleRun) -> None:
        """What a schedule has sent, or that an operator's order left its slot out."""
        name, next_at = run.due.name, f"{run.next_run_at:%Y-%m-%dT%H:%M:%S}Z"
        sent = [use.workflow_id if use.task is None else use.task.task_id for use in run.uses]
        ids = [one for one in sent if one is not None]
        more = {"slots": len(ids)} if len(ids) > 1 else {}
        if ids:
            self._log(logging.INFO, "scheduled", schedule=name, id=ids[-1], next=next_at, **more)
        else:
            self._log(logging.INFO, "skipped", schedule=name, next=next_at)

    def schedule_failed(self, name: str, error: str, failures: int, again_s: float) -> None:
        """The database rejects what it sends, or its workflow cannot be built; its slot stays due."""
        words = mask(error.split("\n", 1)[0])
        self._log(
            logging.ERROR, "schedule not sent", schedule=name, error=words, failures=failures, again_in=Seconds(again_s)
        )

    def waiting_for_database(self, error: HorsiesError, delay_s: float) -> None:
        self._log(logging.WARNING, "waiting for the database", reason=error.message, again_in=Seconds(delay_s))

    def sweep_ended(self, sweep: str, seconds: float) -> None:
        """This worker has run a sweep; `swept` or `pruned` told what it changed."""
        if self.metrics is not None:
            self.metrics.sweep_ended(sweep, seconds)

    def swept(self, text: str, *, changed: int, **counts: Any) -> None:
        """One record for each sweep, so that the log shows that sweeps run; at DEBUG if nothing was to do."""
        if self.metrics is not None:
            self.metrics.swept(text, counts)
        self._log(logging.INFO if changed else logging.DEBUG, text, **counts)

    def run_crashed(self, crash: CrashedRun) -> None:
        """A sweep of this worker has found a run whose worker is dead; the sweep is logged as a whole."""
        if self.hooks is not None:
            self.hooks.tell(_crashed(crash, self.hooks.worker_id))

    def hook_failed(self, hook: str, event: str, error: BaseException, why: str | None) -> None:
        """With its traceback: it is code of the application."""
        words = why or mask(f"{type(error).__name__}: {error}".split("\n", 1)[0])
        fields = {"hook": hook, "of": event, "error": words}
        self._logger.log(logging.ERROR, "hook failed", extra={"fields": fields}, exc_info=None if why else error)

    def not_reloaded(self, files: str, reason: str, traceback: str) -> None:
        """Files of the project have changed and cannot be imported."""
        fields = {"traceback": traceback} if traceback else {"reason": reason}
        now = "the code of before goes on until the next change"
        self._log(logging.ERROR, f"not reloaded {files}", now=now, **fields)

    def other_databases(self, choice: DatabaseChoice) -> None:
        """What else could be meant: a send of a process that has the application's own URL goes there."""
        for other in choice.passed_over:
            level = logging.WARNING if other.by_application else logging.INFO
            used, told = f"{choice.url} ({choice.reason})", f"{other.url} ({other.reason})"
            self._log(level, "one of two databases", used=used, not_used=told)

    def note(self, text: str, **fields: Any) -> None:
        self._log(logging.INFO, text, **fields)

    def warn(self, text: str, **fields: Any) -> None:
        self._log(logging.WARNING, text, **fields)

    def _log(self, level: int, event: str, **fields: Any) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


def _failed(entry: InFlightTask, outcome: Outcome, worker_id: str) -> TaskFailed:
    task = entry.task
    code, message = outcome.error_code, outcome.error_message
    return TaskFailed(entry.task_id, task.task_name, task.queue_name, code, message, task.retry_count + 1, worker_id)


def _retried(entry: InFlightTask, outcome: Outcome, due: datetime | None, worker_id: str) -> TaskRetried:
    task = entry.task
    code, message = outcome.error_code, outcome.error_message
    attempt = task.retry_count + 1
    return TaskRetried(entry.task_id, task.task_name, task.queue_name, code, message, attempt, due, worker_id)


def _crashed(crash: CrashedRun, worker_id: str) -> TaskFailed | TaskRetried:
    code = OperationalErrorCode.WORKER_CRASHED.value
    told = crash.task_id, crash.task_name, crash.queue_name, code, crash.message, crash.attempt
    if crash.retry_at is None:
        return TaskFailed(*told, worker_id, found_by_sweep=True)
    return TaskRetried(*told, crash.retry_at, worker_id, found_by_sweep=True)


class HumanFormatter(logging.Formatter):
    """`12:04:31 finished    send_report took=34ms 01a1edfe-…`, coloured where a terminal shows it."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        event = record.getMessage()
        rest = {
            name: value
            for name, value in fields.items()
            if value is not None and name not in ("task", "id", "line", "traceback")
        }
        words = [fields.get("task"), *(f"{name}={value}" for name, value in rest.items()), fields.get("id")]
        label = f"{event:<11}"
        if self._colour and event in _STYLES:
            label = f"{_STYLES[event]}{label}{_RESET}"
        elif record.levelno > logging.INFO and event not in _STYLES:
            label = f"{record.levelname.lower()}: {label}"
        text = " ".join([clock, label, *(str(word) for word in words if word)])
        if "line" in fields:
            text += f" | {fields['line']}"
        if "traceback" in fields:
            text += f"\n{fields['traceback']}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with full ids."""

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        content = {
            "at": record.created,
            "level": record.levelname,
            "event": record.getMessage(),
            **{name: _plain(value) for name, value in fields.items() if value is not None},
        }
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, Seconds) else value


def wants_colour(stream: TextIO) -> bool:
    """Colour for terminals, unless NO_COLOR is set; HORSIES_FORCE_COLOR overrides both."""
    if os.environ.get("HORSIES_FORCE_COLOR"):
        return True
    return stream.isatty() and not os.environ.get("NO_COLOR")


def configure_logging(level: str, handler: logging.StreamHandler[TextIO], *, as_json: bool = False) -> None:
    """Send the engine's records only to `handler`."""
    handler.setFormatter(JsonFormatter() if as_json else HumanFormatter(colour=wants_colour(handler.stream)))
    root = logging.getLogger("horsies")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level)
