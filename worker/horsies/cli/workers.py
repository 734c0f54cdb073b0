"""`horsies workers`: list workers, and give them orders."""

from __future__ import annotations

from typing import Annotated

import typer

from horsies.cli.confirm import YesOption
from horsies.cli.options import ContextOption, DatabaseUrlOption, DebugOption, JsonOption, choose_existing
from horsies.cli.verb_options import (
    Asked,
    DryRunOption,
    ReadOnlyOption,
    ReasonOption,
    WorkerFilterHelpOption,
    WorkerFilterOption,
    WorkerIdsArgument,
)

app = typer.Typer(
    name="workers",
    help="List workers, drain them, recover the tasks of lost ones, acknowledge losses.",
    no_args_is_help=True,
)


@app.command("ls")
def ls(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILTER", help="A filter: `status:lost host:web-* has:tasks`."),
    ] = None,
    filter_text: WorkerFilterOption = None,
    everyone: Annotated[
        bool,
        typer.Option("--all", help="Also list workers that were last seen more than an hour ago.", show_default=False),
    ] = False,
    as_json: JsonOption = False,
    filter_help: WorkerFilterHelpOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """List workers that are alive, have tasks, or were seen in the last hour.

    `--json` prints `now`, `filter` and `workers`.
    """
    from horsies.cli.cluster_lists import list_workers

    text = " ".join([*([filter_text] if filter_text else []), *(words or ())])
    list_workers(choose_existing(database_url, context), text, everyone=everyone, as_json=as_json)


@app.command("recover")
def recover(
    workers: WorkerIdsArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Put right what dead workers held, now and not when the sweep finds it stale.

    What they had claimed goes back to its queue; what they ran is tried again where its policy lists WORKER_CRASHED,
    and fails otherwise. A worker that lives is refused.
    """
    from horsies.cli.cluster_verbs import act_on_workers

    database = choose_existing(database_url, context)
    asked = Asked(database, "workers recover", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_workers(asked, "recover", workers)


@app.command("acknowledge")
def acknowledge(
    workers: WorkerIdsArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Say that the death of workers was seen, and what failed with them: no task changes.

    Until then `horsies recovery ls` and the console show what each of them held and what became of it.
    """
    from horsies.cli.cluster_verbs import act_on_workers

    database = choose_existing(database_url, context)
    verb = "workers acknowledge"
    asked = Asked(database, verb, reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_workers(asked, "acknowledge", workers)


@app.command("drain")
def drain(
    workers: WorkerIdsArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Let workers claim nothing more and end what they run, for example before a deploy."""
    from horsies.cli.cluster_verbs import act_on_workers

    database = choose_existing(database_url, context)
    asked = Asked(database, "workers drain", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_workers(asked, "drain", workers)


@app.command("resume")
def resume(
    workers: WorkerIdsArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Let workers that drain claim again."""
    from horsies.cli.cluster_verbs import act_on_workers

    database = choose_existing(database_url, context)
    asked = Asked(database, "workers resume", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_workers(asked, "resume", workers)
