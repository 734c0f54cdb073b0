"""The entry point: the tree of commands, and the one place where errors become words and exit codes.

Exit codes: 0 done, 1 it failed and stderr says why and what to do, 2 the command line was wrong, 75 a lock of another
session is in the way: try again when it has ended.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from setproctitle import setproctitle
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import horsies
from horsies.cli import check, db, demo, new, tui, worker
from horsies.cli.cluster import commands as cluster
from horsies.cli.database import advised
from horsies.cli.options import DebugOption, debugging
from horsies.cli.recovery import commands as recovery, doctor
from horsies.cli.tasks import commands as tasks
from horsies.cli.workflows import commands as workflows
from horsies.display.terminal import say, say_error
from horsies.domain.errors import HorsiesError
from horsies.domain.masking import mask, mask_urls, mask_word
from horsies.domain.plain_text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUPS = {
    "tasks": tasks.app,
    "workflows": workflows.app,
    "workers": cluster.workers,
    "queues": cluster.queues,
    "schedules": cluster.schedules,
    "recovery": recovery.recovery,
    "sessions": recovery.sessions,
    "audit": recovery.audit,
    "db": db.app,
}

_MARKUP: Final = "markdown"
# UsageError: click's, or typer's own in releases that bundle click.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]


class GroupsOnDemand(TyperGroup):
    """Commands and groups; `--help` shows a group by a sentence: loading its commands took 20 of 150 ms."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, group in _GROUPS.items():
            self.commands[name] = TyperCommand(name, help=group.info.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        group = _GROUPS.get(name or "")
        return name, command if group is None else _whole(group), rest

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _plain_usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _plain_usage_errors():
            return super().invoke(ctx)


@contextmanager
def _plain_usage_errors() -> Iterator[None]:
    """Mask a wrong word of the command line, which is quoted: it may be a URL, or text that a program has put there."""
    try:
        yield
    except _UsageError as error:
        error.message = clean(mask(mask_urls(error.message)))
        raise


@cache
def _whole(group: typer.Typer) -> Any:
    """Return the group with the commands of its verbs."""
    from horsies.cli.verbs.commands import add_verbs

    add_verbs(group)
    above = typer.Typer(rich_markup_mode=_MARKUP)
    above.add_typer(group, name="it")
    commands: Any = get_command(above)
    return commands.commands["it"]


app = typer.Typer(
    cls=GroupsOnDemand,
    name="horsies",
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(worker.worker)
app.command()(worker.scheduler)
app.command()(cluster.metrics)
app.command()(check.check)
app.command()(tui.tui)
app.command()(demo.demo)
app.command()(new.new)
app.command()(cluster.status)
app.command()(doctor.doctor)


def _show_version(value: bool) -> None:
    if value:
        say(f"horsies {horsies.__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog="To try everything: `horsies demo`. For a project of your own: `horsies new shop`. To begin: "
    "`horsies db init`, then `horsies db status`. Where no database is configured, both use the embedded one.",
)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Background tasks and workflows on PostgreSQL.

    Every command finds its database the same way, `worker` and `scheduler` too: `--database-url` or `--context`, then
    `HORSIES_DATABASE_URL`, then that of the application which `--module` or an argument names, then `DATABASE_URL`,
    then the default context of `~/.config/horsies/config.toml`, and last an embedded PostgreSQL in your data directory
    (`HORSIES_HOME` moves it). `horsies db status` shows which one was chosen and why, and which were not.
    """
    if context.invoked_subcommand is None:
        say(*context.get_help().splitlines())
        raise typer.Exit(1)


def main() -> None:
    """Run the command line; never returns."""
    _hide_passwords_from_process_list()
    try:
        app()
    except Exception as error:  # noqa: BLE001 - the outermost frame
        say_failure(error)
        sys.exit(exit_code(error))
    sys.exit(1)


def exit_code(error: Exception) -> int:
    from horsies.findings.blockers import BlockedError

    return os.EX_TEMPFAIL if isinstance(error, BlockedError) else 1


def say_failure(error: Exception) -> None:
    """Print why a command failed, and what to do; with `--debug` where."""
    if debugging.on:
        first, *others = "".join(traceback.format_exception(error)).rstrip().split("\n")
        say(first, *(f"  {line}" for line in others), stream=sys.stderr)
    elif isinstance(error, HorsiesError):
        say_error(error, advised)
    else:
        what = f"{type(error).__name__}: {mask(str(error))}"
        say_error(HorsiesError(what, help_text="run the command again with --debug"))


def _hide_passwords_from_process_list() -> None:
    """Mask the command line that `ps` shows to every user: `--database-url` may contain a password."""
    words = ["horsies", *sys.argv[1:]]
    masked = [_masked(word) for word in words]
    if masked != words:
        # Bytes that are no UTF-8 are surrogates in argv, and setproctitle raises on those.
        setproctitle(" ".join(masked).encode(errors="replace").decode())


def _masked(word: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + mask_word(value)
