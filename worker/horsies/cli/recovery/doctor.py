"""`horsies doctor`: is the database well?"""

from __future__ import annotations

import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Final

import typer

from horsies.cli.database import DatabaseOptions
from horsies.cli.options import ApplicationOption, ContextOption, DatabaseUrlOption, DebugOption, JsonOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.config.app import AppConfig
    from horsies.config.contexts import DatabaseChoice
    from horsies.display.terminal import Screen
    from horsies.doctor.examine import Examination

_MARKS: Final = {
    "ok": ("✓", "+", "green"),
    "unknown": ("?", "?", "dim"),
    "warn": ("▲", "!", "yellow"),
    "fail": ("✗", "x", "red"),
}
_NAME: Final = 21
_VERDICT: Final = len("x ") + max(map(len, _MARKS)) + 1


def doctor(
    module: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP]",
            help="Also compare with the settings of this application, and use its database: `shop.tasks:app`.",
        ),
    ] = None,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    module_option: ApplicationOption = None,
    debug: DebugOption = False,
) -> None:
    """Examine the database: schema, connections, pooler, notifications, indexes, vacuum, WAL, retention, workers.

    Each line is `ok`, `warn`, `fail` or `unknown` (the role may not see it), with the evidence and the command that
    mends it. Nothing is changed: it reads within 5 s, waits for no lock, and notifies itself. The exit code is 0, and 1
    if a line is `fail`. `--json` prints `database`, `now`, `counts` and `lines`.
    """
    import asyncio

    from horsies.display.json_output import plain, print_json
    from horsies.display.terminal import Screen, say
    from horsies.doctor import CheckVerdict
    from horsies.locate import locate_app

    named = module if module is not None else module_option
    choice = DatabaseOptions(database_url, context, named).choose_existing()
    config = None if named is None else locate_app(named).config
    label, found = asyncio.run(examined(choice, config))
    counts = {verdict.value: found.count(verdict) for verdict in CheckVerdict}
    if as_json:
        print_json({"database": label, "now": found.now, "counts": counts, "lines": plain(found.lines)})
    else:
        screen = Screen.of(sys.stdout)
        say(screen.paint(f"{label}: {_headline(found)}", "bold"))
        say(*_lines(found, screen))
    raise typer.Exit(1 if counts["fail"] else 0)


async def examined(choice: DatabaseChoice, config: AppConfig | None) -> tuple[str, Examination]:
    from horsies.doctor.examine import examine
    from horsies.store.connect import open_database

    async with open_database(choice) as database:
        return database.label, await examine(database, config)


def _headline(found: Examination) -> str:
    from horsies.doctor import CheckVerdict

    bad = ((found.count(verdict), verdict) for verdict in (CheckVerdict.FAIL, CheckVerdict.WARN, CheckVerdict.UNKNOWN))
    return ", ".join(f"{count} {verdict}" for count, verdict in bad if count) or "well"


def _lines(found: Examination, screen: Screen) -> Iterator[str]:
    """Yield a line for each check; evidence and remedy are wrapped below themselves in a narrow terminal."""
    from horsies.display.formatting import marked
    from horsies.domain.plain_text import clean

    margin = _VERDICT + _NAME
    width = None if screen.width is None else max(screen.width - margin, 30)
    for line in found.lines:
        mark = marked(_MARKS[line.verdict], f"{line.verdict:<{_VERDICT - 2}}", screen)
        text: list[str] = [clean(line.evidence)] if width is None else wrap(clean(line.evidence), width)
        if line.remedy is not None:
            text.append(f"{screen.glyph('→', '->')} {clean(line.remedy)}")
        yield f"{screen.paint(mark.text, mark.style)}{line.check:<{_NAME}}  {text[0]}"
        yield from (f"{' ' * margin}  {more}" for more in text[1:])
