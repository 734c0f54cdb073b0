"""The application: its configuration, its tasks, and its broker."""

from __future__ import annotations

import inspect
import logging
import threading
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from horsies import app_checks, registry
from horsies.broker import PostgresBroker
from horsies.config.app import DEFAULT_QUEUE
from horsies.config.contexts import DatabaseChoice
from horsies.domain.codec.classes import StorableClasses
from horsies.domain.errors import (
    ConfigurationError,
    ErrorCode,
    HorsiesError,
    SourceLocation,
    raise_collected,
    way_to_install,
)
from horsies.domain.states import OnError
from horsies.hooks import HookRegistry, require_event
from horsies.registry import TaskRegistry
from horsies.store.embedded import EmbeddedPlace, EmbeddedServer, acquire
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.task import define
from horsies.task.options import queue_problem
from horsies.task.sending import are_sends_suppressed, sending_many
from horsies.workflow.builders import WorkflowBuilder
from horsies.workflow.definition import declared_types, known_definitions
from horsies.workflow.spec import WorkflowSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import ParamSpec, Unpack

    from typing_extensions import TypeVar

    from horsies.config.app import AppConfig
    from horsies.domain.task_result import TaskResult
    from horsies.domain.trace import Tracing
    from horsies.handle import TaskHandle, TaskSendResult
    from horsies.hooks import (
        ChildStarted,
        ChildStopped,
        EventName,
        Hook,
        RunEnded,
        RunFailed,
        RunStarted,
        TaskFailed,
        TaskRetried,
        WorkerStarted,
        WorkerStopped,
    )
    from horsies.registry import AnyTask
    from horsies.task import TaskCall, TaskDecorator, TaskFunction, TaskOptions
    from horsies.workflow.definition import WorkflowDefinition
    from horsies.workflow.nodes import AnyNode, Node, NodeKey, SuccessPolicy

    P = ParamSpec("P")
    T = TypeVar("T")
    E = TypeVar("E")
    OutputT = TypeVar("OutputT", default=Any)
    FailedT = TypeVar("FailedT", bound=Hook[TaskFailed])
    RetriedT = TypeVar("RetriedT", bound=Hook[TaskRetried])
    StartedT = TypeVar("StartedT", bound=Hook[WorkerStarted])
    StoppedT = TypeVar("StoppedT", bound=Hook[WorkerStopped])
    ChildStartedT = TypeVar("ChildStartedT", bound=Hook[ChildStarted])
    ChildStoppedT = TypeVar("ChildStoppedT", bound=Hook[ChildStopped])
    RunStartedT = TypeVar("RunStartedT", bound=Hook[RunStarted])
    RunFailedT = TypeVar("RunFailedT", bound=Hook[RunFailed])
    RunEndedT = TypeVar("RunEndedT", bound=Hook[RunEnded])
    HookT = TypeVar("HookT", bound=Hook[Any])
    BuilderT = TypeVar("BuilderT", bound=Callable[..., WorkflowSpec[Any]])


