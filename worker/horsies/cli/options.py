"""Options and arguments that several commands share, with the same spelling and help."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from horsies.display.terminal import say
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.plain_text import clean


class LogLevel(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class LogFormat(StrEnum):
    HUMAN = "human"
    JSON = "json"


# The values of horsies.display.exporting, which this module cannot import: `--help` must be quick.
ExportFormat = StrEnum("ExportFormat", ["CSV", "JSONL"])


ALL_APPLIED = 0
FAILED = 1
SOME_REFUSED = 3
NOTHING_MATCHED = 4
INTERRUPTED = 130
VERBS_EPILOG = (
    "Verbs show what would change and ask before they do it: `--dry-run` only shows, `--yes` does not ask. Exit codes: "
    "0 all applied, 3 some refused, 4 nothing matched, 1 it failed, 2 the command line was wrong, 130 interrupted."
)


@dataclass(slots=True)
class Debugging:
    """The switch for tracebacks of failures, which is set while options are parsed."""

    on: bool = False


debugging = Debugging()


def _set_debugging(value: bool) -> bool:
    debugging.on = debugging.on or value
    return value


def invalid(message: str, help_text: str) -> ConfigurationError:
    return ConfigurationError(message, code=ErrorCode.CLI_INVALID_ARGS, help_text=help_text)


def option_parameter(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def declare(command: Callable[..., None], parameters: list[Parameter]) -> None:
    """Give a command its parameters, which typer reads from its signature."""
    vars(command)["__signature__"] = Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def fit_for_text(value: str | list[str] | None) -> str | list[str] | None:
    """Replace bytes that are not UTF-8 by question marks: they arrive as surrogates, which PostgreSQL refuses."""
    if isinstance(value, list):
        return [text.encode(errors="replace").decode() for text in value]
    return None if value is None else value.encode(errors="replace").decode()


def _complete_context(incomplete: str) -> list[str]:
    from horsies.config.contexts import config_path, read_config_file

    names = read_config_file(config_path(os.environ)).contexts
    return [name for name in names if name.startswith(incomplete) and name == clean(name)]


def text_argument(metavar: str, help_text: str, **more: Any) -> Any:
    """Return an argument whose value is sent to the database."""
    return typer.Argument(metavar=metavar, help=help_text, callback=fit_for_text, **more)


def text_option(name: str, metavar: str, help_text: str) -> Any:
    """Return an option whose value is sent to the database."""
    return typer.Option(name, metavar=metavar, help=help_text, callback=fit_for_text)


def _filter(things: str, example: str) -> Any:
    return typer.Option("--filter", "-f", metavar="TEXT", help=f"All {things} that match, for example `{example}`.")


def filter_words(example: str) -> Any:
    return typer.Argument(metavar="FILTER", help=f"A filter: `{example}`.")


def _filter_help(language: str) -> Any:
    def show(value: bool) -> None:
        if value:
            from horsies import query

            say(*getattr(query, language).describe().splitlines())
            raise typer.Exit

    return typer.Option("--filter-help", help="Explain the filter language.", callback=show, is_eager=True)


def joined_filter(option: str | None, words: list[str] | None) -> str:
    """Return the filter of a list, which may be given as `--filter`, as arguments, or as both."""
    return " ".join([*([option] if option else []), *(words or ())])


_DATABASE = "Which database"
DatabaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="The database to use, instead of all other sources: `postgresql://user@host/database`, or "
        "`embedded:///directory` for a separate server in that directory.",
        rich_help_panel=_DATABASE,
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="A database named in `~/.config/horsies/config.toml` (below `XDG_CONFIG_HOME` where that is set).",
        autocompletion=_complete_context,
        rich_help_panel=_DATABASE,
    ),
]
ApplicationOption = Annotated[
    str | None,
    typer.Option(
        "--module",
        "-m",
        metavar="MODULE",
        envvar="HORSIES_MODULE",
        help="The database of this application: `shop.tasks:app`, or `shop/tasks.py`.",
        rich_help_panel=_DATABASE,
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.", callback=_set_debugging)]
ModuleArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODULE", envvar="HORSIES_MODULE", help="The application: `shop.tasks:app`, or `shop/tasks.py`."
    ),
]
ModuleOption = Annotated[str | None, typer.Option("--module", "-m", help="The application, instead of the argument.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, not even in a production context.")]

_LOG_LEVEL_HELP = "The lowest level of log lines to show; the errors that end the command are always shown."
_LOG_FORMAT_HELP = "`json` prints one object per line."
LogLevelOption = Annotated[
    LogLevel, typer.Option(envvar="HORSIES_LOGLEVEL", case_sensitive=False, help=_LOG_LEVEL_HELP)
]
LogFormatOption = Annotated[LogFormat, typer.Option(envvar="HORSIES_LOG_FORMAT", help=_LOG_FORMAT_HELP)]
# Commands that are no services do not read the environment of one.
OwnLogLevelOption = Annotated[LogLevel, typer.Option(case_sensitive=False, help=_LOG_LEVEL_HELP)]
OwnLogFormatOption = Annotated[LogFormat, typer.Option(help=_LOG_FORMAT_HELP)]
ListenHostOption = Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 in a pod.")]

FilterOption = Annotated[str | None, _filter("tasks", "status:failed queue:mail name:send_* since:1h")]
FilterHelpOption = Annotated[bool, _filter_help("TASKS")]
WorkflowFilterOption = Annotated[str | None, _filter("workflows", "status:failed name:order_* since:1h")]
WorkflowFilterHelpOption = Annotated[bool, _filter_help("WORKFLOWS")]
WorkerFilterOption = Annotated[str | None, _filter("workers", "status:late,lost host:web-* queue:email")]
WorkerFilterHelpOption = Annotated[bool, _filter_help("WORKERS")]
ScheduleFilterOption = Annotated[str | None, _filter("schedules", "status:overdue,paused sends:shop.* last:failed")]
ScheduleFilterHelpOption = Annotated[bool, _filter_help("SCHEDULES")]
LimitOption = Annotated[
    int, typer.Option("--limit", "-l", min=1, max=10_000, metavar="N", help="Maximum number of rows.")
]
AfterOption = Annotated[
    str | None, typer.Option("--after", metavar="CURSOR", help="Continue after a page, by the cursor that it printed.")
]
ExportPathArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A new file; without it, standard output.")
]
ExportFormatOption = Annotated[
    ExportFormat, typer.Option("--format", help="`csv`, or `jsonl`: one JSON object on each line.")
]
MaskOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mask",
        metavar="NAME",
        help="Hide values of this name in arguments and results, besides `mask_arguments` of the "
        "config file; `card_*` works, and `args` hides the arguments without names. May be repeated.",
    ),
]

TaskIdArgument = Annotated[str, text_argument("ID", "The id, its beginning or its end: `1cd6ba9a`.")]
WorkflowIdArgument = Annotated[str, text_argument("WORKFLOW", "The id, its beginning or its end: `1cd6ba9a`.")]
TaskIdsArgument = Annotated[
    list[str] | None, text_argument("ID", "Ids of tasks, their beginnings or ends: `1cd6ba9a`.")
]
WorkflowIdsArgument = Annotated[
    list[str] | None, text_argument("ID", "Ids of workflows, their beginnings or ends: `1cd6ba9a`.")
]
NodeArgument = Annotated[str, text_argument("NODE", "The id of the node, or its index: `import_eu`, `3`.")]
WorkerIdsArgument = Annotated[list[str], text_argument("WORKER", "Ids of workers, their beginnings or ends: `web-1`.")]
QueuesArgument = Annotated[list[str], text_argument("QUEUE", "Names of queues.")]
SessionsArgument = Annotated[
    list[str], typer.Argument(metavar="PID", help="Process ids of sessions, as `horsies sessions ls` lists them.")
]
OperationArgument = Annotated[str, text_argument("OPERATION", "The id that the outcome showed, or the end of it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would change, and change nothing.")]
ReasonOption = Annotated[str | None, text_option("--reason", "TEXT", "The reason, stored in the audit log.")]
ReadOnlyOption = Annotated[
    bool, typer.Option("--read-only", help="Refuse to change anything.", envvar="HORSIES_READ_ONLY")
]
