"""`horsies workers`: list workers. The verbs are added from their records."""

from __future__ import annotations

from typing import Annotated

import typer

from horsies.cli.options import (
    ApplicationOption,
    ContextOption,
    DatabaseUrlOption,
    DebugOption,
    JsonOption,
    choose_existing,
)
from horsies.cli.verb_options import WorkerFilterHelpOption, WorkerFilterOption

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
    module: ApplicationOption = None,
    debug: DebugOption = False,
) -> None:
    """List workers that are alive, have tasks, or were seen in the last hour.

    `--json` prints `now`, `filter` and `workers`.
    """
    from horsies.cli.cluster_lists import list_workers

    text = " ".join([*([filter_text] if filter_text else []), *(words or ())])
    list_workers(choose_existing(database_url, context, module), text, everyone=everyone, as_json=as_json)
