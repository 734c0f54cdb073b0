"""Tasks that the database has claimed or started for this worker, and this worker does not know of."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from horsies.lifecycle.claiming import take_back_unlocked, unaccounted
from horsies.lifecycle.starting import start
from horsies.run.worker.in_flight import InFlightTask, Stage
from horsies.store.isolate_bad_rows import is_blocked

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg

    from horsies.lifecycle.claim_token import Token
    from horsies.run.events import Events
    from horsies.run.worker.claim_rules import ClaimRules
    from horsies.run.worker.task_flow import TaskFlow

_RELEASE_AGAIN_S = 5.0
_LOCKED_AGAIN_S = 0.5


class LostClaims:
    """Releases them: the reply of their statement was lost, or another session has locked their row.

    Before the next claim, because only then are all tokens of this worker known. All calls of `release` hold
    `Claimer.claiming`.
    """

    def __init__(self, rules: ClaimRules, flow: TaskFlow, events: Events) -> None:
        self._rules = rules
        self._flow = flow
        self._events = events
        self._due: list[float] = []
        """When to look for them."""

    @property
    def is_due(self) -> bool:
        return bool(self._due) and self._due[0] <= time.monotonic()

    @property
    def expected(self) -> bool:
        """True if a reply was just lost, so that no claim may be made before `release_due`."""
        return len(self._due) > 1

    def after(self, error: BaseException) -> None:
        """A statement has failed: look for its claims, unless the server has reported that nothing was claimed."""
        if not is_blocked(error):
            self.soon()

    def soon(self) -> None:
        """Look before the next claim, and once more later.

        The lost statement may still be running: the server notices that its connection is closed when it answers.
        """
        now = time.monotonic()
        self._due = [now, now + _RELEASE_AGAIN_S]
        asyncio.get_running_loop().call_later(_RELEASE_AGAIN_S, self._flow.claim.set)

    def after_locks(self) -> None:
        """Look later: they are in rows that other sessions have locked."""
        if not self._due:
            self._due = [time.monotonic() + _LOCKED_AGAIN_S]
            asyncio.get_running_loop().call_later(_LOCKED_AGAIN_S, self._flow.claim.set)

    async def release_due(self, connection: asyncpg.Connection) -> None:
        """Release them, and tasks that the starter gave up as locked."""
        returned, locked = await self.release(connection)
        del self._due[0]
        if locked:
            self.after_locks()
        if returned:
            reason = "their reply was lost, or their row was locked"
            self._events.warn("lost claims released", count=len(returned), reason=reason)

    async def release(self, connection: asyncpg.Connection) -> tuple[list[Token], Collection[Token]]:
        """Release tasks of claims and starts whose reply was lost, or that had to wait for a lock or a cap.

        A row whose execution has ended is not released: the database has lost the commit of its outcome (a standby that
        was behind took over, or the server crashed with synchronous_commit off), and the outcome is stored again, as
        soon as the cap has room for its start.
        """
        rules, tasks = self._rules, self._flow.tasks
        waiting: list[Token] = []
        for task, is_claimed in await unaccounted(connection, rules.worker_id, tasks.tokens()):
            if not tasks.recent.has_run(task.token):
                continue
            if is_claimed:  # its start was lost, too
                again = rules.start_of(task, os.getpid(), "lost commit")
                verdicts = await start(connection, rules.worker_id, [again], rules.caps_on_running)
                waiting += verdicts.waiting
                if task.token not in verdicts.started:
                    continue
            entry = InFlightTask(task, is_async=False, timeout_ms=None, requeue_on_interrupt=False, stage=Stage.RUNNING)
            tasks.add(entry)
            self._flow.outbox.commit_lost(entry, tasks.recent.outcome(task.token))
        kept = [*tasks.tokens(), *waiting]
        returned, locked = await take_back_unlocked(connection, rules.worker_id, kept)
        return returned, [*locked, *waiting]
