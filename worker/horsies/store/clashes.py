"""Errors that a guarded statement meets only by bad timing: asked again, it sees what the other has done."""

from __future__ import annotations

import asyncpg

CLASHES = (
    asyncpg.UniqueViolationError,  # the key was free when the statement began
    asyncpg.DeadlockDetectedError,
)
