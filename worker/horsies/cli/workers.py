"""`horsies workers`: list workers. The verbs are added from their records."""

from __future__ import annotations

from typing import Annotated

import typer

from horsies.cli.options import (
    DatabaseOptions,
    JsonOption,
    on_database,
)
from horsies.cli.verb_options import WorkerFilterHelpOption, WorkerFilterOption

app = typer.Typer(
    name="workers",
    help="List workers, drain them, recover the tasks of lost ones, acknowledge losses.",
    no_args_is_help=True,
)


@app.command("ls")
@on_database
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
    *,
    database: DatabaseOptions,
) -> None:
    """List workers that are alive, have tasks, or were seen in the last hour.

    `--json` prints `now`, `filter` and `workers`.
    """
    from horsies.cli.cluster_lists import list_workers

    text = " ".join([*([filter_text] if filter_text else []), *(words or ())])
    list_workers(database.choose_existing(), text, everyone=everyone, as_json=as_json)
