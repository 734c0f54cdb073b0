"""`horsies tasks`: list tasks, and show one. The verbs are added from their records."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from horsies.cli.database import DatabaseOptions, on_database
from horsies.cli.options import (
    VERBS_EPILOG,
    AfterOption,
    ExportFormat,
    ExportFormatOption,
    ExportPathArgument,
    FilterHelpOption,
    FilterOption,
    JsonOption,
    LimitOption,
    MaskOption,
    ReadOnlyOption,
    ReasonOption,
    TaskIdArgument,
    filter_words,
    joined_filter,
)

app = typer.Typer(
    name="tasks", help="List and inspect tasks, and act on them.", no_args_is_help=True, epilog=VERBS_EPILOG
)


# The values of horsies.views, which this module cannot import: `--help` must be quick.
TaskOrder = StrEnum("TaskOrder", ["NEWEST", "OLDEST", "WAITING", "RUNNING", "FINISHED"])
StatisticsOrder = StrEnum(
    "StatisticsOrder", ["WORST", "ENDED", "FAILED", "SHARE", "RETRIES", "WAIT", "RUN", "BUSY", "NAME"]
)


@app.command("ls")
@on_database
def ls(
    database: DatabaseOptions,
    words: Annotated[list[str] | None, filter_words("status:failed queue:mail since:1h")] = None,
    filter_text: FilterOption = None,
    sort: Annotated[
        TaskOrder | None,
        typer.Option(
            help="`waiting` is the order in which workers take them, `running` the longest first, `finished` the last "
            "to end first; each shows only the tasks that have what it sorts by. Without it: `newest`."
        ),
    ] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
    filter_help: FilterHelpOption = False,
) -> None:
    """List tasks, a page at a time.

    AGE counts from when it was sent, WAIT from when it was due to its start, RUN from its start to its end or to now.
    PROGRESS is what its code reports. `--json` prints `now`, `filter`, `sort`, `tasks` and `next`, the cursor of the
    next page or null.
    """
    from horsies.cli.tasks.lists import list_tasks

    text = joined_filter(filter_text, words)
    order = None if sort is None else sort.value
    list_tasks(database.choose_existing(), text, order, limit=limit, after=after, as_json=as_json)


@app.command("stats")
@on_database
def stats(
    database: DatabaseOptions,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="FILTER", help="Count only these tasks: `queue:mail -error:TIMEOUT`.")
    ] = None,
    filter_text: FilterOption = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Tasks that ended within this time, or since a day or time: 6h.")
    ] = "1h",
    name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this name, or names like `shop.*`; may be repeated.")
    ] = None,
    sort: Annotated[
        StatisticsOrder,
        typer.Option(help="The largest first. `worst`: by failures times their share, then by busy time."),
    ] = StatisticsOrder.WORST,
    as_json: JsonOption = False,
    filter_help: FilterHelpOption = False,
) -> None:
    """Show figures of the tasks of each name: failures, waits, durations, retries, share of the busy time.

    Of the tasks that ended since `--since`. WAIT counts from when a task was due to its last start, RUN from there to
    its end. Where more than 60,000 ended, the newest of each name are read: a number with `+` is a minimum, and the
    figures of its line count from SINCE on. `--json` prints `now`, `since`, `filter`, `sort`, `names`, each with the
    `filter` of its tasks, and `more_names`.
    """
    from horsies.cli.tasks.lists import show_statistics

    show_statistics(
        database.choose_existing(), joined_filter(filter_text, words), name or [], since, sort.value, as_json=as_json
    )


@app.command("export")
@on_database
def export(
    database: DatabaseOptions,
    path: ExportPathArgument = None,
    filter_text: FilterOption = None,
    form: ExportFormatOption = ExportFormat.CSV,
    sort: Annotated[TaskOrder | None, typer.Option(help="As for `ls`.")] = None,
    filter_help: FilterHelpOption = False,
) -> None:
    """Write every task that matches as CSV or as JSON lines, to a new file or to standard output.

    Rows are read page by page, so that a million take little memory here and no long transaction there. Arguments and
    results are not exported. A text that a spreadsheet would take as a formula gets a `'` before it.
    """
    from horsies.cli.reading import understood, write_export
    from horsies.display.exporting import tasks_export
    from horsies.query import parse
    from horsies.views import Sort

    choice = database.choose_existing()
    rows = tasks_export(understood(filter_text or "", parse), Sort.NEWEST if sort is None else Sort(sort.value))
    write_export(choice, rows, form.value, path)


@app.command("show")
@on_database
def show(
    database: DatabaseOptions, task_id: TaskIdArgument, mask: MaskOption = None, as_json: JsonOption = False
) -> None:
    """Show everything that is stored about one task.

    Progress, and how long tasks of its name usually run; attempts with how long each waited and ran, heartbeats, why it
    waits, arguments and result, operator actions. `--json` prints `now`, `task`, `args`, `kwargs`, `options`, `result`,
    `failed_reason`, `attempts`, `earlier_attempts`, `executions`, `usual`, `why`, `audit`, `reruns` and `workflow`.
    """
    from horsies.cli.tasks.show import show_task

    show_task(database.choose_existing(), task_id, mask or [], as_json=as_json)


@app.command("stack")
@on_database
def stack(
    database: DatabaseOptions,
    task_id: TaskIdArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Ask again until the task ends, and mark what has changed.")
    ] = False,
    variables: Annotated[
        bool, typer.Option("--locals", help="Also show local variables; `--mask` and the config file hide some.")
    ] = False,
    mask: MaskOption = None,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a running task is doing now: its Python stack, the innermost line first.

    The worker that runs it answers within a second, without stopping the task; nothing needs to be installed. Lines of
    libraries are dim. The audit log says who looked. `allow_looks=False` in the application's AppConfig forbids it.

    If the task has not begun because another one occupies its child or its worker, the stack of that one is shown;
    `--json` then names the first one as `starved`.

    Exit codes: 0 it was shown, 1 the worker did not answer, 3 the task has ended meanwhile, 4 there is no such task.
    """
    from horsies.cli.tasks.looking import LookOptions, show_stack

    asked = LookOptions(database.choose_existing(), task_id, follow, reason, read_only, as_json)
    show_stack(asked, mask or [], variables=variables)


@app.command("logs")
@on_database
def logs(
    database: DatabaseOptions,
    task_id: TaskIdArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the task ends.")] = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a running task prints and logs: the last 64 kB, which its worker keeps in memory.

    Times are those at which the worker read the lines; stderr, where logging goes, is yellow. If the task writes more
    than can be passed on, a line says how much is left out. Without this command, nothing is sent or stored.
    The audit log says who looked; `allow_looks=False` in the application's AppConfig forbids it.

    Exit codes: 0 it was shown, 1 the worker did not answer, 3 the task has ended meanwhile, 4 there is no such task.
    """
    from horsies.cli.tasks.looking import LookOptions, show_logs

    show_logs(LookOptions(database.choose_existing(), task_id, follow, reason, read_only, as_json))
