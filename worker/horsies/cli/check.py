"""`horsies check`: report whether a worker would start with this application."""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import Annotated, Any

import typer

from horsies.cli.database import choose_for, only_module
from horsies.cli.options import (
    ContextOption,
    DatabaseUrlOption,
    DebugOption,
    JsonOption,
    LogLevel,
    ModuleArgument,
    ModuleOption,
    OwnLogLevelOption,
)
from horsies.display.terminal import say
from horsies.domain.errors import HorsiesError, flatten


def check(
    module: ModuleArgument = None,
    module_option: ModuleOption = None,
    loglevel: OwnLogLevelOption = LogLevel.WARNING,
    live: Annotated[bool, typer.Option("--live", help="Also check the database and its tables.")] = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Import an application and its task modules, and report everything that is wrong with them.

    Workflows are built with the cases of their builders, and sub-workflows with the arguments that their parents give
    them; definitions whose arguments nobody gives are listed as not checked. Nothing is sent or stored.
    `horsies worker` and `horsies scheduler` begin with the same check. The exit code is 0 if a worker could start, 1 if
    not, and 2 for a wrong command line.
    """
    from horsies.display.json_output import print_json
    from horsies.locate import checked_app
    from horsies.run.log_format import configure_logging

    configure_logging(loglevel.value, logging.StreamHandler(sys.stderr))
    try:
        locator = only_module(module, module_option)
        located = partial(choose_for, locator=locator, database_url=database_url, context=context)
        app, unbuilt = checked_app(locator, live=live, located=located)
    except HorsiesError as error:
        if not as_json:
            raise
        print_json({"ok": False, "tasks": None, "unchecked": [], "errors": map(_as_json, flatten([error]))})
        raise typer.Exit(1) from None
    if as_json:
        print_json({"ok": True, "tasks": len(app.tasks), "unchecked": unbuilt, "errors": []})
    else:
        unchecked = (f"  not checked: {one}" for one in unbuilt)
        say("ok: all validations passed", f"  {len(app.tasks)} task(s) registered", *unchecked)


def _as_json(error: HorsiesError) -> dict[str, Any]:
    place, location = error.location, None
    if place is not None:
        column, end_column = place.columns
        span = {"line": place.line, "column": column, "end_column": end_column}
        location = {"file": place.file, **span, "source": place.source}
    return {
        "code": error.code.value if error.code else None,
        "name": error.code.name if error.code else None,
        "message": error.message,
        "location": location,
        "notes": error.notes,
        "help": error.help_text,
    }
