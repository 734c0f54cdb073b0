"""Confirmation before changes in contexts where a mistake would be costly."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask, not even in a production context.", show_default=False)
]


def confirm_write(choice: DatabaseChoice, command: str, *, yes: bool) -> None:
    """A read-only context is never written; a production one only after its name was typed."""
    context = choice.context
    if context is None:
        return
    if context.read_only:
        raise ConfigurationError(
            f"context {context.shown_name!r} is read-only, so `horsies db {command}` will not change it",
            code=ErrorCode.CLI_INVALID_ARGS,
            help_text="use --dry-run to see what it would do, or another context that may write",
        )
    if context.production and not yes:
        name, label = context.shown_name, context.url.label
        typer.echo(f"{name} is a production database ({label}). Type its name to go on: ", nl=False, err=True)
        typed = sys.stdin.readline()
        if typed.strip() != context.name:
            why = "that is not the name" if typed else "there is no terminal to type the name in"
            raise ConfigurationError(
                f"nothing was changed: {why}",
                code=ErrorCode.CLI_INVALID_ARGS,
                help_text=f"type {name} when asked, or add --yes where there is no terminal",
            )
