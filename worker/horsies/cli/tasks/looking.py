"""`horsies tasks stack` and `horsies tasks logs`: questions to the worker that runs a task, and its answers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NoReturn

import typer

from horsies.cli.options import INTERRUPTED, NOTHING_MATCHED
from horsies.cli.reading import no_such_id
from horsies.cli.verbs.acting import refuse_writes
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
from horsies.store.connect import open_database, with_settings
from horsies.views import READER_SETTINGS, Ambiguous, find_task
from horsies.views.workers import place_of

NO_ANSWER: Final = 1
ENDED: Final = 3
_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class LookOptions:
    """The options of `tasks stack` and `tasks logs`. `task_id` may be the begin or the end of an id."""

    choice: DatabaseChoice
    task_id: str
    follow: bool
    reason: str | None
    read_only: bool
    as_json: bool


def show_logs(asked: LookOptions) -> NoReturn:
    """Print what the task writes; ends the command with its exit code."""
    screen = Screen.of(sys.stdout)
    _look(asked, "output", lambda _look, _answer, found: _print_logs(found or {}, screen), Masks())


def show_stack(asked: LookOptions, names: list[str], *, variables: bool) -> NoReturn:
    """Print the task's stack; ends the command with its exit code. `names`: what is hidden in local variables."""
    _look(asked, "stack", _PrintedStack(Screen.of(sys.stdout)).show, Masks.of(names), variables=variables)


def _look(
    asked: LookOptions,
    kind: Literal["stack", "output"],
    show: Callable[[StackRequest, Answer, Any], None],
    masks: Masks,
    *,
    variables: bool = False,
) -> NoReturn:
    command = "tasks stack" if kind == "stack" else "tasks logs"
    way_out = "it writes a question to the worker, and to the audit log: use a session that may write"
    refuse_writes(asked.choice, command, way_out, asked=asked.read_only)

    def on_answer(look: StackRequest, answer: Answer) -> None:
        found = masks.on(answer.found)
        if asked.as_json:
            print_json(_report(look, answer) | {kind: found}, on_one_line=True, is_stored=True)
            return
        show(look, answer, found)
        if answer.is_last:
            say(why_no_more(look, answer), stream=sys.stderr)

    async def work() -> int:
        async with (
            open_database(asked.choice) as database,
            database.connected(command, settings=READER_SETTINGS) as connection,
        ):
            async with with_settings(connection):
                task_id = await find_task(connection, asked.task_id)
            if isinstance(task_id, Ambiguous):
                raise ambiguous_task(task_id)
            if task_id is None:
                say(no_such_id("task", asked.task_id), stream=sys.stderr)
                return NOTHING_MATCHED
            actor = Actor.current()
            given: dict[str, Any] = {"with_locals": variables, "reason": asked.reason}
            async with with_settings(connection):
                look = await look_at(connection, actor, task_id, kind, **given)
            try:
                while True:
                    async with with_settings(connection):
                        answer = await answer_to(connection, look)
                        behind = await look_behind(connection, actor, look, answer, **given)
                    if behind is not None:
                        look = behind
                        continue
                    on_answer(look, answer)
                    if answer.is_last or not asked.follow:
                        return _exit_code(answer)
                    await asyncio.sleep(_EVERY_S)
                    async with with_settings(connection):
                        await ask_again(connection, look, after=(answer.found or {}).get("last", 0))
            finally:
                async with with_settings(connection):
                    await close(connection, look)

    try:
        raise typer.Exit(asyncio.run(work()))
    except KeyboardInterrupt:
        raise typer.Exit(0 if asked.follow else INTERRUPTED) from None


def _exit_code(answer: Answer) -> int:
    if answer.found is None and answer.holds:
        return NO_ANSWER
    return ENDED if answer.is_last else 0


def _report(look: StackRequest, answer: Answer) -> dict[str, Any]:
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
    }


def _print_logs(found: Mapping[str, Any], screen: Screen) -> None:
    if found.get("left_out"):
        say(screen.paint(f"{screen.glyph('…', '...')} {counted(found['left_out'], 'line')} left out", "dim"))
    for _, time, stream, line in found.get("lines", ()):
        at = f"{datetime.fromtimestamp(time, UTC):%H:%M:%S.%f}"[:-3]
        say(f"{screen.paint(at, 'dim')} {screen.paint(clean(line), 'yellow' if stream == 'stderr' else '')}")
    if "last" in found and not found["last"]:
        say(screen.paint("nothing written yet", "dim"), stream=sys.stderr)


class _PrintedStack:
    """The output so far: a stack is printed again only if it has changed."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last: Mapping[str, Any] | None = None
        self._since: datetime | None = None
        self._unchanged = False

    def show(self, look: StackRequest, answer: Answer, stack: Any) -> None:
        if answer.is_last:
            self._end_line()
        elif self._last is not None and is_same(stack, self._last):
            self._say_unchanged(answer.now)
        else:
            self._print(look, answer, stack)

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
