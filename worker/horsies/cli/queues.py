"""`horsies queues`: list queues. The verbs are added from their records."""

from __future__ import annotations

import typer

from horsies.cli.options import (
    ApplicationOption,
    ContextOption,
    DatabaseUrlOption,
    DebugOption,
    JsonOption,
    choose_existing,
)

app = typer.Typer(name="queues", help="List queues, pause and resume them.", no_args_is_help=True)


@app.command("ls")
def ls(
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    module: ApplicationOption = None,
    debug: DebugOption = False,
) -> None:
    """List queues: how many tasks are due, scheduled, claimed and running, and the limits.

    `--json` prints `now` and `queues`.
    """
    from horsies.cli.cluster_lists import list_queues

    list_queues(choose_existing(database_url, context, module), as_json=as_json)
