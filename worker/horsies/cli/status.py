"""`horsies status`: the cluster at a glance."""

from __future__ import annotations

from horsies.cli.options import ContextOption, DatabaseUrlOption, DebugOption, JsonOption, choose_existing


def status(
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Show workers, queues, and what is stuck.

    `--json` prints `now`, `database`, `workers`, `queues`, `ended`, `interrupted`, `tasks_in_table`, `findings` and
    `sweep`.
    """
    from horsies.cli.cluster_lists import tell_status

    tell_status(choose_existing(database_url, context), as_json=as_json)
