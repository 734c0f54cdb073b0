"""Options of the commands that list and change tasks, workers and queues."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from horsies.cli.options import DatabaseOptions
from horsies.display.terminal import say

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice


class ExportFormat(StrEnum):
    """The values of horsies.display.exporting, which this module cannot import: `--help` must be quick."""

    CSV = "csv"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a verb. `command` is the command line after `horsies`."""

    choice: DatabaseChoice
    command: str
    reason: str | None
    dry_run: bool
    yes: bool
    read_only: bool
    as_json: bool

    @property
    def thing(self) -> str:
        """The kind of its targets: `tasks requeue` is for a task."""
        return self.command.split()[0].removesuffix("s")


def fit_for_text(value: str | list[str] | None) -> str | list[str] | None:
    """Bytes that are not UTF-8 arrive as surrogates, which PostgreSQL refuses: each is replaced by a question mark."""
    if isinstance(value, list):
        return [text.encode(errors="replace").decode() for text in value]
    return None if value is None else value.encode(errors="replace").decode()


def _show_filter_help(value: bool) -> None:
    if value:
        from horsies.query import TASKS

        say(*TASKS.describe().splitlines())
        raise typer.Exit


def _show_workflow_filter_help(value: bool) -> None:
    if value:
        from horsies.query import WORKFLOWS

        say(*WORKFLOWS.describe().splitlines())
        raise typer.Exit


def _show_worker_filter_help(value: bool) -> None:
    if value:
        from horsies.query import WORKERS

        say(*WORKERS.describe().splitlines())
        raise typer.Exit


def complete_schedule(context: typer.Context, incomplete: str) -> list[str]:
    from horsies.cli.cluster.schedule_lists import names_of_schedules

    named = DatabaseOptions(*(context.params.get(name) for name in ("database_url", "context", "module")))
    return [name for name in names_of_schedules(named.choose()) if name.startswith(incomplete)]


def _show_schedule_filter_help(value: bool) -> None:
    if value:
        from horsies.query import SCHEDULES

        say(*SCHEDULES.describe().splitlines())
        raise typer.Exit


TaskIdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids of tasks, or how they begin or end: `1cd6ba9a`.", callback=fit_for_text),
]
WorkerIdsArgument = Annotated[
    list[str],
    typer.Argument(metavar="WORKER", help="Ids of workers, or how they begin or end: `web-1`.", callback=fit_for_text),
]
OperationArgument = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION", help="Its id, which the outcome showed, or how that ends.", callback=fit_for_text
    ),
]
QueuesArgument = Annotated[list[str], typer.Argument(metavar="QUEUE", help="Names of queues.", callback=fit_for_text)]
SessionsArgument = Annotated[
    list[str], typer.Argument(metavar="PID", help="Process ids of sessions, as `horsies sessions ls` lists them.")
]
SchedulesArgument = Annotated[
    list[str],
    typer.Argument(metavar="NAME", help="Names of schedules.", callback=fit_for_text, autocompletion=complete_schedule),
]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="TEXT",
        help="All tasks that match, for example `status:failed queue:mail name:send_* since:1h`.",
    ),
]
FilterHelpOption = Annotated[
    bool, typer.Option("--filter-help", help="Explain the filter language.", callback=_show_filter_help, is_eager=True)
]
WorkflowIdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids of workflows, or how they begin or end: `1cd6ba9a`.", callback=fit_for_text),
]
WorkflowIdArgument = Annotated[
    str, typer.Argument(metavar="WORKFLOW", help="The id, or how it begins or ends: `1cd6ba9a`.", callback=fit_for_text)
]
NodeArgument = Annotated[
    str,
    typer.Argument(metavar="NODE", help="The id of the node, or its index: `import_eu`, `3`.", callback=fit_for_text),
]
WorkflowFilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="TEXT",
        help="All workflows that match, for example `status:failed name:order_* since:1h`.",
    ),
]
WorkflowFilterHelpOption = Annotated[
    bool,
    typer.Option(
        "--filter-help", help="Explain the filter language.", callback=_show_workflow_filter_help, is_eager=True
    ),
]
WorkerFilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="TEXT",
        help="All workers that match, for example `status:late,lost host:web-* queue:email`.",
    ),
]
WorkerFilterHelpOption = Annotated[
    bool,
    typer.Option(
        "--filter-help", help="Explain the filter language.", callback=_show_worker_filter_help, is_eager=True
    ),
]
ScheduleFilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="TEXT",
        help="All schedules that match, for example `status:overdue,paused sends:shop.* last:failed`.",
    ),
]
ScheduleFilterHelpOption = Annotated[
    bool,
    typer.Option(
        "--filter-help", help="Explain the filter language.", callback=_show_schedule_filter_help, is_eager=True
    ),
]
MaskOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mask",
        metavar="NAME",
        help="Hide what is stored under this name, in arguments and results, besides `mask_arguments` of the "
        "config file; `card_*` works, and `args` hides the arguments without names. May be repeated.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would change, and change nothing.")]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="The reason, for the audit trail.", callback=fit_for_text)
]
ReadOnlyOption = Annotated[
    bool, typer.Option("--read-only", help="Refuse to change anything.", envvar="HORSIES_READ_ONLY")
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-l", min=1, max=10_000, metavar="N", help="The most rows to list.")
]
ExportPathArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A file that does not exist yet; without it, standard output.")
]
ExportFormatOption = Annotated[
    ExportFormat, typer.Option("--format", help="`csv`, or `jsonl`: one JSON object on each line.")
]
AfterOption = Annotated[
    str | None, typer.Option("--after", metavar="CURSOR", help="Continue after a page, by the cursor that it printed.")
]
