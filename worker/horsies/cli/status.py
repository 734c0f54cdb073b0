"""`horsies status`: the cluster at a glance."""

from __future__ import annotations

from typing import Annotated

import typer

from horsies.cli.options import (
    DatabaseOptions,
    JsonOption,
    on_database,
)


@on_database
def status(
    chart: Annotated[
        bool, typer.Option("--chart", help="Also draw what ended, failed and waited in the last hour.")
    ] = False,
    as_json: JsonOption = False,
    *,
    database: DatabaseOptions,
) -> None:
    """Show workers, queues, and what is stuck.

    The exit code is 0, 1 if no worker is alive, and 75 if another session's lock is in the way. `--json` prints `now`,
    `database`, `workers`, `queues`, `ended`, `interrupted`, `tasks_in_table`, `findings` and `sweep`, and with
    `--chart` `last_hour`, a point for each minute.
    """
    from horsies.cli.cluster_lists import show_status

    show_status(database.choose_existing(), chart=chart, as_json=as_json)
