"""Confirmation before changes in contexts where a mistake would be costly."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from horsies.display.terminal import ask
from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from horsies.config.contexts import Context, DatabaseChoice

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
        _ask_for_the_name(context, f"type {context.shown_name} when asked, or add --yes where there is no terminal")


def confirm_service(choice: DatabaseChoice) -> None:
    """A worker or a scheduler on a database that a person named: never on a read-only context.

    On a production one after its name was typed; a service manager, which has no terminal to type in, is not asked.
    """
    context = choice.context
    if context is None:
        return
    if context.read_only:
        raise ConfigurationError(
            f"context {context.shown_name!r} is read-only, and a worker or a scheduler writes",
            code=ErrorCode.CLI_INVALID_ARGS,
            help_text="name another context, or the database that the application is configured for by naming none",
        )
    if context.production and sys.stdin.isatty():
        _ask_for_the_name(context, f"type {context.shown_name} when asked")


def _ask_for_the_name(context: Context, help_text: str) -> None:
    name, label = context.shown_name, context.url.label
    typed = ask(f"{name} is a production database ({label}). Type its name to continue:")
    if typed.strip() != context.name:
        why = "that is not the name" if typed else "there is no terminal to type the name in"
        raise ConfigurationError(f"nothing was changed: {why}", code=ErrorCode.CLI_INVALID_ARGS, help_text=help_text)
