"""`horsies worker` and `horsies scheduler`: run tasks, and send those of schedules, until stopped."""

from __future__ import annotations

import logging
import math
import shutil
import sys
import time
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer
from setproctitle import setproctitle

from horsies.cli.database import app_at_work, only_module
from horsies.cli.options import (
    ContextOption,
    DatabaseUrlOption,
    DebugOption,
    ListenHostOption,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    ModuleArgument,
    ModuleOption,
)
from horsies.display.terminal import say
from horsies.domain.masking import mask_word
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice
    from horsies.run.settings import WorkerSettings
    from horsies.run.worker.worker import Worker

_REDRAW_S: Final = 1.0
_NO_SCHEDULE: Final = "none: list them in AppConfig(schedule=ScheduleConfig(schedules=[...]))"
_CLEAR: Final = "\r\x1b[2K"


class UnknownTasksChoice(StrEnum):
    LEAVE = "leave"
    FAIL = "fail"


def _grace(text: str) -> float | None:
    """Return seconds; None for `auto`."""
    if text == "auto":
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise typer.BadParameter(f"{text!r} is neither auto nor a number of seconds")
    return seconds


def _names(given: list[str] | None) -> tuple[str, ...]:
    """Return the names of `-Q mail,default -Q bulk`, which are three."""
    return tuple(name.strip() for text in given or () for name in text.split(",") if name.strip())


def _app_version(text: str) -> str:
    if not 1 <= len(text) <= 100 or not text.isprintable():
        raise typer.BadParameter(f"{text[:100]!r} is not a text of 1 to 100 printable characters")
    return text


def _option(envvar: str, help_text: str, *names: str, **more: Any) -> Any:
    """Return an option that the environment of a service may set, too."""
    return typer.Option(*names, envvar=envvar, help=help_text, **more)


GraceOption = Annotated[
    float | None,
    _option(
        "HORSIES_SHUTDOWN_GRACE",
        "Time for running tasks to finish after SIGTERM or ctrl+c. auto: 8 s where a container runtime kills after "
        "10 s, otherwise 25 s, because Kubernetes kills after 30 s.",
        parser=_grace,
        metavar="auto|SECONDS",
        show_default="auto",
    ),
]
UnknownTasksOption = Annotated[
    UnknownTasksChoice | None,
    _option(
        "HORSIES_UNKNOWN_TASKS",
        "Waiting tasks whose names the application does not define: leave them for other workers, or fail them with "
        "WORKER_RESOLUTION_ERROR. Without this option, AppConfig.unknown_tasks decides.",
    ),
]
_QUEUE_HELP = "Serve only these queues of the application. May be repeated. Without it: all of them."
QueueOption = Annotated[list[str] | None, _option("HORSIES_QUEUE", _QUEUE_HELP, "--queue", "-Q", metavar="NAME[,NAME]")]
ExceptOption = Annotated[
    list[str] | None, _option("HORSIES_EXCEPT", "Serve all queues but these.", "--except", metavar="NAME[,NAME]")
]
ProcessesOption = Annotated[
    int, _option("HORSIES_PROCESSES", "Number of child processes; each runs one sync task at a time.", min=1)
]
AsyncConcurrencyOption = Annotated[
    int, _option("HORSIES_ASYNC_CONCURRENCY", "Number of `async def` tasks that one child runs at once.", min=1)
]
ClaimBatchOption = Annotated[
    int, _option("HORSIES_MAX_CLAIM_BATCH", "Maximum number of tasks to claim at once; 0: as many as fit.", min=0)
]
_KEEP_HELP = "Maximum number of claimed tasks that have not started; 0: as many as fit."
ClaimPerWorkerOption = Annotated[int, _option("HORSIES_MAX_CLAIM_PER_WORKER", _KEEP_HELP, min=0)]
_REPLACE_HELP = "Replace a child process after this many tasks, for tasks that leak memory."
TasksPerChildOption = Annotated[int | None, _option("HORSIES_MAX_TASKS_PER_CHILD", _REPLACE_HELP, min=1)]
AppVersionOption = Annotated[
    str | None,
    _option(
        "HORSIES_APP_VERSION",
        "The version of the application, as a release or a commit: the console marks where a new one starts. Without "
        "this option, AppConfig.version.",
        parser=_app_version,
        metavar="VERSION",
    ),
]
WithSchedulerOption = Annotated[
    bool, _option("HORSIES_WITH_SCHEDULER", "Also send the tasks of schedules.", "--with-scheduler")
]
_RELOAD_HELP = "For development: replace the children when Python files of the project change."
ReloadOption = Annotated[bool, _option("HORSIES_RELOAD", _RELOAD_HELP, "--reload")]
_METRICS_HELP = "Answer GET /metrics (for Prometheus), /healthz and /readyz (for Kubernetes) there; 0: any free port."
MetricsPortOption = Annotated[int | None, typer.Option(min=0, max=65535, help=_METRICS_HELP)]


