"""`horsies queues`: list, pause and resume them."""

from __future__ import annotations

import typer

from horsies.cli.confirm import YesOption
from horsies.cli.options import ContextOption, DatabaseUrlOption, DebugOption, JsonOption, choose_existing
from horsies.cli.verb_options import Asked, DryRunOption, QueuesArgument, ReadOnlyOption, ReasonOption

app = typer.Typer(name="queues", help="List queues, pause and resume them.", no_args_is_help=True)


@app.command("ls")
def ls(
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """List queues: how many tasks are due, scheduled, claimed and running, and the limits.

    `--json` prints `now` and `queues`.
    """
    from horsies.cli.cluster_lists import list_queues

    list_queues(choose_existing(database_url, context), as_json=as_json)


@app.command("pause")
def pause(
    queues: QueuesArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Let nobody claim from queues until they are resumed; what runs goes on."""
    from horsies.cli.cluster_verbs import act_on_queues

    database = choose_existing(database_url, context)
    asked = Asked(database, "queues pause", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_queues(asked, "pause", queues)


@app.command("resume")
def resume(
    queues: QueuesArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Let paused queues go on; their workers are woken."""
    from horsies.cli.cluster_verbs import act_on_queues

    database = choose_existing(database_url, context)
    asked = Asked(database, "queues resume", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_queues(asked, "resume", queues)
