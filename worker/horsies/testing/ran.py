"""The outcomes of the executions that a test has requested."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Ran:
    """Executions by their outcome; after a `retried` one the task waits for its next try."""

    completed: int = 0
    failed: int = 0
    retried: int = 0
    expired: int = 0

    def __add__(self, other: Ran) -> Ran:
        return Ran(*map(sum, zip(astuple(self), astuple(other), strict=True)))
