"""The log of a worker: one record per event, on the logger `horsies.worker`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from horsies.domain.codec import stored_traceback
from horsies.domain.masking import mask
from horsies.run.contract import TASK_INTERRUPTED
from horsies.run.log_format import EventText, Seconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.config.contexts import DatabaseChoice
    from horsies.lifecycle.finishing import Outcome
    from horsies.lifecycle.recovering import CrashedRun
    from horsies.lifecycle.scheduling import ScheduleAdvance
    from horsies.run.contract import LogRecord
    from horsies.run.worker.in_flight import InFlightTask

LOGGER_NAME = "horsies.worker"
OUTPUT_LOGGER_NAME: Final = "horsies.output"
"""The logger of output of user code: programs that watch a log can leave it out by this name."""
_SHOWN: Final = ("task", "id", "code")
"""Fields that a record has as attributes of its own, for the formats of applications."""


TaskEnding: TypeAlias = Literal["completed", "failed", "retried", "requeued"]
"""`requeued`: interrupted by the stop of the worker, and PENDING again."""


def one_line(error: BaseException) -> str:
    """Return the class of an error and the first line of its text, without passwords."""
    return mask(f"{type(error).__name__}: {error}".split("\n", 1)[0])


class TaskEnd(NamedTuple):
    """The end of a run whose outcome is stored."""

    entry: InFlightTask
    ending: TaskEnding
    outcome: Outcome
    duration_s: float | None
    """Duration of its code, if its child has reported that."""
    due: datetime | None
    """Of a task that runs again."""


class Observer:
    """A subscriber to what happens in a worker. It overrides the methods whose events it counts or passes on.

    Each of them is called by the method of `Events` with the same name.
    """

    def task_started(self, entry: InFlightTask) -> None:
        """Observe that a row is RUNNING, and that its job goes to the child."""

    def task_ended(self, end: TaskEnd) -> None: ...

    def task_expired(self, entry: InFlightTask) -> None: ...

    def claim_lost(self, entry: InFlightTask, at: str) -> None:
        """Observe that a sweep or an operator has taken the task, found out `at` its start, beat or finish."""

    def run_crashed(self, crash: CrashedRun) -> None:
        """Observe that a sweep of this worker has found a run whose worker is dead."""

    def child_exited(self, *, crashed: bool) -> None: ...

    def beaten(self, runs: int) -> None:
        """Count the stored heartbeats of so many runs."""

    def loop_failed(self, loop: str) -> None: ...

    def loop_stepped(self, loop: str, seconds: float) -> None:
        """Observe that a step of this loop succeeded."""

    def sweep_ended(self, sweep: str, seconds: float) -> None: ...

    def swept(self, text: str, counts: Mapping[str, Any]) -> None:
        """Observe what a sweep changed."""


class Events:
    """The log of a worker, the counters of its status line, and its observers: metrics and the application's hooks."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger(LOGGER_NAME)
        self._output_logger = logging.getLogger(OUTPUT_LOGGER_NAME)
        self.observers: list[Observer] = []
        self.finished = 0
        self.failed = 0
        self.retried = 0
        self.stale = 0

    def task_started(self, entry: InFlightTask) -> None:
        """Log that its row is RUNNING, and that its job goes to the child."""
        for each in self.observers:
            each.task_started(entry)
        child = entry.child.pid if entry.child else 0
        self._log(logging.DEBUG, "started", task=entry.task.task_name, id=entry.task_id, child=child)

    def task_ended(self, end: TaskEnd) -> None:
        for each in self.observers:
            each.task_ended(end)
        if end.outcome.error_code == TASK_INTERRUPTED:
            now = "PENDING" if end.ending == "requeued" else "FAILED"
            self._log(logging.WARNING, "interrupted", task=end.entry.task.task_name, id=end.entry.task_id, now=now)
        elif end.ending == "completed":
            self.finished += 1
            took = Seconds(end.duration_s or 0.0)
            self._log(logging.INFO, "finished", task=end.entry.task.task_name, id=end.entry.task_id, took=took)
        elif end.ending == "retried":
            self.retried += 1
            self._log(
                logging.WARNING,
                "retry",
                task=end.entry.task.task_name,
                id=end.entry.task_id,
                code=end.outcome.error_code,
                due_in=Seconds(end.outcome.retry_delay_s or 0.0),
                failed_attempts=end.entry.task.retry_count + 1,
                traceback=self._traceback(end.outcome),
            )
        else:
            self.failed += 1
            self._log(
                logging.WARNING,
                "failed",
                task=end.entry.task.task_name,
                id=end.entry.task_id,
                code=end.outcome.error_code,
                message=end.outcome.error_message,
                traceback=self._traceback(end.outcome),
            )

    def task_expired(self, entry: InFlightTask) -> None:
        for each in self.observers:
            each.task_expired(entry)
        self._log(logging.WARNING, "expired", task=entry.task.task_name, id=entry.task_id)

    def claim_lost(self, entry: InFlightTask, doing: str) -> None:
        self.stale += 1
        for each in self.observers:
            each.claim_lost(entry, doing)
        self._log(logging.WARNING, "claim lost", task=entry.task.task_name, id=entry.task_id, doing=doing)

    def child_exited(self, index: int, pid: int, how: str, tasks: int) -> None:
        for each in self.observers:
            each.child_exited(crashed=tasks > 0)
        level = logging.ERROR if tasks else logging.INFO
        self._log(level, "crashed" if tasks else "child exited", child=index, pid=pid, how=how, tasks=tasks)

    def output(self, child: int, task_id: str | None, stream: str, line: str) -> None:
        """Log a printed line, as a warning if it was written to stderr."""
        level = logging.WARNING if stream == "stderr" else logging.INFO
        self._write(self._output_logger, level, stream, {"child": child, "id": task_id, "line": line})

    @property
    def child_level(self) -> int:
        """The lowest level of the records that children send; a number, as a child may not know the program's names."""
        return self._output_logger.getEffectiveLevel()

    def child_log(self, child: int, task_id: str | None, task_name: str | None, record: LogRecord) -> None:
        """Log a record of user code."""
        level, name, text, traceback, extra, _ = record
        fields = {"task": task_name, "id": task_id, "child": child, "logger": name, "message": text}
        other = {key: value for key, value in extra.items() if fields.get(key) != value}
        self._write(self._output_logger, level, "log", {**fields, "extra": other or None, "traceback": traceback})

    def loop_failed(self, name: str, error: Exception, failures: int, delay_s: float, *, transient: bool) -> None:
        """Log the first failure in a row with its traceback, later ones in a line."""
        for each in self.observers:
            each.loop_failed(name)
        words = one_line(error)
        fields = {"loop": name, "error": words, "failures": failures, "again_in": Seconds(delay_s)}
        level = logging.WARNING if transient else logging.ERROR
        logged = error if failures == 1 and not transient else None
        self._write(self._logger, level, "loop failed", fields, logged)

    def loop_stepped(self, name: str, seconds: float) -> None:
        """Count a step that succeeded; it is not logged."""
        for each in self.observers:
            each.loop_stepped(name, seconds)

    def beaten(self, runs: int) -> None:
        """Count the stored heartbeats of so many runs."""
        for each in self.observers:
            each.beaten(runs)

    def blocked(self, name: str, error: Exception, holder: str | None) -> None:
        """Log once that a lock or a full disk prevents writes."""
        words = one_line(error)
        self._log(
            logging.WARNING, "cannot write", loop=name, error=words, **({} if holder is None else {"lock": holder})
        )

    def slots_used(self, run: ScheduleAdvance) -> None:
        """Log what a schedule has sent, or that an operator's order left its slot out."""
        name, next_at = run.due.name, f"{run.next_run_at:%Y-%m-%dT%H:%M:%S}Z"
        sent = [use.workflow_id if use.task is None else use.task.task_id for use in run.uses]
        ids = [one for one in sent if one is not None]
        more = {"slots": len(ids)} if len(ids) > 1 else {}
        if ids:
            self._log(logging.INFO, "scheduled", schedule=name, id=ids[-1], next=next_at, **more)
        else:
            self._log(logging.INFO, "skipped", schedule=name, next=next_at)

    def schedule_failed(self, name: str, error: str, failures: int, again_s: float) -> None:
        """Log that the database rejects what it sends, or that its workflow cannot be built; its slot stays due."""
        words = mask(error.split("\n", 1)[0])
        self._log(
            logging.ERROR, "schedule not sent", schedule=name, error=words, failures=failures, again_in=Seconds(again_s)
        )

    def sweep_ended(self, sweep: str, seconds: float) -> None:
        """Count a sweep of this worker; `swept` logs what it changed."""
        for each in self.observers:
            each.sweep_ended(sweep, seconds)

    def swept(self, text: str, *, changed: int, **counts: Any) -> None:
        """Log one record for each sweep, so that the log shows that sweeps run; at DEBUG if nothing was to do."""
        for each in self.observers:
            each.swept(text, counts)
        self._log(logging.INFO if changed else logging.DEBUG, text, **counts)

    def run_crashed(self, crash: CrashedRun) -> None:
        """Tell the observers of a run whose worker is dead; its sweep is logged as a whole."""
        for each in self.observers:
            each.run_crashed(crash)

    def hook_failed(self, hook: str, event: str, error: BaseException, why: str | None) -> None:
        """Log the error of a hook with its traceback: it is code of the application."""
        words = why or one_line(error)
        fields = {"hook": hook, "of": event, "error": words}
        self._write(self._logger, logging.ERROR, "hook failed", fields, None if why else error)

    def other_databases(self, choice: DatabaseChoice) -> None:
        """Log which other databases could be meant: sends of processes with the application's own URL go there."""
        for other in choice.passed_over:
            level = logging.WARNING if other.by_application else logging.INFO
            used, not_used = f"{choice.url} ({choice.reason})", f"{other.url} ({other.reason})"
            self._log(level, "one of two databases", used=used, not_used=not_used)

    def note(self, text: str, **fields: Any) -> None:
        self._log(logging.INFO, text, **fields)

    def warn(self, text: str, **fields: Any) -> None:
        self._log(logging.WARNING, text, **fields)

    def error(self, text: str, **fields: Any) -> None:
        self._log(logging.ERROR, text, **fields)

    def _log(self, level: int, event: str, **fields: Any) -> None:
        self._write(self._logger, level, event, fields)

    def _traceback(self, outcome: Outcome) -> str | None:
        text = outcome.result_json
        if text is None or not self._logger.isEnabledFor(logging.WARNING):
            return None
        traceback = stored_traceback(text)
        return None if traceback is None else mask(traceback)

    @staticmethod
    def _write(
        logger: logging.Logger, level: int, event: str, fields: dict[str, Any], error: BaseException | None = None
    ) -> None:
        if logger.isEnabledFor(level):
            shown = {name: fields[name] for name in _SHOWN if fields.get(name) is not None}
            extra = {"event": event, "fields": fields, **shown}
            logger.log(level, EventText(event, fields), extra=extra, exc_info=error)
