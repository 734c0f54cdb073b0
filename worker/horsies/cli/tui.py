"""`horsies tui`: the console."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horsies.cli.database import DatabaseOptions, require_embedded
from horsies.cli.options import ApplicationOption, ContextOption, DatabaseUrlOption, DebugOption, debugging
from horsies.display.terminal import say

if TYPE_CHECKING:
    from horsies.config.contexts import ConfigFile, DatabaseChoice
    from horsies.operations.edited import TypedValues

_SCREENS = ("overview", "tasks", "workers", "workflows", "recovery", "schedules", "activity")

_terminal_option = partial(typer.Option, rich_help_panel="The terminal")
_recording_option = partial(typer.Option, rich_help_panel="Recordings")
_browser_option = partial(typer.Option, rich_help_panel="In a browser")

_What = Annotated[
    list[str] | None, typer.Argument(metavar="[task ID]", help="Open this task; the beginning of its id is enough.")
]
_ReadOnly = Annotated[
    bool, typer.Option("--read-only", envvar="HORSIES_READ_ONLY", help="Refuse every change; the database enforces it.")
]
_SCREEN_HELP = f"The screen to open: {', '.join(_SCREENS)}. Without it the overview, or with --filter the tasks."
_Screen = Annotated[str | None, typer.Option(help=_SCREEN_HELP)]
_Filter = Annotated[str, typer.Option(metavar="TEXT", help="Show only these tasks: `status:failed since:1h`.")]
_Ascii = Annotated[bool, _terminal_option("--ascii", help="Use only ASCII characters.")]
_NoMouse = Annotated[
    bool, _terminal_option("--no-mouse", help="Do not use the mouse, so that the terminal can select text.")
]
_THEME_HELP = "`horsies-dark`, `horsies-light`, `ansi` (the terminal's own colours) or one of Textual's, as `nord`."
_Theme = Annotated[str | None, _terminal_option(help=_THEME_HELP)]
_Refresh = Annotated[
    float, _terminal_option(min=0.5, max=60, help="Seconds between two reads if the database sends no notifications.")
]
_Fps = Annotated[
    int, _terminal_option(min=1, max=60, help="Maximum number of frames per second; 4 suits slow connections.")
]
_Record = Annotated[
    Path | None, _recording_option(metavar="FILE", help="Record what is read into this new file, for --replay.")
]
_REPLAY_HELP = "Show this recording in place of a database; nothing can be changed."
_Replay = Annotated[Path | None, _recording_option(metavar="FILE", help=_REPLAY_HELP)]
_Speed = Annotated[float, _recording_option(min=0.25, max=64, help="Speed of the replay.")]
_SERVE_HELP = "Serve the console to browsers that have the address with its token, which is printed."
_Serve = Annotated[bool, _browser_option("--serve", help=_SERVE_HELP)]
_ServeHost = Annotated[str, _browser_option(metavar="ADDRESS", help="The address to listen on. HTTP is not encrypted.")]
_ServePort = Annotated[int, _browser_option(min=0, max=65535, help="The port to listen on; 0 takes any free one.")]
_NAME_HELP = "A host name under which a TLS proxy serves it; requests for other names are refused."
_ServeName = Annotated[list[str] | None, _browser_option(metavar="NAME", help=_NAME_HELP)]


def tui(
    given: typer.Context,
    what: _What = None,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    module: ApplicationOption = None,
    read_only: _ReadOnly = False,
    screen: _Screen = None,
    filter: _Filter = "",  # noqa: A002 - the option is --filter
    ascii: _Ascii = False,  # noqa: A002 - the option is --ascii
    no_mouse: _NoMouse = False,
    theme: _Theme = None,
    refresh: _Refresh = 2.0,
    fps: _Fps = 60,
    record: _Record = None,
    replay: _Replay = None,
    speed: _Speed = 1.0,
    serve: _Serve = False,
    serve_host: _ServeHost = "127.0.0.1",
    serve_port: _ServePort = 8765,
    serve_name: _ServeName = None,
    debug: DebugOption = False,
) -> None:
    """Open the console: watch tasks live, see what is wrong, and repair it.

    `horsies tui task 7f3a` opens that task; `--context eu,us` lists these databases with their verdicts first. In the
    console, `?` shows all keys.
    """
    task_id = _task_id(what or [])
    _refuse_misfits(given)
    settings = _console_settings()
    file = _config_file()
    clusters = _clusters(file, context, task_id)
    choice = _choice(replay, database_url, clusters[0] if clusters else context, module)
    launch = None if serve else _launcher()
    if replay is None and choice.url is None:
        require_embedded(choice)
    if launch is None:
        raise typer.Exit(_served(given, choice, serve_host, serve_port, frozenset(serve_name or ())))
    options = settings.ConsoleOptions(
        choice=choice,
        config=file,
        settings=settings.ConsoleSettings.of(file),
        read_only=read_only,
        screen=screen or ("tasks" if filter or task_id else "overview"),
        filter=filter,
        task_id=task_id,
        clusters=clusters,
        ascii=ascii,
        mouse=not no_mouse,
        theme=theme,
        refresh_s=refresh,
        fps=fps,
        debug=debugging.on,
        record=record,
        replay=replay,
        speed=speed,
        types=None if module is None else partial(_types_of, module),
    )
    raise typer.Exit(launch.run(options))


def _types_of(module: str) -> TypedValues:
    from horsies.cli.verbs.typed_values import ApplicationTypes

    return ApplicationTypes(module)


def _console_settings() -> Any:
    """Return the module with the console's settings; end the command where the console is not installed."""
    if find_spec("horsies_tui") is None:
        why = "the console is not part of this installation; install horsies-console from its repository"
        say(why, stream=sys.stderr)
        raise typer.Exit(1)
    return import_module("horsies_tui.settings")


