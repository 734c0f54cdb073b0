"""Sessions of the server as targets of verbs, to end a session with a lock that blocks ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.domain.quantities import span
from horsies.findings.blockers import summary_of_statement
from horsies.operations.audit_rows import apply_order
from horsies.operations.target import Target
from horsies.operations.verb import Preview, Refusal
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.target import RowOutcome
    from horsies.operations.verb import Options, SessionVerb

WRITES: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session of the server, or the reason why there is none, in the column order of the statement."""

    pid: str
    application: str | None
    role: str | None
    host: str | None
    state: str | None
    query: str | None
    open_since: datetime | None
    started_at: datetime | None
    refusal: str | None
    now: datetime

    @property
    def since(self) -> datetime | None:
        """The session's start; with the pid it identifies the session."""
        return self.started_at

    @property
    def label(self) -> str:
        owner = "@".join(filter(None, (self.role, self.host or "local")))
        return " ".join(filter(None, (self.pid, self.application, owner)))

    @property
    def words(self) -> str:
        if self.started_at is None:
            return "there is no such session"
        opened = "" if self.open_since is None else f" for {span((self.now - self.open_since).total_seconds())}"
        last = summary_of_statement(self.query)
        return f"{self.state or 'its state is hidden'}{opened}{last and ': '}{last}"


async def preview_of(conn: asyncpg.Connection, verb: SessionVerb, selection: Selection, options: Options) -> Preview:
    sessions = await _read(conn, selection.ids)
    refusals = [(one, _refusal(verb, one)) for one in sessions]
    eligible = tuple(_target(one) for one, why in refusals if why is None)
    return Preview(
        verb=verb,
        options=options,
        eligible=eligible,
        refused=tuple(Refusal(_target(one), why) for one, why in refusals if why is not None),
        consequences=(verb.effect,) if eligible else (),
        command=verb.command(selection.ids, options),
        taken_at=sessions[0].now,
    )


async def change(
    conn: asyncpg.Connection, action: OperatorAction, verb: SessionVerb, part: Sequence[Target]
) -> list[RowOutcome]:
    only_active = [verb.only_active] * len(part)
    return await apply_order(
        conn, action, statement(__name__, "end_sessions"), part, _states, only_active, guarded=True
    )


async def _read(conn: asyncpg.Connection, pids: Sequence[str]) -> list[SessionFacts]:
    return [SessionFacts(*row) for row in await conn.fetch(statement(__name__, "session_facts"), pids)]


async def _states(conn: asyncpg.Connection, pids: Sequence[str]) -> dict[str, str]:
    return {one.pid: one.words for one in await _read(conn, pids)}


def _refusal(verb: SessionVerb, session: SessionFacts) -> str | None:
    if session.refusal is None and verb.only_active and session.state != "active":
        return f"it runs no statement ({session.state}): terminate ends the session"
    return session.refusal


def _target(session: SessionFacts) -> Target:
    return Target("session", session.pid, session.label, session.words, session)
