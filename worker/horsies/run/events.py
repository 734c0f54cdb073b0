"""The worker's log: one record per event, readable for people, complete for machines."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any, TextIO

from horsies.domain.masking import mask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.domain.errors import HorsiesError

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


class Events:
    """Names and levels of all events, and the counters of the status line."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger(LOGGER_NAME)
        self.finished = 0
        self.failed = 0
        self.retried = 0
        self.stale = 0

    def started(self, task_id: str, task_name: str, child: int) -> None:
        self._tell(logging.DEBUG, "started", task=task_name, id=task_id, child=child)

    def task_finished(self, task_id: str, task_name: str, duration_s: float) -> None:
        self.finished += 1
        self._tell(logging.INFO, "finished", task=task_name, id=task_id, took=Seconds(duration_s))

    def task_failed(self, task_id: str, task_name: str, code: str | None, message: str | None) -> None:
        self.failed += 1
        self._tell(logging.WARNING, "failed", task=task_name, id=task_id, code=code, message=message)

    def task_retried(self, task_id: str, task_name: str, code: str | None, delay_s: float, attempt: int) -> None:
        self.retried += 1
        self._tell(
            logging.WARNING,
            "retry",
            task=task_name,
            id=task_id,
            code=code,
            due_in=Seconds(delay_s),
            failed_attempts=attempt,
        )

    def task_interrupted(self, task_id: str, task_name: str, *, requeued: bool) -> None:
        self._tell(logging.WARNING, "interrupted", task=task_name, id=task_id, now="PENDING" if requeued else "FAILED")

    def task_expired(self, task_id: str, task_name: str) -> None:
        self._tell(logging.WARNING, "expired", task=task_name, id=task_id)

    def claim_lost(self, task_id: str, task_name: str, doing: str) -> None:
        self.stale += 1
        self._tell(logging.WARNING, "lost claim", task=task_name, id=task_id, doing=doing)

    def outcome_refused(self, task_id: str, task_name: str, error: Exception) -> None:
        """The database rejects an outcome; it is kept, and sent again from time to time."""
        words = mask(f"{type(error).__name__}: {error}".split("\n", 1)[0])
        self._tell(logging.ERROR, "outcome refused", task=task_name, id=task_id, error=words)

    def outcome_waits(self, task_id: str, task_name: str, holder: str) -> None:
        """Its row is locked by another session; it is sent again until it can be stored."""
        self._tell(logging.WARNING, "outcome waits for a lock", task=task_name, id=task_id, locked_by=holder)

    def start_waits(self, task_id: str, task_name: str, holder: str) -> None:
        """Its row is locked by another session; the task is released when the lock ends."""
        self._tell(logging.WARNING, "start waits for a lock", task=task_name, id=task_id, locked_by=holder)

    def outcome_lost(self, task_id: str, task_name: str) -> None:
        """The worker ends without having stored it."""
        self._tell(logging.ERROR, "outcome lost", task=task_name, id=task_id)

    def child_exited(self, index: int, pid: int, how: str, tasks: int) -> None:
        level = logging.ERROR if tasks else logging.INFO
        self._tell(level, "crashed" if tasks else "child exited", child=index, pid=pid, how=how, tasks=tasks)

    def output(self, child: int, task_id: str | None, stream: str, line: str) -> None:
        self._tell(logging.INFO, stream, child=child, id=task_id, line=line)

    def loop_failed(self, name: str, error: Exception, failures: int, delay_s: float, *, transient: bool) -> None:
        """The first failure in a row is logged with its traceback, later ones in a line."""
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

    def blocked(self, name: str, error: Exception) -> None:
        """A lock or a full disk prevents writes. Logged once; unblocked() is the end."""
        words = mask(f"{type(error).__name__}: {error}".split("\n", 1)[0])
        self._tell(logging.WARNING, "cannot write", loop=name, error=words)

    def unblocked(self, after_s: float) -> None:
        self._tell(logging.WARNING, "writes again", after=Seconds(after_s))

    def loop_stuck(self, name: str, since_s: float) -> None:
        self._tell(logging.ERROR, "loop stuck", loop=name, since=Seconds(since_s))

    def loop_recovered(self, name: str, failures: int) -> None:
        self._tell(logging.INFO, "loop recovered", loop=name, after_failures=failures)

    def scheduled(self, schedule: str, task_id: str, *, tasks: int, next_at: datetime) -> None:
        more = {"tasks": tasks} if tasks > 1 else {}
        self._tell(
            logging.INFO, "scheduled", schedule=schedule, id=task_id, next=f"{next_at:%Y-%m-%dT%H:%M:%S}Z", **more
        )

    def waiting_for_database(self, error: HorsiesError, delay_s: float) -> None:
        self._tell(logging.WARNING, "waiting for the database", reason=error.message, again_in=Seconds(delay_s))

    def swept(self, text: str, *, changed: int, **counts: Any) -> None:
        """One record for each sweep, so that the log shows that sweeps run; at DEBUG if nothing was to do."""
        self._tell(logging.INFO if changed else logging.DEBUG, text, **counts)

    def note(self, text: str, **fields: Any) -> None:
        self._tell(logging.INFO, text, **fields)

    def warn(self, text: str, **fields: Any) -> None:
        self._tell(logging.WARNING, text, **fields)

    def _tell(self, level: int, event: str, **fields: Any) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


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
            name: value for name, value in fields.items() if value is not None and name not in ("task", "id", "line")
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
