"""The sessions whose locks block ours, found without reading our tables, which may be locked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import HorsiesError
from horsies.domain.masking import mask
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted, span
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

_MAX_ROWS: Final = 5
_MAX_QUERY: Final = 80
# A statement may contain arguments of a task or a password; its keywords are enough to recognise it.
_LITERAL: Final = re.compile(r"'(?:[^']|'')*(?:'|$)|\$(\w*)\$.*?(?:\$\1\$|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session whose lock blocks others and that waits for no lock, in the statement's column order."""

    pid: int
    """The process id; 0 for a prepared transaction."""
    application: str | None
    role: str | None
    host: str | None
    state: str | None
    query: str | None
    """Its last statement; None without the right to see it."""
    open_since: datetime | None
    """Start of its transaction."""
    blocks_since: datetime | None
    """Time at which the first blocked session began to wait."""
    blocked: int
    """Number of sessions that wait, directly or behind others."""
    table: str | None
    """One of our tables for which a session waits."""
    started_at: datetime | None
    """Start of the session; with the pid it identifies the session."""
    now: datetime

    @property
    def name(self) -> str:
        """A name like `pid 4711`."""
        return f"pid {self.pid}" if self.pid else "a prepared transaction"

    @property
    def who(self) -> str:
        """The session in words, like `pid 4711 psql ops@bastion`."""
        owner = "@".join(filter(None, (self.role, self.host or "local"))) if self.pid else ""
        return clean(" ".join(filter(None, (self.name, self.application, owner))))

    @property
    def statement(self) -> str:
        """The words of its last statement, without the values in it."""
        return summary_of_statement(self.query)

    @property
    def cause(self) -> str:
        """A text like `blocked by pid 4711 psql ops@bastion, idle in transaction after LOCK TABLE horsies_tasks`."""
        doing = self.state or ("" if not self.pid else "with a statement that this role may not see")
        linked = "running" if self.state == "active" else f"{doing} after"
        doing = f"{linked} {self.statement}" if self.statement else doing
        return f"blocked by {self.who}{doing and ', '}{doing}"

    @property
    def sentence(self) -> str:
        """The finding in one line: how many sessions wait, for how long, and for whom."""
        waits = "" if self.blocks_since is None else f" for {span((self.now - self.blocks_since).total_seconds())}"
        on = f" on {self.table}" if self.table else ""
        opened = "" if self.open_since is None else f"; open for {span((self.now - self.open_since).total_seconds())}"
        return f"{counted(self.blocked, 'session')}{on} {self.cause}{waits and ','}{waits}{opened}"

    @property
    def remedy(self) -> str:
        """The command that ends the session."""
        if not self.pid:
            return "SELECT gid FROM pg_prepared_xacts, then ROLLBACK PREPARED or COMMIT PREPARED"
        return f"horsies sessions {self.way_out} {self.pid}"

    @property
    def way_out(self) -> str:
        """The verb that releases its lock: a running statement is cancelled, an idle session terminated."""
        return "cancel" if self.state == "active" else "terminate"


class BlockedError(HorsiesError):
    """The error for a statement that timed out because it waited for a lock of another session."""

    def __init__(self, found: Sequence[Blocker]) -> None:
        super().__init__(
            found[0].sentence,
            help_text=f"`{found[0].remedy}` ends it; `horsies sessions ls` lists all of them",
            notes=[one.sentence for one in found[1:]],
        )


async def blockers(conn: asyncpg.Connection, *, readers_only: bool = True) -> tuple[Blocker, ...]:
    """Read the sessions that block others, those that block most first; empty if no lock is the cause.

    `readers_only`: sessions that prevent reads of our tables, but not those for whose rows a worker waits.
    """
    return tuple(Blocker(*row) for row in await conn.fetch(statement(__name__, "blockers"), _MAX_ROWS, readers_only))


async def lock_holders(conn: asyncpg.Connection) -> tuple[Blocker, ...]:
    """Read the sessions that have locked one of our tables against readers or writers, even if no session waits."""
    return tuple(Blocker(*row) for row in await conn.fetch(statement(__name__, "lock_holders"), _MAX_ROWS))


def summary_of_statement(query: str | None) -> str:
    """Return the words of a statement on one line, without its values."""
    words = " ".join(clean(mask(_LITERAL.sub("'…'", query or ""))).split())
    return words if len(words) <= _MAX_QUERY else f"{words[: _MAX_QUERY - 1]}…"
