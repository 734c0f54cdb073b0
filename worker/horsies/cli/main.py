"""The entry point: the tree of commands, and the one place where errors become words and exit codes.

Exit codes: 0 done, 1 it failed and stderr says why and what to do, 2 the command line was wrong.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer
from setproctitle import setproctitle

import horsies
from horsies.cli import check, db, worker
from horsies.cli.options import DebugOption, debugging
from horsies.config.url import mask
from horsies.domain.errors import HorsiesError, render

app = typer.Typer(
    name="horsies",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(worker.worker)
app.command()(check.check)
app.add_typer(db.app)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"horsies {horsies.__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog="Start with `horsies db init`, then `horsies db status`: on a machine where no database is configured both "
    "use the embedded one.",
)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Background tasks and workflows on PostgreSQL.

    Every command finds its database the same way: `--database-url` or `--context`, then `HORSIES_DATABASE_URL`, then
    `DATABASE_URL`, then the default context of `~/.config/horsies/config.toml`, and last an embedded PostgreSQL in
    your data directory (`HORSIES_HOME` moves it). `horsies db status` says which was taken and why.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(1)


def main() -> None:
    """Run the command line; never returns."""
    _hide_passwords_from_process_list()
    try:
        app()
    except HorsiesError as error:
        if debugging.on:
            raise
        _fail(render(error, colour=_coloured()))
    except Exception as error:  # the outermost frame: whatever gets here is a bug of ours
        if debugging.on:
            raise
        _fail(f"error: {type(error).__name__}: {mask(str(error))}\n  = help: run the command again with --debug")


def _fail(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    sys.exit(1)


def _coloured() -> bool:
    if os.environ.get("HORSIES_FORCE_COLOR"):
        return True
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def _hide_passwords_from_process_list() -> None:
    """`--database-url` may hold a password, and `ps` shows the command line to everybody."""
    words = ["horsies", *sys.argv[1:]]
    if any(mask(word) != word for word in words):
        setproctitle(" ".join(map(mask, words)))
