"""Errors that a guarded statement gets only by bad timing: if repeated, it sees the changes of the other session."""

from __future__ import annotations

import asyncpg

CLASHES = (
    asyncpg.UniqueViolationError,  # the key was free when the statement began
    asyncpg.DeadlockDetectedError,
)
