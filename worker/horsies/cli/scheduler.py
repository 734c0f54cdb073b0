"""`horsies scheduler`: send the tasks of schedules until stopped."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from setproctitle import setproctitle

from horsies.cli.database import app_at_work, only_module
from horsies.cli.options import (
    ContextOption,
    DatabaseUrlOption,
    DebugOption,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    ModuleArgument,
    ModuleOption,
)
from horsies.cli.worker import chosen_lines
from horsies.display.terminal import say
from horsies.domain.masking import mask_word
from horsies.domain.quantities import counted

if TYPE_CHECKING:
    from horsies.run.scheduler import Scheduler

_NO_SCHEDULE: Final = "none: list them in AppConfig(schedule=ScheduleConfig(schedules=[...]))"


def scheduler(
    module: ModuleArgument = None,
    module_option: ModuleOption = None,
    loglevel: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.HUMAN,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Send the tasks of an application's schedules (AppConfig.schedule) when they come due, until SIGTERM or ctrl+c.

    It runs no tasks: workers do. Run as many as you like, for the case that one stops: each slot is sent once.
    `horsies worker --with-scheduler` does both in one process.
    """
    import asyncio

    from horsies.run.events import Events
    from horsies.run.log_format import configure_logging
    from horsies.run.scheduler import Scheduler
    from horsies.run.serve import serve

    locator = only_module(module, module_option)
    configure_logging(loglevel.value, logging.StreamHandler(sys.stderr), as_json=log_format is LogFormat.JSON)
    setproctitle(f"horsies: scheduler {mask_word(locator)}")
    app = app_at_work(locator, database_url, context)
    running = Scheduler(app, Events())
    running.events.other_databases(app.database)

    def on_ready() -> None:
        if log_format is LogFormat.HUMAN:
            _banner(running, locator)

    asyncio.run(serve(running, on_ready=on_ready))


def _banner(running: Scheduler, locator: str) -> None:
    schedules = [
        f"{schedule.name}: {schedule.target}, {schedule.pattern.words()} ({schedule.timezone})"
        for schedule in (one.schedule for one in running.schedules)
    ]
    lines = [
        ("app", f"{locator}, {counted(len(running.app.tasks), 'task')}"),
        ("database", running.database.label),
        *chosen_lines(running.app.database).items(),
        *(("schedule", each) for each in schedules or [_NO_SCHEDULE]),
    ]
    say("horsies scheduler", *(f"  {name:<10} {value}" for name, value in lines))
