"""Sequences of dependent statements, each of which needs the rows of the one before."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

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
