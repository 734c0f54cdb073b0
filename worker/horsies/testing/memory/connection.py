"""A connection to the rows in memory: the statements of the engine are answered by functions of the same names."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from horsies.store.connect import DatabaseUnavailable
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from horsies.testing.memory.stored_rows import Record, Rows

    Answer: TypeAlias = Callable[..., Sequence[Record] | None]

T = TypeVar("T")

ANSWERS: dict[str, Answer] = {}


def answers(module: str) -> Callable[[Answer], Answer]:
    """The function below answers the statement of its name in the SQL file of that module."""

    def add(answer: Answer) -> Answer:
        ANSWERS[statement(module, answer.__name__)] = answer
        return answer

    return add


def run_now(work: Awaitable[T]) -> T:
    """The result of a coroutine that waits for nothing, as those on a MemoryConnection; it needs no event loop."""
    try:
        next(work.__await__())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"{work!r} waits for something")


def no_database() -> DatabaseUnavailable:
    return DatabaseUnavailable(
        "inside inline() there is no database",
        help_text="sends, workflows and their handles work here; for the rest use embedded_database() of"
        " horsies.testing, or the fixture horsies_db",
        transient=False,
    )


class MemoryConnection:
    """The part of asyncpg's connection that the engine uses. Nothing here waits: coroutines end at their first step."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._depth = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[MemoryConnection]:
        """The connection for one use; user code must not run inside."""
        with self.rows.lock:
            yield self

    async def fetch(self, query: str, *parameters: Any) -> Sequence[Record]:
        answer = ANSWERS.get(query)
        if answer is None:
            raise no_database()
        return answer(self.rows, *parameters) or ()

    async def fetchrow(self, query: str, *parameters: Any) -> Record | None:
        return next(iter(await self.fetch(query, *parameters)), None)

    async def fetchval(self, query: str, *parameters: Any) -> Any:
        row = await self.fetchrow(query, *parameters)
        return None if row is None else row[0]

    async def execute(self, query: str, *parameters: Any) -> None:
        await self.fetch(query, *parameters)

    def transaction(self, **_options: Any) -> AbstractAsyncContextManager[None]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        begin = len(self.rows.changes)
        self._depth += 1
        try:
            yield
        except BaseException:
            self.rows.undo(begin)
            raise
        finally:
            self._depth -= 1
            if not self._depth:
                self.rows.changes.clear()
