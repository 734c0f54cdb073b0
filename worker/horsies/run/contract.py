"""The contract between the worker and its children: how to start a child, its jobs, and their results."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from horsies.domain.codes import StopCode
from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.run.guard import clock

if TYPE_CHECKING:
    from horsies.config.recovery import RecoveryConfig
    from horsies.domain.trace import RunContext

# Plain texts: marshal, by which the worker and its children talk, takes no members of an enum.
TASK_TIMEOUT = StopCode.TASK_TIMEOUT.value
TASK_INTERRUPTED = StopCode.TASK_INTERRUPTED.value

Stream: TypeAlias = Literal["stdout", "stderr"]
LogRecord: TypeAlias = "tuple[int, str, str, str | None, dict[str, Any], bool]"
"""A record of user code: level, logger, text, traceback, its other fields, and whether its own handler has formatted
the text."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Times in ms after the last confirmation: user code is stopped, is killed, and the run counts as crashed."""

    stop_ms: int
    kill_ms: int
    threshold_ms: int
    beat_ms: int

    @classmethod
    def of(cls, recovery: RecoveryConfig) -> LeaseTerms:
        return cls(
            recovery.run_stopped_after_ms,
            recovery.run_killed_after_ms,
            recovery.running_stale_threshold_ms,
            recovery.runner_heartbeat_interval_ms,
        )

    def spared_from(self, moment: int) -> int:
        """Return the start of the lease of a run that was alive at a moment when no worker could beat.

        No sweep counts it as stale before this lease expires: after a long gap sweeps leave runs that were silent
        during it (horsies_spare_period); after a shorter one (up to horsies_harmless_gap) the rest of the threshold
        remains, less an interval and a quarter in which this worker may not have beaten before the gap.
        """
        gap_ms = max(self.threshold_ms - 2 * self.beat_ms, self.threshold_ms / 4)
        left_ms = self.threshold_ms - gap_ms - 1.25 * min(self.beat_ms, self.stop_ms / 3)
        return moment + int((min(left_ms, 1.25 * self.beat_ms) - self.kill_ms) * 1_000_000)

    @property
    def late_ns(self) -> int:
        """Age of the confirmation of a new run above which the guard must check at once: its alarm is set for later."""
        return (self.threshold_ms - self.kill_ms) * 250_000

    def is_over(self, confirmed_at: int) -> bool:
        """Return whether user code has been stopped."""
        return clock() >= confirmed_at + self.stop_ms * 1_000_000

    def over(self, confirmed_at: int) -> str:
        """Return why a run with this lease was stopped."""
        silent_s = (clock() - confirmed_at) / 1e9
        return (
            f"no heartbeat of this run was stored for {silent_s:.1f} s, so it was stopped before another worker may"
            f" take it over (running_stale_threshold_ms={self.threshold_ms})"
        )


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """The settings of one child. `title` is what `ps` shows while it is idle: `horsies: child 3 of web-1`."""

    locator: str
    index: int
    async_concurrency: int
    max_tasks: int | None
    title: str
    log_level: int
    terms: LeaseTerms
    database_url: str | None = field(default=None, repr=False)
    """The worker's, for what tasks send; None leaves the application its own."""
    start_timeout_s: float = 60.0
    waits_fd: int | None = None
    """The memory of SiblingWaits, a record for each child; None counts no other child."""


@dataclass(frozen=True, slots=True)
class KnownTask:
    """The facts of a task that a worker needs to claim and run it; all else is known to its children alone."""

    is_async: bool
    timeout_ms: int | None
    requeue_on_interrupt: bool | None


def task_id_of(key: str) -> str:
    return key.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Job:
    """One execution of one task. `timeout_ms` counts from the start of the user's code.

    `key` is unique among the jobs of a child: the task's id, or the id, a slash and a suffix that makes it unique.
    """

    key: str
    task_name: str
    args: str | None
    kwargs: str | None
    timeout_ms: int | None = None
    context: RunContext = ("default", 1, None)
    sent_at: float | None = None
    good_until: float | None = None
    """In seconds, as `sent_at`."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """The end of a job; `result_json` is ready for its column, code and message are its parts for theirs.

    `began`: the task's code was called, or may have been. A job that was stopped before can run again in any worker.
    """

    status: Literal["ok", "err"]
    result_json: str
    error_code: str | None
    error_message: str | None
    duration_s: float
    began: bool = True
    span: str | None = None
    """The traceparent of the run, if it was traced."""


@dataclass(frozen=True, slots=True)
class ChildExit:
    """The end of a child. `started` jobs were lost with it; `waiting` ones never reached user code.

    `cause` is why it was killed, if the worker knows.
    """

    returncode: int
    started: tuple[str, ...]
    waiting: tuple[str, ...]
    cause: str = ""

    @property
    def reason(self) -> str:
        """`killed by SIGSEGV`, `exit code 3`, `killed by SIGKILL: why`."""
        if self.returncode >= 0:
            end = f"exit code {self.returncode}"
        elif -self.returncode in set(signal.Signals):
            end = f"killed by {signal.Signals(-self.returncode).name}"
        else:
            end = f"killed by signal {-self.returncode}"
        return f"{end}: {self.cause}" if self.cause else end


class ChildFailed(HorsiesError):  # noqa: N818 - what happened to the child, not a mistake of the caller
    """A child did not become ready: its app cannot be imported, or it died or hung during the import."""

    default_code = ErrorCode.MODULE_EXEC_ERROR
