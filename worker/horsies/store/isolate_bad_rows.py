"""Large changes in small transactions, in which one bad row costs itself and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import asyncpg

from horsies.domain.errors import HorsiesError
from horsies.store.connect import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

T = TypeVar("T")
R = TypeVar("R")

# These say something about the server or about us, and would say it again of each single row.
_NOT_ABOUT_A_ROW = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InsufficientResourcesError,  # a full disk among them
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.SyntaxOrAccessError,
    DatabaseUnavailable,
)


# The server answers, on a sound connection, that it cannot write for now.
_BLOCKED = (asyncpg.LockNotAvailableError, asyncpg.DiskFullError)

# What was stored by hand or by another program may have any shape, and reading it may fail in any of these ways.
ROW_ERRORS = (HorsiesError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True)
class Refused(Generic[T]):
    """What the database would not do, and its words."""

    item: T
    error: str


@dataclass(frozen=True, slots=True)
class Done(Generic[T, R]):
    """The answers to all batches, or parts of batches, that went through, and what did not."""

    answers: list[R]
    refused: list[Refused[T]]


async def isolate_bad_rows(
    batches: Iterable[Sequence[T]],
    act: Callable[[Sequence[T]], Awaitable[R]],
    *,
    damage: tuple[type[Exception], ...] = (),
) -> Done[T, R]:
    """Each batch by itself; one that fails is done again item by item. Raises only what is not the fault of an item.

    `damage`: what else, besides the database's refusals, is the fault of one.
    """
    done: Done[T, R] = Done([], [])
    for batch in batches:
        try:
            done.answers.append(await act(batch))
        except (asyncpg.PostgresError, *damage) as error:
            if not is_about_a_row(error):
                raise
            await _one_by_one(batch, act, done, damage)
    return done


def is_about_a_row(error: Exception) -> bool:
    """Whether it may be the fault of one row among many that the statement touched."""
    return not isinstance(error, _NOT_ABOUT_A_ROW)


def is_blocked(error: BaseException) -> bool:
    """Whether a lock or a full disk kept the server from writing.

    The connection is as good as before, and the lock may be gone at any moment: waiting ever longer, as for a server
    that is down, gains nothing.
    """
    return isinstance(error, _BLOCKED)


async def _one_by_one(
    batch: Sequence[T],
    act: Callable[[Sequence[T]], Awaitable[R]],
    done: Done[T, R],
    damage: tuple[type[Exception], ...],
) -> None:
    for item in batch:
        try:
            done.answers.append(await act([item]))
        except (asyncpg.PostgresError, *damage) as error:
            if not is_about_a_row(error):
                raise
            done.refused.append(Refused(item, f"{type(error).__name__}: {error}"))
