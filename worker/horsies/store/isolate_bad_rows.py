"""Large changes in small transactions, in which a bad row fails alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import asyncpg

from horsies.domain.errors import HorsiesError
from horsies.store.connect import DatabaseUnavailable, is_transient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence


CLASHES = (
    asyncpg.UniqueViolationError,  # the key was free when the statement began
    asyncpg.DeadlockDetectedError,
)


T = TypeVar("T")
R = TypeVar("R")

# These errors concern the server or this process, and would be the same for each single row.
_NOT_ABOUT_A_ROW = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InsufficientResourcesError,  # includes a full disk
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.SyntaxOrAccessError,
    DatabaseUnavailable,
)

# The server answers, on a sound connection, that it cannot write at the moment.
_BLOCKED = (asyncpg.LockNotAvailableError, asyncpg.DiskFullError)

# Reading rows that an operator or another program has stored, with any content, may raise any of these errors.
ROW_ERRORS = (HorsiesError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True)
class RejectedItem(Generic[T]):
    """An item that the database rejected, and the error message."""

    item: T
    error: str


@dataclass(frozen=True, slots=True)
class BatchAnswers(Generic[T, R]):
    """The answers to all batches (or parts of them) that succeeded, and the rejected items."""

    answers: list[R]
    refused: list[RejectedItem[T]]


def batches_of(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[first : first + size] for first in range(0, len(items), size))


async def isolate_bad_rows(
    batches: Iterable[Sequence[T]],
    act: Callable[[Sequence[T]], Awaitable[R]],
    *,
    damage: tuple[type[Exception], ...] = (),
) -> BatchAnswers[T, R]:
    """Run each batch; one that fails is repeated item by item. Raises only errors that are not caused by an item.

    `damage`: errors, besides the database's rejections, that an item can cause.
    """
    done: BatchAnswers[T, R] = BatchAnswers([], [])
    for batch in batches:
        try:
            done.answers.append(await act(batch))
        except (asyncpg.PostgresError, *damage) as error:
            if not is_about_a_row(error):
                raise
            for item in batch:
                try:
                    done.answers.append(await act([item]))
                except (asyncpg.PostgresError, *damage) as its_error:
                    if not is_about_a_row(its_error):
                        raise
                    done.refused.append(RejectedItem(item, f"{type(its_error).__name__}: {its_error}"))
    return done


def is_about_a_row(error: Exception) -> bool:
    """Return whether the error may be caused by one row among many that the statement touched."""
    return not isinstance(error, _NOT_ABOUT_A_ROW)


def is_about_one_row(error: Exception) -> bool:
    """Return whether the error is permanent and caused by certain rows of the batch."""
    return is_about_a_row(error) and not is_transient(error)


def is_blocked(error: BaseException) -> bool:
    """Return whether a lock or a full disk kept the server from writing.

    The connection is still usable, and the lock may end at any moment: a growing delay, as for a server that is down,
    is of no use.
    """
    return isinstance(error, _BLOCKED)
