"""`horsies scheduler`: send the tasks of schedules until stopped."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from setproctitle import setproctitle

from horsies.cli.options import DebugOption, LogLevel, ModuleArgument, ModuleOption, only_module
from horsies.cli.worker import LogFormat

if TYPE_CHECKING:
    from horsies.run.scheduler import Scheduler


def scheduler(
    module: ModuleArgument = None,
    module_option: ModuleOption = None,
    loglevel: Annotated[LogLevel, typer.Option(case_sensitive=False)] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="`json` prints one object per line.")] = LogFormat.HUMAN,
    debug: DebugOption = False,
) -> None:
    """Send the tasks of an application's schedules (AppConfig.schedule) when they come due, until SIGTERM or ctrl+c.

    It runs no tasks: workers do. Run as many as you like, for the case that one stops: each slot is sent once.
    `horsies worker --with-scheduler` does both in one process.
    """
    import asyncio

    from horsies.locate import checked_app
    from horsies.run.events import Events
    from horsies.run.log_format import configure_logging
    from horsies.run.scheduler import Scheduler
    from horsies.run.serve import serve

    locator = only_module(module, module_option)
    configure_logging(loglevel.value, logging.StreamHandler(sys.stderr), as_json=log_format is LogFormat.JSON)
    setproctitle(f"horsies: scheduler {locator}")
    app = checked_app(locator)
    running = Scheduler(app, Events())

    def on_ready() -> None:
        if log_format is LogFormat.HUMAN:
            _banner(running, locator)

    asyncio.run(serve(running, on_ready=on_ready))


def _banner(running: Scheduler, locator: str) -> None:
    print("horsies scheduler")
    print(f"  app        {locator}, {len(running.app.tasks)} tasks")
    print(f"  database   {running.database.label}")
    for one in running.schedules:
        schedule = one.schedule
        print(f"  schedule   {schedule.name}: {schedule.target}, {schedule.pattern.words()} ({schedule.timezone})")
    if not running.schedules:
        print("  schedule   none: list them in AppConfig(schedule=ScheduleConfig(schedules=[...]))")
    sys.stdout.flush()
