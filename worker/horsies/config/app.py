"""The configuration of an application, checked as a whole."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field, SkipValidation

from horsies.config.recovery import RecoveryConfig
from horsies.config.rules import CheckedModel, broken, in_child_process
from horsies.config.schedule import Schedule, ScheduleConfig
from horsies.config.url import DatabaseUrl
from horsies.domain.codes import why_not_a_code
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.masking import mask
from horsies.domain.plain_text import why_not_a_queue_name

if TYPE_CHECKING:
    from collections.abc import Iterator


class PostgresConfig(CheckedModel):
    """One database and the size of the pool in front of it.

    `postgresql://`, `postgresql+psycopg://` and `postgresql+asyncpg://` name the same database, several hosts and
    sockets included; `embedded:///path` names a server of our own in that directory, and `embedded://name` in a
    directory of that name below HORSIES_HOME or the data directory of the account.
    """

    database_url: str
    """`postgresql://`, several hosts and sockets included, `embedded:///path`, or `embedded://name`."""
    pool_pre_ping: bool = True
    """Replace a lost connection of the pool without an error for the caller."""
    pool_size: int = 30
    """Number of connections that the pool keeps."""
    max_overflow: int = 30
    """Number of connections that it opens in addition while they are needed."""
    pool_timeout: int = 30
    """Seconds that a caller waits for a connection."""
    pool_recycle: int = 1800
    """Seconds after which a connection is replaced."""
    echo: bool = False
    """Log each statement."""
    durable: bool = True
    """Wait until sends, starts and outcomes are on the disk, even if synchronous_commit of the server is off.

    False leaves it to the server. Where synchronous_commit is off, commits are faster, but a crash of the server loses
    the last ones.
    """

    def broken_rules(self) -> Iterable[ConfigurationError]:
        try:
            DatabaseUrl.parse(self.database_url)
        except ConfigurationError as error:
            yield error

    @property
    def url(self) -> DatabaseUrl:
        return DatabaseUrl.parse(self.database_url)

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        """Mask the password: pydantic builds repr() and str() from this, which logs may show."""
        for name, value in super().__repr_args__():
            yield name, mask(value) if name == "database_url" and isinstance(value, str) else value


class WorkerResilienceConfig(CheckedModel):
    """Waits of a worker. Retry delays double from initial to max; polling replaces lost notifications."""

    rules_stand_alone = True

    db_retry_initial_ms: int = Field(default=500, ge=100, le=60_000)
    """Milliseconds before the first retry after a failure of the database; each further wait is twice as long."""
    db_retry_max_ms: int = Field(default=30_000, ge=500, le=300_000)
    """Longest wait between two retries, in milliseconds."""
    db_retry_max_attempts: int = Field(default=0, ge=0, le=10_000)
    """Number of failures after which a worker that starts exits; 0 for never."""
    notify_poll_interval_ms: int = Field(default=5_000, ge=1_000, le=300_000)
    """Milliseconds between two polls for tasks, in case a notification was lost."""

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if self.db_retry_max_ms < self.db_retry_initial_ms:
            yield broken(
                ErrorCode.CONFIG_INVALID_RESILIENCE,
                f"db_retry_max_ms={self.db_retry_max_ms} is below db_retry_initial_ms={self.db_retry_initial_ms}",
                "delays grow from initial to max: raise db_retry_max_ms or lower db_retry_initial_ms",
            )


ExceptionMapper: TypeAlias = dict[type[BaseException], str]


def mapper_problems(mapper: object) -> Iterable[ConfigurationError]:
    """Yield each entry of a mapper that could never match or would store a malformed code."""
    if not isinstance(mapper, Mapping):
        yield _mapper_problem(f"exception_mapper is {type(mapper).__name__}, not a dict of exception classes to codes")
        return
    for key, code in mapper.items():
        if not (isinstance(key, type) and issubclass(key, BaseException)):
            yield _mapper_problem(f"exception_mapper key {key!r} is not an exception class")
        if reason := _why_not_a_code(code):
            yield _mapper_problem(f"exception_mapper value for {getattr(key, '__name__', key)}: {reason}")


def default_code_problems(code: object) -> Iterable[ConfigurationError]:
    """Yield the reason why `code` cannot be the code of unhandled exceptions, if there is one."""
    if reason := _why_not_a_code(code):
        yield _mapper_problem(f"default_unhandled_error_code: {reason}")


def _why_not_a_code(code: object) -> str | None:
    return why_not_a_code(code) if isinstance(code, str) else f"{code!r} is not a string"


_mapper_problem = partial(
    broken,
    ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER,
    help_text='write codes like "TIMEOUT": exception_mapper={TimeoutError: "TIMEOUT"}',
)
_queue_problem = partial(broken, ErrorCode.CONFIG_INVALID_QUEUE_MODE)
_cap_problem = partial(broken, ErrorCode.CONFIG_INVALID_CLUSTER_CAP)
_lease_problem = partial(broken, ErrorCode.CONFIG_INVALID_PREFETCH)


DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY: Final = 100
"""The priority in an application without queues of its own."""


class QueueMode(Enum):
    DEFAULT = "default"
    CUSTOM = "custom"


class CustomQueueConfig(CheckedModel):
    """One queue: priority 1 is served first; max_concurrency counts over the whole cluster."""

    name: str
    """Name of the queue, as tasks use it."""
    priority: int = Field(default=1, ge=1, le=100)
    """Priority of the queue; 1 is served first."""
    max_concurrency: int = Field(default=5, ge=1)
    """Maximum number of tasks of this queue that run at the same time on all workers together."""

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if reason := why_not_a_queue_name(self.name):
            yield _queue_problem(reason, "shorten CustomQueueConfig(name=…)")


DEFAULT_CLAIM_LEASE_MS = 60_000


class AppConfig(CheckedModel):
    """The configuration of one `Horsies` application."""

    rules_stand_alone = True

    broker: PostgresConfig
    """Database of the application."""
    queue_mode: QueueMode = QueueMode.DEFAULT
    """One queue for everything, or the queues of `custom_queues`."""
    custom_queues: list[CustomQueueConfig] | None = None
    """Queues of the application; only with QueueMode.CUSTOM."""
    default_queue: str | None = None
    """With QueueMode.CUSTOM, the queue of tasks that name none; None: each task must name one."""
    cluster_wide_cap: int | None = None
    """Maximum number of tasks that run at the same time on all workers together; None for no cap."""
    prefetch_buffer: int = 0
    """Number of tasks that a worker claims beyond those that it can run, so that the next one is ready."""
    claim_lease_ms: int | None = None
    """Milliseconds that a claimed task may wait for a child process before other workers may take it.

    None: 60,000, or twice recovery.claimer_heartbeat_interval_ms if that is more.
    """
    max_claim_renew_age_ms: int = 180_000
    """Maximum age, in milliseconds, of an unstarted claim that is still renewed; raised to a longer default lease."""
    recovery: RecoveryConfig = Field(default_factory=RecoveryConfig)
    """Rules for lost tasks, and how long history is kept."""
    resilience: WorkerResilienceConfig = Field(default_factory=WorkerResilienceConfig)
    """Delays with which a worker waits for its database."""
    schedule: ScheduleConfig | None = None
    """Schedules: tasks and workflows that are sent at fixed times."""
    exception_mapper: Annotated[ExceptionMapper, SkipValidation] = Field(default_factory=dict)
    """Error codes of exceptions that tasks raise, by the class of the exception."""
    default_unhandled_error_code: Annotated[str, SkipValidation] = "UNHANDLED_EXCEPTION"
    """Error code of all other exceptions."""
    resend_on_transient_err: bool = False
    """Retry a send or a start up to three times after a transient failure; it is stored once."""
    raise_send_errors: bool = False
    """Raise SendFailedError for a failed send; otherwise it is logged and returned as an Err."""
    failed_send_aborts: bool = True
    """Let a failed send inside the caller's transaction (`connection=`) abort that transaction, too."""
    requeue_on_interrupt: bool = False
    """Requeue tasks that a shutdown interrupted, unless the task has its own setting."""
    unknown_tasks: Literal["leave", "fail"] = "leave"
    """Handling of waiting tasks whose name a worker does not know: leave them to other workers, or fail them."""
    allow_looks: bool = True
    """Allow operators to see the Python stacks of running tasks, with local variables on request."""
    failed_output_bytes: int = Field(default=4_096, ge=0, le=65_536)
    """Bytes of the last output that are kept with an attempt that failed, crashed or was stopped; 0 keeps nothing."""
    version: str | None = Field(default=None, min_length=1, max_length=100)
    """Version of the application, a release or a commit, by which Activity and the charts mark a deployment."""
    requeue_pending: bool = True
    """Always true: waiting tasks are rows in PostgreSQL and survive any shutdown."""

    def model_post_init(self, _context: object) -> None:
        if self.claim_lease_ms is None and "max_claim_renew_age_ms" not in self.model_fields_set:
            self.__dict__["max_claim_renew_age_ms"] = max(self.max_claim_renew_age_ms, self.effective_claim_lease_ms)

    @property
    def effective_claim_lease_ms(self) -> int:
        if self.claim_lease_ms is not None:
            return self.claim_lease_ms
        return max(DEFAULT_CLAIM_LEASE_MS, 2 * self.recovery.claimer_heartbeat_interval_ms)

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if self.version is not None and not self.version.isprintable():
            yield ConfigurationError(
                f"version is {self.version!r}, which is not printable", help_text='name a release: version="1.4.2"'
            )
        yield from self._queue_rules()
        yield from self._cap_rules()
        yield from self._lease_rules()
        yield from mapper_problems(self.exception_mapper)
        yield from default_code_problems(self.default_unhandled_error_code)
        if not self.requeue_pending:
            yield ConfigurationError(
                "requeue_pending=False is not supported: waiting tasks are rows in PostgreSQL and survive a shutdown",
                help_text="remove it; to drop tasks that are too old, send them with good_until",
            )

    @property
    def enabled_schedules(self) -> list[Schedule]:
        """The schedules that a scheduler sends."""
        config = self.schedule
        return [] if config is None or not config.enabled else [one for one in config.schedules if one.enabled]

    @property
    def schedule_interval_s(self) -> float:
        """Seconds between two checks for due schedules."""
        return 1.0 if self.schedule is None else float(self.schedule.check_interval_seconds)

    def _queue_rules(self) -> Iterable[ConfigurationError]:
        names = [queue.name for queue in self.custom_queues or ()]
        if self.queue_mode is QueueMode.DEFAULT:
            for setting in ("default_queue", "custom_queues"):
                if getattr(self, setting) is not None:
                    yield _queue_problem(
                        f"{setting} is set, but queue_mode is DEFAULT",
                        f"set queue_mode=QueueMode.CUSTOM, or remove {setting}",
                    )
            return
        if not names:
            yield _queue_problem(
                "queue_mode is CUSTOM, but custom_queues is empty",
                'define at least one: custom_queues=[CustomQueueConfig(name="mail")]',
            )
        elif self.default_queue is not None and self.default_queue not in names:
            yield _queue_problem(
                f"default_queue {self.default_queue!r} is not one of custom_queues",
                f"choose one of {', '.join(names)}, or add it to custom_queues",
            )
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            yield _queue_problem(
                f"custom_queues has more than one queue named {', '.join(twice)}", "give every queue its own name"
            )

    def _cap_rules(self) -> Iterable[ConfigurationError]:
        cap = self.cluster_wide_cap
        if cap is not None and cap <= 0:
            yield _cap_problem(
                f"cluster_wide_cap={cap} would let no task run", "set it to 1 or more, or to None for no cap"
            )
        if cap is not None and self.prefetch_buffer > 0:
            yield _cap_problem(
                f"cluster_wide_cap={cap} cannot be combined with prefetch_buffer={self.prefetch_buffer}",
                "set prefetch_buffer=0, or remove cluster_wide_cap",
                "a worker claims prefetched tasks in addition to those that run, so the cap would be exceeded",
            )

    def _lease_rules(self) -> Iterable[ConfigurationError]:
        if self.prefetch_buffer < 0:
            yield _lease_problem(f"prefetch_buffer={self.prefetch_buffer} is negative", "set it to 0 or more")
        if self.prefetch_buffer > 0 and self.claim_lease_ms is None:
            yield _lease_problem(
                f"prefetch_buffer={self.prefetch_buffer} needs claim_lease_ms",
                "set claim_lease_ms, for example 60000: how long a claimed task may wait before other workers take it",
            )
        lease, beat = self.effective_claim_lease_ms, self.recovery.claimer_heartbeat_interval_ms
        if lease <= 0:
            yield _lease_problem(f"claim_lease_ms={lease} is not above 0", f"set it to at least {2 * beat}")
        elif lease < 2 * beat:
            yield _lease_problem(
                f"claim_lease_ms={lease} is below twice claimer_heartbeat_interval_ms={beat}",
                f"each beat renews the lease: set claim_lease_ms to at least {2 * beat}",
            )
        if self.max_claim_renew_age_ms < max(lease, 1):
            yield _lease_problem(
                f"max_claim_renew_age_ms={self.max_claim_renew_age_ms} is below the claim lease of {lease} ms",
                f"set max_claim_renew_age_ms to at least {max(lease, 1)}",
            )

    def log_config(self, logger: logging.Logger | None = None) -> None:
        """Log one INFO record with every setting, passwords masked; silent in a worker's child processes."""
        if in_child_process():
            return
        (logger or logging.getLogger("horsies")).info("AppConfig: %s", self)
