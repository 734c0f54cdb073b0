"""Errors of a guarded statement that another session has caused: if it is repeated, it sees the changes of that one."""

from __future__ import annotations

import asyncpg

CLASHES = (
    asyncpg.UniqueViolationError,  # the key was free when the statement began
    asyncpg.DeadlockDetectedError,
)
