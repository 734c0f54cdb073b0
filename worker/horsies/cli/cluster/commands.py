"""The commands about the cluster: `horsies status`, `workers`, `queues` and `metrics`."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from horsies.cli.options import LOGLEVEL_HELP, DatabaseOptions, JsonOption, LogLevel, on_database
from horsies.cli.verbs.options import WorkerFilterHelpOption, WorkerFilterOption
from horsies.cli.worker import LogFormat

_PORT = 9464

workers = typer.Typer(
    name="workers",
    help="List workers, drain them, recover the tasks of lost ones, acknowledge losses.",
    no_args_is_help=True,
)

queues = typer.Typer(name="queues", help="List queues, pause and resume them.", no_args_is_help=True)


@on_database
def status(
    chart: Annotated[
        bool, typer.Option("--chart", help="Also draw what ended, failed and waited in the last hour.")
    ] = False,
    as_json: JsonOption = False,
    *,
    database: DatabaseOptions,
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
    words: Annotated[
        list[str] | None, typer.Argument(metavar="FILTER", help="A filter: `status:lost host:web-* has:tasks`.")
    ] = None,
    filter_text: WorkerFilterOption = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Also list workers that were last seen more than an hour ago.")
    ] = False,
    as_json: JsonOption = False,
    filter_help: WorkerFilterHelpOption = False,
    *,
    database: DatabaseOptions,
) -> None:
    """List workers that are alive, have tasks, or were seen in the last hour.

    `--json` prints `now`, `filter` and `workers`.
    """
    from horsies.cli.cluster.lists import list_workers

    text = " ".join([*([filter_text] if filter_text else []), *(words or ())])
    list_workers(database.choose_existing(), text, everyone=everyone, as_json=as_json)


@queues.command("ls")
@on_database
def ls_queues(as_json: JsonOption = False, *, database: DatabaseOptions) -> None:
    """List queues: how many tasks are due, scheduled, claimed and running, and the limits.

    `--json` prints `now` and `queues`.
    """
    from horsies.cli.cluster.lists import list_queues

    list_queues(database.choose_existing(), as_json=as_json)


@on_database
def metrics(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Answer GET /metrics, /healthz and /readyz there; 0: any free port.")
    ] = _PORT,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 in a pod.")] = "127.0.0.1",
    *,
    database: DatabaseOptions,
    loglevel: Annotated[LogLevel, typer.Option(case_sensitive=False, help=LOGLEVEL_HELP)] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="`json` prints one object per line.")] = LogFormat.HUMAN,
) -> None:
    """Show the cluster to Prometheus until SIGTERM or ctrl+c: queues, workers, workflows, schedules, sweeps.

    One process for the whole cluster; it needs no application, no worker, and only the right to read. What single
    workers count and measure is at their own `--metrics-port`.
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
