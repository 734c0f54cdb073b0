"""The rows of a batch that other sessions have locked; used after a lock timeout, so that the others can be stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.lifecycle.claim_token import claim_times, ids, in_order
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg

    from horsies.lifecycle.claim_token import Token


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The session that has locked a row; both fields are None if it could not be determined."""

    pid: int | None
    application_name: str | None

    def __str__(self) -> str:
        return "unknown" if self.pid is None else f"pid {self.pid} ({self.application_name or 'no name'})"


async def locked_rows(conn: asyncpg.Connection, worker_id: str, tokens: Collection[Token]) -> dict[Token, LockHolder]:
    """Those of these executions whose rows are locked at this moment, each with the session that holds the lock."""
    asked = in_order(tokens)
    if not asked:
        return {}
    rows = await conn.fetch(statement(__name__, "locked_rows"), worker_id, ids(asked), claim_times(asked))
    return {asked[number - 1]: LockHolder(pid, name) for number, pid, name in rows}
