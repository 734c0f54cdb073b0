"""The application's connection to PostgreSQL, and the delays with which a worker waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from horsies.config.rules import CheckedModel
from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.masking import mask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class PostgresConfig(CheckedModel):
    """One database and the size of the pool in front of it.

    `postgresql://`, `postgresql+psycopg://` and `postgresql+asyncpg://` name the same database, several hosts and
    sockets included; `embedded:///path` names a server of our own in that directory, and `embedded://name` in a
    directory of that name below HORSIES_HOME or the data directory of the account.
    """

    database_url: str
    """`postgresql://`, several hosts and sockets included, `embedded:///path`, or `embedded://name`."""
    pool_pre_ping: bool = True
    """Whether a pooled connection that was lost is replaced without an error for the caller."""
    pool_size: int = 30
    """The connections that the pool keeps."""
    max_overflow: int = 30
    """The connections that it opens beyond that while they are needed."""
    pool_timeout: int = 30
    """How many seconds a caller waits for a connection."""
    pool_recycle: int = 1800
    """After how many seconds a connection is replaced."""
    echo: bool = False
    """Whether statements are logged."""
    durable: bool = True
    """Sends, starts and outcomes that were confirmed are on the disk, even if the server's synchronous_commit is off.

    False leaves that to the server: faster there, and what was confirmed in the last moments before a crash is lost.
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
        """pydantic builds repr() and str() from this: the password must not get into a log that way."""
        for name, value in super().__repr_args__():
            yield name, mask(value) if name == "database_url" and isinstance(value, str) else value


class WorkerResilienceConfig(CheckedModel):
    """Retry delays double from initial to max; 0 attempts means for ever. Polling backs up lost notifications."""

    rules_stand_alone = True

    db_retry_initial_ms: int = Field(default=500, ge=100, le=60_000)
    """The first wait after a failure of the database; each further one is twice as long."""
    db_retry_max_ms: int = Field(default=30_000, ge=500, le=300_000)
    """The longest wait."""
    db_retry_max_attempts: int = Field(default=0, ge=0, le=10_000)
    """After how many failures the start of a worker gives up; 0 for never."""
    notify_poll_interval_ms: int = Field(default=5_000, ge=1_000, le=300_000)
    """How often a worker looks for tasks without a notification."""

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if self.db_retry_max_ms < self.db_retry_initial_ms:
            yield ConfigurationError(
                f"db_retry_max_ms={self.db_retry_max_ms} is below db_retry_initial_ms={self.db_retry_initial_ms}",
                code=ErrorCode.CONFIG_INVALID_RESILIENCE,
                help_text="delays grow from initial to max: raise db_retry_max_ms or lower db_retry_initial_ms",
            )
