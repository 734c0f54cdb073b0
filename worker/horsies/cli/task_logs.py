"""`horsies tasks logs`: what a running task prints and logs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from horsies.cli.looking import ENDED, NO_ANSWER, report, watch
from horsies.display.json_output import print_json
from horsies.display.terminal import Screen, say
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted
from horsies.operations.looking import why_no_more

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice
    from horsies.operations.looking import Answer, StackRequest

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
