"""The worker inside another program, for example a web server: `async with app.run_worker(): …`."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horsies.app_checks import checked
from horsies.domain.errors import ConfigurationError, ErrorCode, MultipleValidationErrors, ValidationReport
from horsies.run.events import Events
from horsies.run.settings import WorkerSettings
from horsies.run.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import ModuleType

    from horsies.app import Horsies


@asynccontextmanager
async def run_worker(app: Horsies, settings: dict[str, Any]) -> AsyncIterator[Worker]:
    """Start a worker in the running loop, and stop it as SIGTERM would at the end of the block.

    MultipleValidationErrors for an application that `horsies check` refuses, before anything is claimed.
    """
    if errors := checked(app, live=False, located_in=_holder(app)).errors:
        raise MultipleValidationErrors(ValidationReport(tuple(errors)))
    settings = {"locator": settings.pop("locator", None) or locator_of(app), **settings}
    worker = Worker(app, WorkerSettings(**settings), Events())
    try:
        await worker.start()
    except BaseException:
        await worker.abort()
        raise
    try:
        yield worker
    finally:
        await worker.stop()


def locator_of(app: Horsies) -> str:
    """Return how a child finds this application: by the module that holds it, else by the file of the program itself.

    That file may well start a server when it is imported.
    """
    variables = _variables(app)
    for module, attribute in variables:
        if module.__name__ != "__main__":
            return f"{module.__name__}:{attribute}"
    for module, attribute in variables:
        if file := getattr(module, "__file__", None):
            return f"{Path(file).absolute()}:{attribute}"
    raise ConfigurationError(
        "no module holds this application in a variable, so child processes could not import it",
        code=ErrorCode.CLI_INVALID_ARGS,
        help_text='assign it at the top of a module, or say where it is: app.run_worker(locator="shop.tasks:app")',
    )


def _variables(app: Horsies) -> list[tuple[ModuleType, str]]:
    """The variables of modules that hold it."""
    return [
        (module, attribute)
        for module in list(sys.modules.values())
        for attribute, value in list(getattr(module, "__dict__", {}).items())
        if value is app
    ]


def _holder(app: Horsies) -> ModuleType | None:
    """The module that a command line would name for it: it may have workflows, and no task."""
    return next((module for module, _ in _variables(app)), None)
