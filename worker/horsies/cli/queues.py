"""`horsies queues`: list queues. The verbs are added from their records."""

from __future__ import annotations

import typer

from horsies.cli.options import (
    DatabaseOptions,
    JsonOption,
    on_database,
)

app = typer.Typer(name="queues", help="List queues, pause and resume them.", no_args_is_help=True)


@app.command("ls")
@on_database
def ls(
    as_json: JsonOption = False,
    *,
    database: DatabaseOptions,
) -> None:
    """List queues: how many tasks are due, scheduled, claimed and running, and the limits.

    `--json` prints `now` and `queues`.
    """
    from horsies.cli.cluster_lists import list_queues

    list_queues(database.choose_existing(), as_json=as_json)
