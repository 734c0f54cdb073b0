"""`horsies metrics`: the cluster as Prometheus scrapes it."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from horsies.cli.options import (
    LOGLEVEL_HELP,
    DatabaseOptions,
    LogLevel,
    on_database,
)
from horsies.cli.worker import LogFormat

_PORT = 9464


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