def _refuse_misfits(given: typer.Context) -> None:
    """Refuse an unknown screen, and options that do not go together."""
    options = given.params
    if options["screen"] is not None and options["screen"] not in _SCREENS:
        raise typer.BadParameter(f"there is no screen {options['screen']!r}; there are {', '.join(_SCREENS)}")
    if options["replay"] is not None and (options["record"] or options["database_url"] or options["context"]):
        raise typer.BadParameter("--replay shows no database: leave out --record, --database-url and --context")
    if options["serve"] and options["record"] is not None:
        raise typer.BadParameter("--record and --serve do not go together: each tab would write the same file")


def _config_file() -> ConfigFile:
    from horsies.config.contexts import config_path, read_config_file

    return read_config_file(config_path(os.environ))


def _choice(replay: Path | None, database_url: str | None, context: str | None, module: str | None) -> DatabaseChoice:
    from horsies.config.contexts import DatabaseChoice

    if replay is not None:
        return DatabaseChoice(None, "a recording")
    return DatabaseOptions(database_url, context, module).choose()


def _launcher() -> Any:
    """Return the module that runs the console; by name, because the engine must work, and be checked, without it."""
    launch = import_module("horsies_tui.shell.launch")
    # Checked before the command asks whether to create a database, which no one could answer without a terminal.
    if not launch.has_terminal():
        raise typer.Exit(1)
    return launch


def _clusters(file: ConfigFile, context: str | None, task_id: str | None) -> tuple[str, ...]:
    """Return the contexts of `--context a,b`; none if a single one is named."""
    if context is None or "," not in context or context in file.contexts:
        return ()
    if task_id is not None:
        raise typer.BadParameter("a task is in one database: name only its context")
    names = dict.fromkeys(filter(None, map(str.strip, context.split(","))))
    return tuple(file.context(name).name for name in names)


def _served(given: typer.Context, choice: DatabaseChoice, host: str, port: int, names: frozenset[str]) -> int:
    """Serve the console; each tab runs this command again, without the options of serving."""
    from horsies.domain.errors import way_to_install

    if find_spec("textual_serve") is None:
        why = "the console in a browser needs the extra `serve`"
        say(why, f" = help: {way_to_install('serve')}", stream=sys.stderr)
        return 1
    words = [sys.executable, "-m", "horsies", "tui"]
    # In the environment, because `ps` shows the command line of a process, with the password in it.
    url = given.params["database_url"]
    for parameter in given.command.params:
        name = parameter.name or ""
        value = given.params.get(name)
        if name.startswith("serve") or name == "database_url" or value == parameter.default or not value:
            continue
        if parameter.param_type_name == "option":
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
        else:
            words += value
    environ = {"HORSIES_DATABASE_URL": url} if url is not None else {}
    where = choice.reason if choice.url is None else choice.url.label
    server = import_module("horsies_tui.serving.server")
    code: int = server.run(words, environ, host=host, port=port, names=names, title=f"horsies: {where}")
    return code


def _task_id(words: list[str]) -> str | None:
    if words and (len(words) != 2 or words[0] != "task"):
        raise typer.BadParameter(f"{' '.join(words)!r} cannot be opened; write `horsies tui task ID`")
    return words[1] if words else None