class Horsies:
    """One object for a whole program, usable from any thread and any event loop.

    `config` is its AppConfig, `tasks` the registry of its tasks by name, and `logger` the logger `horsies`, which the
    engine logs to. `storable(Order, …)` allows values of these classes in its rows where no signature names them.
    """

    config: AppConfig
    tasks: TaskRegistry
    logger: logging.Logger

    def __init__(self, config: AppConfig) -> None:
        self.config = config
        self.tasks = TaskRegistry()
        self.storable = StorableClasses(self._declared_types, lambda: (len(self.tasks), len(known_definitions())))
        self.hooks = HookRegistry()
        self.logger = logging.getLogger("horsies")
        self._task_modules: list[str] = []
        self._builders: dict[str, WorkflowBuilder] = {}
        self._suppressed = False
        self.tracing: Tracing | None = None
        self._broker: PostgresBroker | None = None
        self._broker_lock = threading.Lock()
        self._embedded: EmbeddedServer | None = None
        self._database: DatabaseChoice | None = None

    @overload
    def task(self, task_name: str, func: None = None, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    @overload
    def task(
        self,
        task_name: str,
        func: Callable[P, Coroutine[Any, Any, TaskResult[T, E]]],
        **options: Unpack[TaskOptions],
    ) -> TaskFunction[P, T, E, Coroutine[Any, Any, TaskResult[T, E]]]: ...
    @overload
    def task(
        self, task_name: str, func: Callable[P, TaskResult[T, E]], **options: Unpack[TaskOptions]
    ) -> TaskFunction[P, T, E, TaskResult[T, E]]: ...
    def task(self, task_name: Any, func: Any = None, **options: Any) -> Any:
        """`@app.task("name")` turns a function into a task, as does `app.task("name", fn)`; see TaskOptions.

        All errors in the definition are reported at once.
        """
        caller = getattr(inspect.currentframe(), "f_back", None)
        names = {} if caller is None else caller.f_locals
        if func is None and not isinstance(task_name, str):
            func = task_name  # `@app.task` without parentheses: define() reports the missing name
        add = partial(self._add_task, task_name, options, names)
        return add if func is None else add(func)

    def _add_task(
        self, task_name: str, options: Mapping[str, Any], local_names: Mapping[str, Any], fn: Callable[..., Any]
    ) -> AnyTask:
        task = define(self, fn, task_name, options, local_names)
        self.tasks.register(task)
        return task

    def _declared_types(self) -> Iterator[Any]:
        for task in list(self.tasks.values()):
            yield from task.declared_types()
        yield from declared_types()

    def workflow(
        self,
        name: str,
        tasks: Sequence[AnyNode],
        on_error: OnError = OnError.FAIL,
        output: Node[OutputT] | NodeKey[OutputT] | str | None = None,
        success_policy: SuccessPolicy | None = None,
        *,
        definition_key: str | None = None,
        workflow_def_cls: type[WorkflowDefinition[Any]] | None = None,
    ) -> WorkflowSpec[OutputT]:
        """Check a graph of nodes and give each its queue; `.start()` runs it. All errors are reported at once.

        `definition_key` is the name under which stored workflows of this kind are found; it should never change.
        """
        return WorkflowSpec(
            name,
            tasks,
            on_error,
            output,  # type: ignore[arg-type]  # every Node is one of the three
            success_policy,
            definition_key,
            workflow_def_cls,
            app=self,
            resend_on_transient_err=self.config.resend_on_transient_err,
        )

    def workflow_builder(self, *, cases: Sequence[Mapping[str, Any]] | None = None) -> Callable[[BuilderT], BuilderT]:
        """Register a function that returns a workflow: `check` calls it with the arguments of each case."""

        def add(fn: BuilderT) -> BuilderT:
            builder = WorkflowBuilder(fn, cases)
            self._builders[builder.name] = builder
            return fn

        return add

    def get_workflow_builders(self) -> list[WorkflowBuilder]:
        return list(self._builders.values())

    @overload
    def on(self, event: Literal["task_failed"], hook: None = None) -> Callable[[FailedT], FailedT]: ...
    @overload
    def on(self, event: Literal["task_retried"], hook: None = None) -> Callable[[RetriedT], RetriedT]: ...
    @overload
    def on(self, event: Literal["worker_started"], hook: None = None) -> Callable[[StartedT], StartedT]: ...
    @overload
    def on(self, event: Literal["worker_stopped"], hook: None = None) -> Callable[[StoppedT], StoppedT]: ...
    @overload
    def on(self, event: Literal["child_started"], hook: None = None) -> Callable[[ChildStartedT], ChildStartedT]: ...
    @overload
    def on(self, event: Literal["child_stopped"], hook: None = None) -> Callable[[ChildStoppedT], ChildStoppedT]: ...
    @overload
    def on(self, event: Literal["run_started"], hook: None = None) -> Callable[[RunStartedT], RunStartedT]: ...
    @overload
    def on(self, event: Literal["run_failed"], hook: None = None) -> Callable[[RunFailedT], RunFailedT]: ...
    @overload
    def on(self, event: Literal["run_ended"], hook: None = None) -> Callable[[RunEndedT], RunEndedT]: ...
    @overload
    def on(self, event: EventName, hook: HookT) -> HookT: ...
    def on(self, event: Any, hook: Any = None) -> Any:
        """`@app.on("task_failed")` has workers call the function below with each such event; see horsies.hooks.

        Plain or `async def`. Hooks for children and runs are called in the child process, as a part of the run; the
        others in the worker's process, each in a thread of its own.
        """
        caller = getattr(inspect.currentframe(), "f_back", None)
        require_event(event, None if caller is None else SourceLocation(caller.f_code.co_filename, caller.f_lineno))

        def add(fn: Any) -> Any:
            self.hooks.add(event, fn)
            return fn

        return add if hook is None else add(hook)

    def list_tasks(self) -> list[str]:
        """Return the names of all tasks, in the order of their definition."""
        return list(self.tasks)

    def get_valid_queue_names(self) -> list[str]:
        return [queue.name for queue in self.config.custom_queues or ()] or [DEFAULT_QUEUE]

    def validate_queue_name(self, queue_name: str | None) -> None:
        """Raise ConfigurationError if no task of this application may be sent to that queue."""
        if (problem := queue_problem(self.config, queue_name)) is not None:
            raise problem

    def send_many(
        self, calls: Iterable[TaskCall], *, connection: object = None
    ) -> list[TaskSendResult[TaskHandle[Any]]]:
        """Store many tasks with one statement: `app.send_many([add.to_send(1, 2), add.to_send(3, 4)])`.

        One result per call, in their order; a call that cannot be sent does not prevent the others.
        """
        return drive_blocking(sending_many(self, calls, connection))

    async def send_many_async(
        self, calls: Iterable[TaskCall], *, connection: object = None
    ) -> list[TaskSendResult[TaskHandle[Any]]]:
        """`send_many` for a running event loop."""
        return await drive_awaited(sending_many(self, calls, connection))

    def suppress_sends(self, value: bool = True) -> None:
        """Suppress sends: while true, every send returns Err(SEND_SUPPRESSED)."""
        self._suppressed = value

    def are_sends_suppressed(self) -> bool:
        """Return whether suppress_sends(), TASKLIB_SUPPRESS_SENDS=1 or an import of task modules suppresses sends."""
        return self._suppressed or are_sends_suppressed()

    def discover_tasks(self, modules: Sequence[str]) -> None:
        """Record the modules of tasks: dotted names or paths of .py files. Workers and checks import them later."""
        if self._task_modules:
            self.logger.warning("discover_tasks() was called before; its modules are replaced")
        self._task_modules = list(modules)

    def expand_module_globs(self, patterns: Iterable[str], exclude: Sequence[str] | None = None) -> list[str]:
        """Return the matching .py files, for `discover_tasks`; test files are left out unless `exclude` is given."""
        return registry.expand_module_globs(patterns, registry.NOT_TASKS if exclude is None else exclude)

    def get_discovered_task_modules(self) -> list[str]:
        return list(self._task_modules)

    def import_task_modules(self, modules: Sequence[str] | None = None) -> None:
        """Import exactly these modules, or those of `discover_tasks`; all that fail are reported together."""
        raise_collected(app_checks.imported(self._task_modules if modules is None else modules)[1])

    def check(self, *, live: bool = False) -> list[HorsiesError]:
        """Return all errors that would keep a worker from running this application; `live` checks the database, too."""
        return app_checks.checked(self, live=live).errors

    def get_broker(self) -> PostgresBroker:
        """Return the application's broker, created on first use; it connects at its first operation."""
        if self._broker is None:
            with self._broker_lock:
                if self._broker is None:
                    self._broker = self._make_broker()
        return self._broker

    @property
    def database(self) -> DatabaseChoice:
        """The database of this application, and where its URL comes from."""
        return self._database or DatabaseChoice(self.config.broker.url, "configured as PostgresConfig.database_url")

    def use_database(self, choice: DatabaseChoice) -> None:
        """Use this database, for sends, too: a worker's command line may name another than the code."""
        assert choice.url is not None, "an application is configured with one"
        self._database = choice
        if choice.url.secret_text == self.config.broker.url.secret_text:
            return
        broker = self.config.broker.model_copy(update={"database_url": choice.url.secret_text})
        self.config = self.config.model_copy(update={"broker": broker})
        if self._broker is not None:
            self._broker.config = broker
            # A module that reads when it is imported has connected to the other one: that link would stay in use.
            self._broker.close()

    def database_url(self, driver: str | None = None) -> str:
        """Return the URL as other libraries want it: `create_async_engine(app.database_url("asyncpg"))`.

        An embedded server is started by the first call, and not stopped before the end of this process.
        """
        url = self.database.url
        assert url is not None, "an application is configured with one"
        text = url.secret_text
        if url.embedded_directory is not None:
            with self._broker_lock:
                if self._embedded is None:
                    self._embedded = acquire(EmbeddedPlace(url.embedded_directory))
            text = self._embedded.url
        scheme = "postgresql" if driver is None else f"postgresql+{driver}"
        return f"{scheme}://{text.partition('://')[2]}"

    def _make_broker(self) -> PostgresBroker:
        try:
            broker = PostgresBroker(self.config.broker, resend_on_transient_err=self.config.resend_on_transient_err)
        except (HorsiesError, OSError, RuntimeError, ValueError) as error:
            raise ConfigurationError(
                f"the broker cannot be made: {error}",
                code=ErrorCode.BROKER_INIT_FAILED,
                help_text="the process may have run out of threads or files",
            ) from error
        broker.app = self
        return broker

    def run_worker(self, **settings: Any) -> AbstractAsyncContextManager[Any]:
        """Run a worker in the running loop, for the lifespan of a web application: `async with app.run_worker(): …`.

        Takes the fields of WorkerSettings (processes, async_concurrency, shutdown_grace_ms, …). The application must be
        in a variable of a module, so that child processes can import it. After the block, `lost` of the worker has the
        ids of the tasks whose outcomes could not be stored.
        """
        # By name: the sending side must not import the worker, and a program that only sends should not load it.
        return import_module("horsies.run.worker.worker").run_worker(self, settings)  # type: ignore[no-any-return]

    def trace(self, tracer_provider: Any = None) -> None:
        """Record sends and runs as spans of OpenTelemetry, by the global provider or by this one.

        Call it where the application is defined, so that workers and their children do it too. Needs the extra `otel`.
        """
        # By name: without this call nothing of OpenTelemetry is loaded, and it need not be installed.
        try:
            module = import_module("horsies.tracing")
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("opentelemetry"):
                raise
            raise ConfigurationError(
                f"app.trace() needs OpenTelemetry: {error}", help_text=f"install it {way_to_install('otel')}"
            ) from error
        self.tracing = module.OpenTelemetry(tracer_provider)

    def set_role(self, role: str) -> None:
        """Name the role of this process in the log: producer, worker, scheduler."""
        self.logger.info("role: %s", role)
