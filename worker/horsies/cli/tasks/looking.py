"""`horsies tasks stack` and `horsies tasks logs`: questions to the worker that runs a task, and its answers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import typer

from horsies.cli.verbs.acting import refuse_writes
from horsies.cli.verbs.report import INTERRUPTED, NOTHING_MATCHED
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import lasting
from horsies.display.json_output import print_json
from horsies.display.payload import Masks
from horsies.display.stack_lines import StackLine, innermost, is_same, lines_of
from horsies.display.terminal import Screen, cut, rewrite, say
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted
from horsies.operations.looking import (
    Answer,
    StackRequest,
    answer_to,
    ask_again,
    close,
    look_at,
    look_behind,
    why_no_more,
)
from horsies.operations.named_targets import ambiguous_task
from horsies.operations.target import Actor
from horsies.store.connect import Connection, open_database, with_settings
from horsies.views import READER_SETTINGS, Ambiguous, find_task
from horsies.views.workers import place_of

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
    refuse_writes(choice, command, way_out, asked=read_only)

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


_EVERY_S: Final = 0.5


def show_logs(
    choice: DatabaseChoice, text: str, *, follow: bool, reason: str | None, read_only: bool, as_json: bool
) -> None:
    screen = Screen.of(sys.stdout)

    def show(look: StackRequest, answer: Answer) -> int:
        found = answer.found
        if as_json:
            print_json(report(look, answer, "output", found), on_one_line=True, is_stored=True)
        else:
            _print(answer, screen)
            if answer.is_last:
                say(why_no_more(look, answer), stream=sys.stderr)
        if found is None and answer.holds:
            return NO_ANSWER
        return ENDED if answer.is_last else 0

    every_s = _EVERY_S if follow else None
    watch(choice, text, "output", show, every_s=every_s, reason=reason, read_only=read_only)


def _print(answer: Answer, screen: Screen) -> None:
    found = answer.found or {}
    if found.get("left_out"):
        say(screen.paint(f"{screen.glyph('…', '...')} {counted(found['left_out'], 'line')} left out", "dim"))
    for _, time, stream, line in found.get("lines", ()):
        at = f"{datetime.fromtimestamp(time, UTC):%H:%M:%S.%f}"[:-3]
        say(f"{screen.paint(at, 'dim')} {screen.paint(clean(line), 'yellow' if stream == 'stderr' else '')}")
    if "last" in found and not found["last"]:
        say(screen.paint("nothing written yet", "dim"), stream=sys.stderr)


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
    shown = PrintedStack(Masks.of(names), Screen.of(sys.stdout), as_json=as_json)
    every_s = _EVERY_S if follow else None
    watch(choice, text, "stack", shown.show, every_s=every_s, reason=reason, read_only=read_only, variables=variables)


class PrintedStack:
    """The output so far: a stack is printed again only if it has changed."""

    def __init__(self, masks: Masks, screen: Screen, *, as_json: bool) -> None:
        self._masks = masks
        self._screen = screen
        self._as_json = as_json
        self._last: Mapping[str, Any] | None = None
        self._since: datetime | None = None
        self._unchanged = False

    def show(self, look: StackRequest, answer: Answer) -> int:
        """Returns the exit code, if it is the last one."""
        stack = self._masks.on(answer.found)
        if self._as_json:
            print_json(report(look, answer, "stack", stack), on_one_line=True, is_stored=True)
        elif answer.is_last:
            self._end_line()
            say(why_no_more(look, answer), stream=sys.stderr)
        elif self._last is not None and is_same(stack, self._last):
            self._say_unchanged(answer.now)
        else:
            self._print(look, answer, stack)
        if stack is None and answer.holds:
            return NO_ANSWER
        return ENDED if answer.is_last else 0

    def _print(self, look: StackRequest, answer: Answer, stack: Mapping[str, Any]) -> None:
        self._end_line()
        notes = [clean(stack["note"])] if "note" in stack else []
        if look.starved is not None:
            notes.insert(0, clean(f"{look.starved} has not begun: {look.task_id} has its place"))
        say(*(_head(look, answer, stack), *notes, *self._lines(stack)))
        self._last, self._since = stack, answer.now

    def _lines(self, stack: Mapping[str, Any]) -> list[str]:
        lines = lines_of(stack, self._last)
        width = max((len(line.place) for line in lines if not line.thread), default=0)
        return [text for line in lines for text in self._line(line, width)]

    def _line(self, line: StackLine, width: int) -> list[str]:
        screen = self._screen
        if line.thread:
            return ["", clean(line.place)]
        text: str = clean(f"{'*' if line.changed else ' '} {line.place:<{width}}  {line.function}  {line.source}")
        text = text if screen.width is None else cut(text, screen.width, screen)
        variables = [f"      {clean(name)} = {json.dumps(value)}" for name, value in (line.variables or {}).items()]
        return [screen.paint(text, "" if line.is_users else "dim"), *variables]

    def _say_unchanged(self, now: datetime) -> None:
        if self._screen.width is not None and self._since is not None:
            self._unchanged = True
            rewrite(f"  unchanged for {lasting(now - self._since)} ", stream=sys.stdout)

    def _end_line(self) -> None:
        if self._unchanged:
            self._unchanged = False
            say("")


def _head(look: StackRequest, answer: Answer, stack: Mapping[str, Any]) -> str:
    ran = f" for {lasting(answer.now - look.started_at)}" if look.started_at is not None else ""
    line = innermost(stack)
    where = "" if line is None else f": in {line.function}, {line.place}"
    place = place_of(look.worker_id, None, stack.get("pid"))
    return clean(f"{look.task_name} runs{ran} on {place}{where}")
