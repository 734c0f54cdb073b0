"""A look at a running task from the command line: opened, asked again, and closed whatever happens."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import typer

from horsies.cli.acting import refuse_read_only
from horsies.cli.verb_report import INTERRUPTED, NOTHING_MATCHED
from horsies.display.terminal import say
from horsies.operations.actor import Actor
from horsies.operations.looking import Answer, StackRequest, answer_to, ask_again, close, look_at, look_behind
from horsies.operations.named_targets import ambiguous_task
from horsies.store.connect import open_database, with_settings
from horsies.views import READER_SETTINGS, Ambiguous, find_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from horsies.config.contexts import DatabaseChoice
    from horsies.store.connect import Connection

NO_ANSWER: Final = 1
ENDED: Final = 3


def watch(
    choice: DatabaseChoice,
    text: str,
    kind: Literal["stack", "output"],
    show: Callable[[StackRequest, Answer], int],
    *,
    every_s: float | None,
    reason: str | None,
    read_only: bool,
    variables: bool = False,
) -> None:
    """Ask and show, once or again and again. `show` returns the exit code, if the answer is the last one.

    Raises typer.Exit.
    """
    command = "tasks stack" if kind == "stack" else "tasks logs"
    way_out = "it writes a question to the worker, and to the audit trail: use a session that may write"
    refuse_read_only(choice, command, way_out, asked=read_only)

    async def work() -> int:
        async with (
            open_database(choice) as database,
            database.connected(command, settings=READER_SETTINGS) as connection,
        ):
            task_id = await _whole_id(connection, text)
            if task_id is None:
                say(f"no task has the id {text}, or one that begins or ends so", stream=sys.stderr)
                return NOTHING_MATCHED
            given = _Given(Actor.current(), variables, reason)
            async with with_settings(connection):
                look = await look_at(connection, given.actor, task_id, kind, with_locals=variables, reason=reason)
            return await _watch(connection, look, given, show, every_s)

    try:
        raise typer.Exit(asyncio.run(work()))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED if every_s is None else 0) from None


def report(look: StackRequest, answer: Answer, name: str, found: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the object for --json."""
    return {
        "now": answer.now,
        "task_id": look.task_id,
        "task_name": look.task_name,
        "starved": look.starved,
        "worker_id": look.worker_id,
        "claimed_at": look.claimed_at,
        "started_at": look.started_at,
        "status": answer.status,
        "holds": answer.holds,
        "silent_for": answer.silent_for,
        "answered_at": answer.at,
        name: found,
    }


async def _whole_id(connection: Connection, text: str) -> str | None:
    async with with_settings(connection):
        found = await find_task(connection, text)
    if isinstance(found, Ambiguous):
        raise ambiguous_task(found)
    return found


@dataclass(frozen=True, slots=True)
class _Given:
    """The person who looks, and the options: for a second look, at the task in the place of the first."""

    actor: Actor
    variables: bool
    reason: str | None


async def _watch(
    connection: Connection,
    look: StackRequest,
    given: _Given,
    show: Callable[[StackRequest, Answer], int],
    every_s: float | None,
) -> int:
    try:
        while True:
            async with with_settings(connection):
                answer = await answer_to(connection, look)
                behind = await look_behind(
                    connection, given.actor, look, answer, with_locals=given.variables, reason=given.reason
                )
            if behind is not None:
                look = behind
                continue
            code = show(look, answer)
            if every_s is None or answer.is_last:
                return code
            await asyncio.sleep(every_s)
            known = answer.found["last"] if answer.found is not None and "last" in answer.found else 0
            async with with_settings(connection):
                await ask_again(connection, look, after=known)
    finally:
        async with with_settings(connection):
            await close(connection, look)
