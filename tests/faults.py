"""Real faults at a chosen statement of a real database: it fails, or blocks until it is released or its backend killed.

async with fault(connection, FaultPoint.status("CLAIMED", "RUNNING"), FaultAction.BLOCK) as blocked:
    ...                                  # send a task to a worker
    (backend,) = await blocked.reached() # its start is blocked in the middle of its statement
    os.kill(worker_pid, signal.SIGKILL)

A fault is a trigger, so it sees every row that any session writes. It is removed at the end of the block.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final

import asyncpg

_LOCK: Final = 0x68_6F_72_73  # the first key of all faults' locks
_LOOK_S: Final = 0.005
_PATIENCE_S: Final = 20.0
_BROKEN_DISK: Final = "58030"

_WAITING: Final = """
SELECT activity.pid, activity.application_name, activity.query
  FROM pg_locks held
  JOIN pg_stat_activity activity ON activity.pid = held.pid
 WHERE held.locktype = 'advisory' AND held.objsubid = 2 AND NOT held.granted
   AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND held.classid = $1::integer::oid AND held.objid = $2::integer::oid
 ORDER BY activity.query_start
"""
"""The backends that are blocked at a fault; $1, $2: the keys of its lock."""
_STRIKE: Final = """
CREATE FUNCTION strike() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
DECLARE
    -- A sequence, because it keeps its count when the transaction is rolled back.
    hit bigint := nextval(TG_ARGV[0]::regclass);
BEGIN
    IF hit BETWEEN TG_ARGV[1]::bigint AND TG_ARGV[2]::bigint THEN
        CASE TG_ARGV[3]
            WHEN 'block' THEN
                PERFORM pg_advisory_xact_lock_shared(TG_ARGV[4]::integer, TG_ARGV[5]::integer);
            WHEN 'fail' THEN
                RAISE EXCEPTION 'a fault of the test' USING ERRCODE = TG_ARGV[6];
        END CASE;
    END IF;
    RETURN NEW;
END
$$
"""
"""The trigger's arguments: the counting sequence, first and last number to strike, action, the two keys of the lock,
SQLSTATE. A blocked statement waits without end, whatever the lock timeout of its session."""


class FaultAction(Enum):
    """The effect on the statement."""

    BLOCK = "block"
    """It blocks until the fault is released, and keeps all its locks."""
    FAIL = "fail"
    """It gets an error, by default one that means a broken disk."""


class FaultMoment(Enum):
    """The point in the execution of the statement."""

    BEFORE = "BEFORE"
    """The row has not been changed."""
    AFTER = "AFTER"
    """The row has been changed, and so have all others of the statement."""
    COMMIT = "COMMIT"
    """The statement is done, its transaction about to be committed."""


@dataclass(frozen=True, slots=True)
class FaultPoint:
    """The writes and rows concerned. `when` is an SQL condition over NEW and, except for INSERT, OLD."""

    table: str
    event: str
    when: str = "true"
    moment: FaultMoment = FaultMoment.AFTER

    @classmethod
    def status(cls, old: str, *new: str, moment: FaultMoment = FaultMoment.AFTER) -> FaultPoint:
        """A task changes from one status to (one of) the others."""
        changes = ", ".join(f"'{status}'" for status in new)
        return cls("horsies_tasks", "UPDATE", f"OLD.status = '{old}' AND NEW.status IN ({changes})", moment)


@dataclass(frozen=True, slots=True)
class Backend:
    """A server process that is blocked at a fault; `application_name` identifies its owner: `horsies worker finish`."""

    pid: int
    application_name: str
    query: str


class Fault:
    """An active fault."""

    def __init__(self, connection: asyncpg.Connection, point: FaultPoint, number: int) -> None:
        self._connection = connection
        self._point = point
        self._number = number
        self._schema = f"horsies_fault_{number}"
        self._holds = False

    async def reached(self, count: int = 1) -> list[Backend]:
        """The blocked backends, as soon as there are this many; TimeoutError after 20 s."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                rows = await self._connection.fetch(_WAITING, _LOCK, self._number)
                if len(rows) >= count:
                    return [Backend(*row) for row in rows]
                await asyncio.sleep(_LOOK_S)

    async def kill(self) -> None:
        """Terminate the blocked backends."""
        for backend in await self.reached():
            await self._connection.execute("SELECT pg_terminate_backend($1, 5000)", backend.pid)

    async def release(self) -> None:
        """Let the blocked backends and all later ones continue."""
        if self._holds:
            self._holds = False
            await self._connection.execute("SELECT pg_advisory_unlock($1, $2)", _LOCK, self._number)

    async def place(self, action: FaultAction, first: int, last: int, sqlstate: str) -> None:
        """All or nothing; everything but the trigger is in a schema of its own, and is dropped with it."""
        if action is FaultAction.BLOCK:
            await self._connection.execute("SELECT pg_advisory_lock($1, $2)", _LOCK, self._number)
            self._holds = True
        arguments = (f"{self._schema}.hits", first, last, action.value, _LOCK, self._number, sqlstate)
        listed = ", ".join(f"'{argument}'" for argument in arguments)
        point = self._point
        deferred = point.moment is FaultMoment.COMMIT
        async with self._connection.transaction():
            await self._connection.execute(f"CREATE SCHEMA {self._schema}")
            await self._connection.execute(f"CREATE SEQUENCE {self._schema}.hits")
            await self._connection.execute(
                "SELECT set_config('search_path', $1 || ', ' || current_setting('search_path'), true)", self._schema
            )
            await self._connection.execute(_STRIKE)
            await self._connection.execute(
                f"CREATE {'CONSTRAINT' if deferred else ''} TRIGGER {self._schema}"
                f" {'BEFORE' if point.moment is FaultMoment.BEFORE else 'AFTER'} {point.event} ON {point.table}"
                f" {'DEFERRABLE INITIALLY DEFERRED' if deferred else ''} FOR EACH ROW WHEN ({point.when})"
                f" EXECUTE FUNCTION {self._schema}.strike({listed})"
            )

    async def remove(self) -> None:
        await self.release()
        async with self._connection.transaction():
            # First the table's lock: every writer holds that one before it uses our sequence.
            await self._connection.execute(f"DROP TRIGGER IF EXISTS {self._schema} ON {self._point.table}")
            await self._connection.execute(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")


@asynccontextmanager
async def fault(
    connection: asyncpg.Connection,
    point: FaultPoint,
    action: FaultAction,
    *,
    nth: int = 1,
    times: int = 1,
    sqlstate: str = _BROKEN_DISK,
) -> AsyncIterator[Fault]:
    """Strike the `nth` row that matches `point`, and `times` in all; all others pass.

    `connection` is an asyncpg connection of the test's own; while a BLOCK is active it must not write to rows that the
    blocked statement has locked. `sqlstate` is the error of a FAIL: "53100" is a full disk, "40P01" a deadlock.
    """
    placed = Fault(connection, point, random.getrandbits(30))
    try:
        await placed.place(action, nth, nth + times - 1, sqlstate)
        yield placed
    finally:
        await placed.remove()
