"""The commands about the cluster: `horsies status`, `metrics`, `workers`, `queues` and `schedules`."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from horsies.cli.database import DatabaseOptions, ScheduleArgument, on_database
from horsies.cli.options import (
    JsonOption,
    ListenHostOption,
    LogFormat,
    LogLevel,
    OwnLogFormatOption,
    OwnLogLevelOption,
    ScheduleFilterHelpOption,
    ScheduleFilterOption,
    WorkerFilterHelpOption,
    WorkerFilterOption,
    filter_words,
    joined_filter,
)

_PORT = 9464

workers = typer.Typer(
    name="workers",
    help="List workers, drain them, recover the tasks of lost ones, acknowledge losses.",
    no_args_is_help=True,
)

queues = typer.Typer(name="queues", help="List queues, pause and resume them.", no_args_is_help=True)

schedules = typer.Typer(
    name="schedules",
    help="List schedules and their next runs, run them now, pause them, skip a run.",
    no_args_is_help=True,
)


@on_database
def status(
    database: DatabaseOptions,
    chart: Annotated[
        bool, typer.Option("--chart", help="Also draw what ended, failed and waited in the last hour.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show workers, queues, and what is stuck.

    The exit code is 0, 1 if no worker is alive, and 75 if another session's lock is in the way. `--json` prints `now`,
    `database`, `workers`, `queues`, `ended`, `interrupted`, `tasks_in_table`, `findings` and `sweep`, and with
    `--chart` `last_hour`, a point for each minute.
    """
    from horsies.cli.cluster.lists import show_status

    show_status(database.choose_existing(), chart=chart, as_json=as_json)


@workers.command("ls")
@on_database
def ls_workers(
    database: DatabaseOptions,
    words: Annotated[list[str] | None, filter_words("status:lost host:web-* has:tasks")] = None,
    filter_text: WorkerFilterOption = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Also list workers that were last seen more than an hour ago.")
    ] = False,
    as_json: JsonOption = False,
    filter_help: WorkerFilterHelpOption = False,
) -> None:
    """List workers that are alive, have tasks, or were seen in the last hour.

    `--json` prints `now`, `filter` and `workers`.
    """
    from horsies.cli.cluster.lists import list_workers

    list_workers(database.choose_existing(), joined_filter(filter_text, words), everyone=everyone, as_json=as_json)


@queues.command("ls")
@on_database
def ls_queues(database: DatabaseOptions, as_json: JsonOption = False) -> None:
    """List queues: how many tasks are due, scheduled, claimed and running, and the limits.

    `--json` prints `now` and `queues`.
    """
    from horsies.cli.cluster.lists import list_queues

    list_queues(database.choose_existing(), as_json=as_json)


@on_database
def metrics(
    database: DatabaseOptions,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Answer GET /metrics, /healthz and /readyz there; 0: any free port.")
    ] = _PORT,
    host: ListenHostOption = "127.0.0.1",
    loglevel: OwnLogLevelOption = LogLevel.INFO,
    log_format: OwnLogFormatOption = LogFormat.HUMAN,
) -> None:
    """Serve the metrics of the cluster until SIGTERM or ctrl+c: queues, workers, workflows, schedules, sweeps.

    One process serves the whole cluster; it needs no application and no worker, only the right to read. Each worker
    serves its own metrics at its `--metrics-port`.
    """
    import asyncio

    from horsies.run.events import Events
    from horsies.run.log_format import configure_logging
    from horsies.run.metrics.exporter import Exporter
    from horsies.run.metrics.http import Address
    from horsies.run.serve import serve

    choice = database.choose_existing()
    configure_logging(loglevel.value, logging.StreamHandler(sys.stderr), as_json=log_format is LogFormat.JSON)
    exporter = Exporter(choice, Address(host, port, f"--port {port}"), Events())
    asyncio.run(serve(exporter, on_ready=lambda: None))


@schedules.command("ls")
@on_database
def ls_schedules(
    database: DatabaseOptions,
    words: Annotated[list[str] | None, filter_words("status:overdue name:nightly_* last:failed")] = None,
    filter_text: ScheduleFilterOption = None,
    as_json: JsonOption = False,
    filter_help: ScheduleFilterHelpOption = False,
) -> None:
    """List schedules: what each sends and when, its next and its last run, and the outcomes of its newest runs.

    The newest run is at the right. A schedule is overdue if its run has been due for over a minute, and unserved if no
    scheduler that runs has it. `--json` prints `now`, `filter`, `schedules` and `schedulers`.
    """
    from horsies.cli.cluster.schedule_lists import list_schedules

    list_schedules(database.choose_existing(), joined_filter(filter_text, words), as_json=as_json)


@schedules.command("next")
@on_database
def next_runs(
    database: DatabaseOptions,
    name: ScheduleArgument,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1_000, metavar="N", help="How many runs.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show when a schedule runs next, by this machine's clock and by that of the schedule's time zone.

    A run before which the clocks of that zone change is marked: a daily run then comes an hour earlier or later by the
    clocks of other zones. `--json` prints `now`, `schedule`, `timezone`, `note` and `runs`.
    """
    from horsies.cli.cluster.schedule_lists import show_next_runs

    show_next_runs(database.choose_existing(), name, count, as_json=as_json)
