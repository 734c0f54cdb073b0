"""The phases of `app.check()`, which stops after the first phase with errors."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from horsies.domain.codes import BUILTIN_CODE_REGISTRY, OperationalErrorCode
from horsies.domain.errors import ConfigurationError, ErrorCode, HorsiesError, TaskDefinitionError, flatten
from horsies.registry import import_reference
from horsies.store.connect import DatabaseUnavailable, open_database
from horsies.store.schema import SchemaError, SchemaKind, inspect_schema
from horsies.task import sends_suppressed
from horsies.task.scheduled import schedule_errors
from horsies.workflow.builders import TrialBuilds, definition_errors, undecorated_errors
from horsies.workflow.spec import WorkflowApp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    from horsies.config.app import AppConfig
    from horsies.config.contexts import DatabaseChoice
    from horsies.registry import AnyTask, TaskRegistry
    from horsies.workflow.builders import WorkflowBuilder


_FIT: Final = (SchemaKind.CURRENT, SchemaKind.EMPTY)
"""A worker creates the tables in an empty database."""


class CheckedApp(WorkflowApp, Protocol):
    """The part of an application that a check reads."""

    tasks: TaskRegistry

    @property
    def database(self) -> DatabaseChoice: ...

    def get_discovered_task_modules(self) -> list[str]: ...

    def get_workflow_builders(self) -> list[WorkflowBuilder]: ...


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check. `unbuilt`: the workflow definitions that it could not build, with the reasons."""

    errors: list[HorsiesError]
    unbuilt: list[str] = field(default_factory=list)


def checked(app: CheckedApp, *, live: bool, located_in: ModuleType | None = None) -> Checked:
    """Return the errors of the first phase that finds any.

    The phases: modules that cannot be imported, definitions without a key, workflows that cannot be built, functions
    that return workflows but are not checked, tasks, schedules, and if `live` the database.

    It searches for workflows in the discovered modules, in the modules of tasks and builders, and in the module in
    which a command line found the application.
    """
    modules, errors = imported(app.get_discovered_task_modules())
    if errors:
        return Checked(errors)
    builders = app.get_workflow_builders()
    functions = [*app.tasks.values(), *(builder.fn for builder in builders)]
    found = [*modules, located_in, *(sys.modules.get(function.__module__) for function in functions)]
    modules = list(dict.fromkeys(module for module in found if module is not None))
    workflows = _workflows(app, builders, modules)
    errors = (
        workflows.errors
        or _task_errors(app.config, app.tasks)
        or schedule_errors(app, app.tasks)
        or (_database_errors(app) if live else [])
    )
    return Checked(errors, workflows.unbuilt)


def imported(references: Iterable[str]) -> tuple[list[ModuleType], list[HorsiesError]]:
    """Import every module, with sends suppressed; after a failure the others are tried, too."""
    modules: list[ModuleType] = []
    errors: list[HorsiesError] = []
    with sends_suppressed():
        for reference in references:
            try:
                modules.append(import_reference(reference))
            except HorsiesError as error:
                errors.extend(flatten([error]))
    return modules, errors


def _workflows(app: WorkflowApp, builders: Sequence[WorkflowBuilder], modules: Sequence[ModuleType]) -> Checked:
    """Check that every definition has a key, that every workflow can be built, and that no builder is left out."""
    if errors := definition_errors(modules):
        return Checked(errors)
    trial = TrialBuilds(app)
    with sends_suppressed():
        trial.run(builders, modules)
        return Checked(trial.errors or undecorated_errors(builders, modules), trial.unbuilt)


def _task_errors(config: AppConfig, tasks: TaskRegistry) -> list[HorsiesError]:
    """Return errors for user codes that equal built-in ones, and for return types that cannot be checked."""
    errors: list[HorsiesError] = [
        error.with_location(config.defined_at())
        for error in _reserved_codes("AppConfig", config.exception_mapper, config.default_unhandled_error_code)
    ]
    for task in tasks.values():
        mapper, default = task.exception_mapper or {}, task.default_unhandled_error_code
        own = [*_reserved_codes(f"task {task.task_name!r}", mapper, default), *_unusable_return_types(task)]
        errors.extend(error.with_location(task.location) for error in own)
    return errors


def _reserved_codes(
    where: str, mapper: Mapping[type[BaseException], str], default: str | None
) -> Iterable[HorsiesError]:
    for kind, code in mapper.items():
        if code in BUILTIN_CODE_REGISTRY:
            yield _reserved(f"exception_mapper of {where} turns {kind.__name__} into the built-in code {code}")
    if default in BUILTIN_CODE_REGISTRY and default != OperationalErrorCode.UNHANDLED_EXCEPTION:
        yield _reserved(f"default_unhandled_error_code of {where} is the built-in code {default}")


def _reserved(message: str) -> ConfigurationError:
    return ConfigurationError(
        message,
        code=ErrorCode.CHECK_RESERVED_CODE_COLLISION,
        notes=["readers of results could not distinguish it from an error of horsies itself"],
        help_text="choose a code of your own",
    )


def _unusable_return_types(task: AnyTask) -> Iterable[HorsiesError]:
    if (reason := task.return_type.why_unusable()) is not None:
        yield TaskDefinitionError(
            f"values cannot be checked against the return type of task {task.task_name!r}: {reason}",
            code=ErrorCode.TASK_INVALID_RETURN_TYPE,
            help_text="write -> TaskResult[T, E] with classes, or with types that pydantic knows",
        )


def _database_errors(app: CheckedApp) -> list[HorsiesError]:
    """Return why the database does not answer a query, or why its tables are not those that a worker needs."""
    with ThreadPoolExecutor(1) as thread:  # the caller may be inside an event loop
        return thread.submit(asyncio.run, _ask_database(app)).result()


async def _ask_database(app: CheckedApp) -> list[HorsiesError]:
    try:
        async with open_database(app.database) as database:
            connection = await database.connect("check")
            try:
                await connection.execute("SELECT 1")
                state = await inspect_schema(connection)
            finally:
                await connection.close()
    except (DatabaseUnavailable, SchemaError) as error:
        return [error.with_location(app.config.broker.defined_at())]
    return [] if state.kind in _FIT else [state.error.with_location(app.config.broker.defined_at())]