def worker(
    module: ModuleArgument = None,
    module_option: ModuleOption = None,
    processes: ProcessesOption = 1,
    async_concurrency: AsyncConcurrencyOption = 100,
    queue: QueueOption = None,
    except_queue: ExceptOption = None,
    max_claim_batch: ClaimBatchOption = 0,
    max_claim_per_worker: ClaimPerWorkerOption = 0,
    max_tasks_per_child: TasksPerChildOption = None,
    shutdown_grace: GraceOption = None,
    unknown_tasks: UnknownTasksOption = None,
    app_version: AppVersionOption = None,
    with_scheduler: WithSchedulerOption = False,
    reload: ReloadOption = False,
    metrics_port: MetricsPortOption = None,
    metrics_host: ListenHostOption = "127.0.0.1",
    loglevel: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.HUMAN,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Run the tasks of an application until SIGTERM, SIGHUP or ctrl+c.

    The worker uses the database that the application configures, unless `--database-url`, `--context` or
    `HORSIES_DATABASE_URL` names another one; what its tasks send goes there, too. On the first signal it claims no more
    tasks, releases those that have not started, and lets running tasks finish; on the second it stops them at once. The
    exit code is 0 after a clean stop, and 1 if the outcomes of some tasks could not be stored; the log names these.
    """
    from horsies.run.settings import WorkerSettings

    settings = WorkerSettings(
        locator=only_module(module, module_option),
        processes=processes,
        async_concurrency=async_concurrency,
        queues=_names(queue),
        except_queues=_names(except_queue),
        max_claim_batch=max_claim_batch,
        max_claim_per_worker=max_claim_per_worker,
        max_tasks_per_child=max_tasks_per_child,
        shutdown_grace_ms=None if shutdown_grace is None else round(shutdown_grace * 1000),
        unknown_tasks=unknown_tasks.value if unknown_tasks else None,
        app_version=app_version,
        scheduler=with_scheduler,
        reload=reload,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
    )
    _work(settings, database_url, context, loglevel, log_format)


def _work(
    settings: WorkerSettings, database_url: str | None, context: str | None, loglevel: LogLevel, log_format: LogFormat
) -> None:
    """Work until stopped; people get a banner and, in a terminal, a live line, machines get neither."""
    import asyncio

    from horsies.run.events import Events
    from horsies.run.log_format import configure_logging
    from horsies.run.serve import serve
    from horsies.run.worker.worker import Worker

    line = _StatusLine(sys.stderr)
    human = log_format is LogFormat.HUMAN
    configure_logging(loglevel.value, line, as_json=not human)
    setproctitle(f"horsies: worker {mask_word(settings.locator)}")
    app = app_at_work(settings.locator, database_url, context)
    running = Worker(app, settings, Events())
    running.events.other_databases(app.database)
    live: list[asyncio.Task[None]] = []

    def on_ready() -> None:
        if human:
            say("horsies worker", *(f"  {name:<9} {value}" for name, value in _banner(running).items()))
        if human and sys.stderr.isatty():
            live.append(asyncio.create_task(_keep_up_to_date(line, running)))

    async def run() -> None:
        await serve(running, on_ready=on_ready)
        for task in live:
            task.cancel()

    asyncio.run(run())
    if running.lost:
        raise typer.Exit(1)


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
    human = log_format is LogFormat.HUMAN
    configure_logging(loglevel.value, logging.StreamHandler(sys.stderr), as_json=not human)
    setproctitle(f"horsies: scheduler {mask_word(locator)}")
    running = Scheduler(app_at_work(locator, database_url, context), Events())
    running.events.other_databases(running.app.database)

    def on_ready() -> None:
        schedules = [
            f"{schedule.name}: {schedule.target}, {schedule.pattern.words()} ({schedule.timezone})"
            for schedule in (one.schedule for one in running.schedules)
        ]
        lines = [
            ("app", f"{locator}, {counted(len(running.app.tasks), 'task')}"),
            ("database", running.database.label),
            *_chosen_lines(running.app.database).items(),
            *(("schedule", each) for each in schedules or [_NO_SCHEDULE]),
        ]
        say("horsies scheduler", *(f"  {name:<10} {value}" for name, value in lines))

    asyncio.run(serve(running, on_ready=on_ready if human else lambda: None))


def _chosen_lines(choice: DatabaseChoice) -> dict[str, str]:
    """Return, for a banner, why this database was chosen, if another might be expected."""
    others = "; ".join(f"{other.url}, {other.reason}" for other in choice.passed_over)
    return {"chosen": choice.reason, "not used": others} if others else {}


def _banner(running: Worker) -> dict[str, str]:
    config, settings = running.app.config, running.settings
    queues = ", ".join(
        f"{name} (at most {cap} at once)" if cap is not None else name
        for name, cap in running.flow.rules.queues.items()
    )
    children = f"{settings.processes} × 1 sync task, or {settings.async_concurrency} async tasks each"
    caps = [f"cluster {config.cluster_wide_cap}"] if config.cluster_wide_cap else []
    caps += [f"prefetch {config.prefetch_buffer}"] if config.prefetch_buffer else []
    lines = {
        "app": f"{settings.locator}, {counted(len(running.app.tasks), 'task')}",
        "database": f"{running.database.label}, {counted(running.connections, 'connection')}",
        **_chosen_lines(running.app.database),
        "queues": queues,
        "children": children,
        "limits": ", ".join(caps) or "none beyond the children",
        "stop": f"grace {settings.stop_times.drain_s:g}s: {settings.stop_times.why}",
        "worker": running.identity.worker_id,
    }
    if running.probes is not None:
        lines["metrics"] = f"{running.probes.url}/metrics"
    if running.schedules:
        lines["schedules"] = ", ".join(one.schedule.name for one in running.schedules)
    elif names := config.enabled_schedules:
        lines["schedules"] = f"{len(names)} not sent by this worker: run horsies scheduler, or add --with-scheduler"
    return lines | ({"warning": "; ".join(running.warnings)} if running.warnings else {})


class _StatusLine(logging.StreamHandler[TextIO]):
    """A log handler that keeps its last line: log records appear above it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if self._text:
            self._write(_CLEAR)
        super().emit(record)
        self._write(self._text)

    def show(self, text: str) -> None:
        self._text = clean(text)[: shutil.get_terminal_size().columns - 1]
        self._write(_CLEAR + self._text)

    def clear(self) -> None:
        self._text = ""
        self._write(_CLEAR)

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal was closed: that must not keep the worker from its stop
            self.stream.write(text)
            self.stream.flush()


async def _keep_up_to_date(line: _StatusLine, worker: Worker) -> None:
    """Redraw the line once a second until cancelled."""
    import asyncio

    from horsies.run.worker.in_flight import Stage

    finished, failed, then = worker.events.finished, worker.events.failed, time.monotonic()
    try:
        while True:
            await asyncio.sleep(_REDRAW_S)
            now, events = time.monotonic(), worker.events
            rate, bad = (events.finished - finished) / (now - then), (events.failed - failed) / (now - then)
            finished, failed, then = events.finished, events.failed, now
            state = "draining  " if worker.claimer.draining else ""
            state += "".join(f"stuck: {name} {since:.0f}s  " for name, since in worker.loops.stuck().items())
            line.show(
                f"{state}running {worker.flow.tasks.count(Stage.RUNNING)}  "
                f"claimed {worker.flow.tasks.count(Stage.CLAIMED)}  "
                f"done {rate:.0f}/s ({events.finished})  failed {bad:.0f}/s ({events.failed})  "
                f"memory {worker.snapshots.memory_mb:.0f} MB"
            )
    finally:
        line.clear()
