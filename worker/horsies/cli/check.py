"""`horsies check`: would a worker start with this application?"""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from horsies.cli.options import DebugOption, LogLevel, ModuleArgument, ModuleOption, only_module
from horsies.domain.errors import MultipleValidationErrors, ValidationReport


def check(
    module: ModuleArgument = None,
    module_option: ModuleOption = None,
    loglevel: Annotated[LogLevel, typer.Option(case_sensitive=False)] = LogLevel.WARNING,
    live: Annotated[bool, typer.Option("--live", help="Also check the database.", show_default=False)] = False,
    debug: DebugOption = False,
) -> None:
    """Import an application and its task modules, and report everything that is wrong with them.

    Nothing is sent or stored. The exit code is 0 if a worker could start, otherwise 1.
    """
    from horsies.locate import locate_app
    from horsies.run.events import configure_logging

    configure_logging(loglevel.value, logging.StreamHandler(sys.stderr))
    app = locate_app(only_module(module, module_option))
    if errors := app.check(live=live):
        raise MultipleValidationErrors(ValidationReport(tuple(errors)))
    typer.echo(f"ok: all validations passed\n  {len(app.tasks)} task(s) registered")
