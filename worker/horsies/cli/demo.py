"""`horsies demo`: a shop on its own PostgreSQL, with failures, a hung task and a dead worker, and the console."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from horsies.cli.options import DebugOption, JsonOption, debugging
from horsies.display.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from horsies.config.contexts import DatabaseChoice
    from horsies.demo.opening import Demo, DemoEvent

_HEADLESS_S: Final = 20.0
_MAX_RECALLED: Final = 12
_APP: Final = "horsies.demo.shop:app"


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the database, and print how to open it again.")] = False,
    headless: Annotated[
        bool,
        typer.Option(
            "--headless",
            help=f"Without the console: run for {_HEADLESS_S:.0f} seconds, or as long as --for says, and print the"
            " outcomes of tasks and workflows. This is the default where there is no terminal.",
        ),
    ] = False,
    for_s: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=1, help="Without the console, for this long.")
    ] = None,
    as_json: JsonOption = False,
    processes: Annotated[
        int, typer.Option(min=2, max=32, help="Child processes of the first worker; one of them will hang.")
    ] = 4,
    debug: DebugOption = False,
) -> None:
    """Open the console on a demo shop whose tasks fail, hang and crash.

    It starts a PostgreSQL in a temporary directory, two workers, and simulated customers. Leaving the console, by `q`
    or ctrl+c, ends all of them and removes the directory.
    """
    from horsies.demo.opening import Demo

    without_console = _why_no_console(asked=headless or as_json or for_s is not None)
    _end_cleanly_by_signal()
    if without_console is None:
        say("a PostgreSQL and a shop with two workers are starting …", stream=sys.stderr)
        _show(Demo(keep=keep, processes=processes, on_line=lambda _line: None))
    if without_console:
        say(f"{without_console}, so this is the demo without the console", stream=sys.stderr)
    on_line: Callable[[DemoEvent], None] = (lambda _line: None) if as_json else lambda line: say(_shown(line))
    _run(Demo(keep=keep, processes=processes, on_line=on_line), for_s or _HEADLESS_S, as_json=as_json)


def _why_no_console(*, asked: bool) -> str | None:
    """Return why the console cannot be opened, empty if the user asked for none; None if it can."""
    if asked:
        return ""
    if find_spec("horsies_tui") is None or find_spec("textual") is None:
        return "the console is not part of this installation"
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    reason: str | None = import_module("horsies_tui.shell.environment").why_unfit(os.environ, is_terminal=terminal)
    return reason


def _show(demo: Demo) -> NoReturn:
    """Open the console on the running demo. By name, because the engine must work, and be checked, without it."""
    from horsies.config.contexts import config_path, read_config_file

    file = read_config_file(config_path(os.environ))
    with demo:
        launch = import_module("horsies_tui.shell.launch")
        import_module("horsies_tui.shell.app")  # while the server starts
        demo.wait()
        options = import_module("horsies_tui.settings").ConsoleOptions(
            choice=_choice(demo),
            config=replace(file, mask_arguments=(*file.mask_arguments, "card")),
            settings=import_module("horsies_tui.settings").ConsoleSettings.of(file),
            debug=debugging.on,
        )
        code = launch.run(options)
    # The cause of each row that was on the screen.
    happened = [f"  {_shown(line)}" for line in demo.lines[-_MAX_RECALLED:]]
    say(*(["what happened in the shop:", *happened, ""] if happened else []), *_farewell(demo), stream=sys.stderr)
    raise typer.Exit(code)


def _run(demo: Demo, seconds: float, *, as_json: bool) -> None:
    import asyncio

    from horsies.demo.tally import tally
    from horsies.display.json_output import plain, print_json

    with demo:
        demo.wait()
        time.sleep(seconds)
        found = asyncio.run(tally(_choice(demo)))
    if as_json:
        directory = str(demo.directory) if demo.keep else None
        print_json({"seconds": seconds, "directory": directory, **plain(found), "story": demo.lines})
        return
    counts = {
        "tasks": found.states,
        "workflows": found.workflows,
        "queues": found.queues,
        "errors": found.errors,
        "stuck": found.findings,
        "schedules": found.schedules,
    }
    say("")
    for name, values in counts.items():
        say(f"{name:<11}{', '.join(f'{count} {what}' for what, count in values.items()) or 'none'}")
    say("", *_farewell(demo))


def _choice(demo: Demo) -> DatabaseChoice:
    from horsies.config.contexts import Context, DatabaseChoice
    from horsies.config.url import DatabaseUrl

    url = DatabaseUrl.parse(demo.url)
    return DatabaseChoice(url, "made by `horsies demo`", Context("demo", url, colour="green"))


def _shown(line: DemoEvent) -> str:
    return f"{int(line.at_s) // 60}:{int(line.at_s) % 60:02}  {line.text}"


def _farewell(demo: Demo) -> Sequence[str]:
    if demo.keep:
        return [
            f"the demo is over; its database is kept in {demo.directory}. To come back:",
            f"  horsies tui --database-url {demo.url}",
            f"  HORSIES_DATABASE_URL={demo.url} horsies worker {_APP}",
            f"  rm -r {demo.directory}   when you are done",
        ]
    over = "the demo is over, and nothing of it is left"
    if not demo.gone:
        over = f"the demo is over; {demo.directory} goes as soon as the last process that uses its database ends"
    return [
        f"{over}. The same with tasks of your own:",
        "  horsies db init        a database: an embedded one, or --database-url postgresql://…",
        "  horsies worker MODULE  runs the tasks of your application",
        "  horsies tui            the console on it",
        f"The shop's code is an example: python -m pydoc {_APP.partition(':')[0]}",
    ]


def _end_cleanly_by_signal() -> None:
    """Exit cleanly at a signal: by default SIGTERM would end this process at once and leave the demo's files."""

    def end(number: int, _frame: object) -> NoReturn:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
