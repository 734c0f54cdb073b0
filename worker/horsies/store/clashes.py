"""Errors of a guarded statement that a concurrent session has caused: repeated, it sees that session's changes."""

from __future__ import annotations

import asyncpg

CLASHES = (
    asyncpg.UniqueViolationError,  # the key was free when the statement began
    asyncpg.DeadlockDetectedError,
)
