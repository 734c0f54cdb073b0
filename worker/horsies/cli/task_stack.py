"""`horsies tasks stack`: what a running task is doing now, line by line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from horsies.cli.looking import ENDED, NO_ANSWER, report, watch
from horsies.display.formatting import lasting
from horsies.display.json_output import print_json
from horsies.display.payload import Masks
from horsies.display.stack_lines import innermost, is_same, lines_of
from horsies.display.terminal import Screen, cut, rewrite, say
from horsies.domain.plain_text import clean
from horsies.operations.looking import why_no_more
from horsies.views.workers import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.config.contexts import DatabaseChoice
    from horsies.display.stack_lines import StackLine
    from horsies.operations.looking import Answer, StackRequest

_EVERY_S: Final = 1.0


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
