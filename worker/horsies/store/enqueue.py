"""Inserts tasks: one or many, on connections of the engine or inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import asyncpg

from horsies.domain.codec import parse_json
from horsies.domain.retry import RetryRule
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime


T = TypeVar("T")

Row: TypeAlias = Sequence[Any]
Steps: TypeAlias = Generator[tuple[str, tuple[Any, ...]], Sequence[Row], T]
"""Yields a statement with its parameters, receives its rows, and returns the result."""


class Fetches(Protocol):
    """A connection of asyncpg, or of a caller."""

    async def fetch(self, query: str, /, *parameters: Any) -> Sequence[Row]: ...


async def drive(connection: Fetches, steps: Steps[T]) -> T:
    """Run the steps on this connection."""
    try:
        query, parameters = next(steps)
        while True:
            query, parameters = steps.send(await connection.fetch(query, *parameters))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


class EnqueueRequest(NamedTuple):
    """One row to insert; `max_retries` comes from `task_options`. Always built with keywords.

    It is due at once, or `delay_seconds` after the database's clock at the send, or at `enqueued_at`. A tuple is built
    in 0.6 µs, a frozen dataclass in 2: a tenth of the cost of a row of a bulk send.
    """

    task_id: str
    task_name: str
    enqueue_sha: str
    sent_at: datetime
    queue_name: str = "default"
    priority: int = 100
    args_json: str | None = None
    kwargs_json: str | None = None
    task_options: str | None = None
    good_until: datetime | None = None
    enqueued_at: datetime | None = None
    delay_seconds: float | None = None
    unique_key: str | None = None
    """At most one task of this name with this key is PENDING, CLAIMED or RUNNING at a time."""

    def columns(self) -> tuple[Any, ...]:
        """Return the columns in the order of the statements' parameters; CodecError if task_options is not JSON."""
        return (*_COLUMNS(self), _max_retries(self.task_options))


_COLUMNS = attrgetter(
    *("task_id", "task_name", "enqueue_sha", "sent_at", "queue_name", "priority", "args_json", "kwargs_json"),
    *("task_options", "good_until", "unique_key", "enqueued_at", "delay_seconds"),
)


class EnqueueOutcome(Enum):
    CREATED = "created"
    SAME = "the same send was stored before"
    MISMATCH = "another task has this id"
    LIVE_DUPLICATE = "a live task of this name has this unique key"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The result of one request. `task_id` is the task that exists for it: its own, or the live one with its key."""

    task_id: str
    outcome: EnqueueOutcome
    args_json: str | None = None
    kwargs_json: str | None = None
    """With `args_json` the arguments of the live duplicate, which may differ from those of the request."""


async def enqueue_one(connection: asyncpg.Connection, request: EnqueueRequest) -> Enqueued:
    """Insert one task. Needs a connection without an open transaction, as `enqueue_many`."""
    return await drive(connection, one(request, in_callers=False))


async def enqueue_many(connection: asyncpg.Connection, requests: Sequence[EnqueueRequest]) -> list[Enqueued]:
    """Insert all in one statement, or none if one of them is refused; returns their results in order.

    Needs a connection without an open transaction: ids that exist already are detected by a failed statement.
    """
    if (alike := _alike(requests)) is not None and requests[0].unique_key is None:
        with suppress(asyncpg.UniqueViolationError):
            await connection.execute(statement(__name__, "enqueue_alike"), *alike)
            return [Enqueued(request.task_id, EnqueueOutcome.CREATED) for request in requests]
    return await drive(connection, many(requests, in_callers=False))


def one(request: EnqueueRequest, *, in_callers: bool = True) -> Steps[Enqueued]:
    """Return `enqueue_one` as steps, for any kind of connection, inside the caller's transaction."""
    columns = request.columns()
    while not (yield statement(__name__, "enqueue_one"), columns):
        (taken,) = yield from _find_holders([request], in_callers=in_callers)
        if taken is not None:
            return taken
    return Enqueued(request.task_id, EnqueueOutcome.CREATED)


def many(requests: Sequence[EnqueueRequest], *, in_callers: bool = True) -> Steps[list[Enqueued]]:
    """Return `enqueue_many` as steps, for any kind of connection, also inside the caller's transaction."""
    became: dict[int, Enqueued] = {}
    left = dict(enumerate(requests))
    while left:
        # Of requests with the same id only the first is inserted: the answer would not tell which one it was.
        places = sorted({request.task_id: place for place, request in reversed(left.items())}.values())
        batch = {place: left.pop(place) for place in places}
        created = {row[0] for row in (yield _insertion(batch.values()))}
        for place in places:
            if batch[place].task_id in created:
                became[place] = Enqueued(batch.pop(place).task_id, EnqueueOutcome.CREATED)
        if batch:
            found = yield from _find_holders(batch.values(), in_callers=in_callers)
            for (place, request), taken in zip(batch.items(), found, strict=True):
                if taken is not None:
                    became[place] = taken
                else:
                    left[place] = request
    return [became[place] for place in range(len(requests))]


# Costs 1.3 µs a row, so it is added only after an insert without it has failed.
_SKIP_CONFLICTS = "ON CONFLICT DO NOTHING RETURNING id"

_OWN = attrgetter("task_id", "enqueue_sha", "sent_at", "args_json", "kwargs_json")
_SHARED = attrgetter(
    *("task_name", "queue_name", "priority", "task_options", "good_until", "unique_key", "enqueued_at", "delay_seconds")
)


def _insertion(requests: Collection[EnqueueRequest]) -> tuple[str, tuple[Any, ...]]:
    if (alike := _alike(requests)) is not None:
        return statement(__name__, "enqueue_alike") + _SKIP_CONFLICTS, alike
    columns = zip(*(request.columns() for request in requests), strict=True)
    return statement(__name__, "enqueue_many"), tuple(map(list, columns))


def _alike(requests: Collection[EnqueueRequest]) -> tuple[Any, ...] | None:
    """Return the arguments of enqueue_alike; None if the requests differ in more than their arguments."""
    shared = set(map(_SHARED, requests))
    if len(shared) != 1:
        return None
    (once,) = shared
    own = map(list, zip(*map(_OWN, requests), strict=True))
    return (*own, *once, _max_retries(once[3]))


def _find_holders(requests: Collection[EnqueueRequest], *, in_callers: bool) -> Steps[list[Enqueued | None]]:
    """Return why an insert omitted each request. None: the task that had its key has ended since, so insert again."""
    asked = zip(*((request.task_id, request.task_name, request.unique_key) for request in requests), strict=True)
    rows = yield statement(__name__, "enqueue_conflicts"), (*map(list, asked), in_callers)
    return [_taken(request, *row) for request, row in zip(requests, rows, strict=True)]


def _taken(
    request: EnqueueRequest, sha: str | None, holder: str | None, args_json: str | None, kwargs_json: str | None
) -> Enqueued | None:
    if sha is not None:
        same = sha == request.enqueue_sha
        return Enqueued(request.task_id, EnqueueOutcome.SAME if same else EnqueueOutcome.MISMATCH)
    if request.unique_key is None:
        # Its id existed a moment ago: it has been sent, has run and has been pruned.
        return Enqueued(request.task_id, EnqueueOutcome.SAME)
    return None if holder is None else Enqueued(holder, EnqueueOutcome.LIVE_DUPLICATE, args_json, kwargs_json)


@lru_cache(maxsize=256)
def _max_retries(task_options: str | None) -> int:
    rule = None if task_options is None else RetryRule.from_stored(parse_json(task_options, "task_options"))
    return 0 if rule is None else rule.max_retries
