"""`horsies tasks stack`: what a running task is doing now, line by line."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from horsies.cli.acting import refuse_read_only
from horsies.cli.formatting import lasting
from horsies.cli.machine import plain
from horsies.cli.payload import Masks
from horsies.cli.tables import Screen, clean, cut, say
from horsies.cli.targets import ambiguous
from horsies.cli.verb_report import INTERRUPTED, NOTHING_MATCHED
from horsies.operations.actor import Actor
from horsies.operations.looking import Answer, Look, answer_to, ask_again, close, look_at
from horsies.operations.stack_lines import innermost, is_same, lines_of
from horsies.store.connect import open_database, with_settings
from horsies.views import READER_SETTINGS, Ambiguous, find_task
from horsies.views.workers import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.cli.reading import Connection
    from horsies.config.contexts import DatabaseChoice
    from horsies.operations.stack_lines import StackLine

_EVERY_S: Final = 1.0
_NO_ANSWER: Final = 1
_ENDED: Final = 3


def show_stack(
    choice: DatabaseChoice,
    text: str,
    names: list[str],
    *,
    variables: bool,
    follow: bool,
    reason: str | None,
    read_only: bool,
    as_json: bool,
) -> None:
    way_out = "it writes a question to the worker, and to the audit trail: use a session that may write"
    refuse_read_only(choice, "tasks stack", way_out, asked=read_only)
    shown = Shown(Masks.of(names), Screen.of(sys.stdout), as_json=as_json)

    async def work() -> int:
        async with (
            open_database(choice) as database,
            database.connected("tasks stack", settings=READER_SETTINGS) as connection,
        ):
            task_id = await _whole_id(connection, text)
            if task_id is None:
                say(f"no task has the id {text}, or one that begins or ends so", stream=sys.stderr)
                return NOTHING_MATCHED
            async with with_settings(connection):
                look = await look_at(connection, Actor.current(), task_id, with_locals=variables, reason=reason)
            try:
                return await _watch(connection, look, shown, follow=follow)
            finally:
                async with with_settings(connection):
                    await close(connection, look)

    try:
        raise typer.Exit(asyncio.run(work()))
    except KeyboardInterrupt:
        raise typer.Exit(0 if follow else INTERRUPTED) from None


async def _whole_id(connection: Connection, text: str) -> str | None:
    async with with_settings(connection):
        found = await find_task(connection, text)
    if isinstance(found, Ambiguous):
        raise ambiguous(found)
    return found


async def _watch(connection: Connection, look: Look, shown: Shown, *, follow: bool) -> int:
    while True:
        async with with_settings(connection):
            answer = await answer_to(connection, look)
        code = shown.show(look, answer)
        if not follow or not answer.holds:
            return code
        await asyncio.sleep(_EVERY_S)
        async with with_settings(connection):
            await ask_again(connection, look)


class Shown:
    """What has been printed so far: a stack is printed again only if it has changed."""

    def __init__(self, masks: Masks, screen: Screen, *, as_json: bool) -> None:
        self._masks = masks
        self._screen = screen
        self._as_json = as_json
        self._last: Mapping[str, Any] | None = None
        self._since: datetime | None = None
        self._unchanged = False

    def show(self, look: Look, answer: Answer) -> int:
        """Returns the exit code, if it is the last one."""
        stack = self._masks.on(answer.stack)
        if self._as_json:
            typer.echo(json.dumps(plain(_report(look, answer, stack))))
        elif stack is None or "problem" in stack or not answer.holds:
            self._end_line()
            say(_why_not(look, answer, stack), stream=sys.stderr)
        elif self._last is not None and is_same(stack, self._last):
            self._say_unchanged(answer.now)
        else:
            self._print(look, answer, stack)
        if stack is None:
            return _NO_ANSWER
        return _ENDED if "problem" in stack or not answer.holds else 0

    def _print(self, look: Look, answer: Answer, stack: Mapping[str, Any]) -> None:
        self._end_line()
        for line in (_head(look, answer, stack), *self._lines(stack)):
            say(line)
        self._last, self._since = stack, answer.now

    def _lines(self, stack: Mapping[str, Any]) -> list[str]:
        lines = lines_of(stack, self._last)
        width = max((len(line.place) for line in lines if not line.thread), default=0)
        return [text for line in lines for text in self._line(line, width)]

    def _line(self, line: StackLine, width: int) -> list[str]:
        screen = self._screen
        if line.thread:
            return ["", clean(line.place)]
        text = clean(f"{'*' if line.changed else ' '} {line.place:<{width}}  {line.function}  {line.source}")
        text = text if screen.width is None else cut(text, screen.width, screen)
        variables = [f"      {clean(name)} = {json.dumps(value)}" for name, value in (line.variables or {}).items()]
        return [screen.paint(text, "" if line.is_users else "dim"), *variables]

    def _say_unchanged(self, now: datetime) -> None:
        if self._screen.width is not None and self._since is not None:
            self._unchanged = True
            print(f"\r  unchanged for {lasting(now - self._since)} ", end="", flush=True)

    def _end_line(self) -> None:
        if self._unchanged:
            self._unchanged = False
            print()


def _head(look: Look, answer: Answer, stack: Mapping[str, Any]) -> str:
    ran = f" for {lasting(answer.now - look.started_at)}" if look.started_at is not None else ""
    line = innermost(stack)
    where = "" if line is None else f": in {line.function}, {line.place}"
    by = "; C code holds the interpreter" if stack.get("how") == "interpreter" else ""
    place = place_of(look.worker_id, None, stack.get("pid"))
    return clean(f"{look.task_name} runs{ran} on {place}{where}{by}")


def _why_not(look: Look, answer: Answer, stack: Mapping[str, Any] | None) -> str:
    if not answer.holds:
        now = f"it is {answer.status} now" if answer.status else "its row is gone"
        return f"{look.worker_id} no longer holds task {look.task_id}: {now}"
    if stack is not None:
        return f"{look.worker_id} shows no stack of task {look.task_id}: {stack['problem']}"
    silent = "was never" if answer.silent_for is None else f"{lasting(answer.silent_for)} ago"
    return f"{look.worker_id} has not answered; its last sign of life was {silent}"


def _report(look: Look, answer: Answer, stack: Any) -> dict[str, Any]:
    return {
        "now": answer.now,
        "task_id": look.task_id,
        "task_name": look.task_name,
        "worker_id": look.worker_id,
        "claimed_at": look.claimed_at,
        "started_at": look.started_at,
        "status": answer.status,
        "holds": answer.holds,
        "silent_for": answer.silent_for,
        "answered_at": answer.at,
        "stack": stack,
    }
