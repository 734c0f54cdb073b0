"""`horsies audit`: list operator actions. The verb that undoes them is added from its record."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from horsies.cli.options import DatabaseOptions, JsonOption, on_database
from horsies.cli.verbs.options import AfterOption, LimitOption, fit_for_text

app = typer.Typer(name="audit", help="List operator actions, and undo them.", no_args_is_help=True)


def _about(name: str, metavar: str, help_text: str) -> Any:
    return typer.Option(name, metavar=metavar, help=help_text, callback=fit_for_text)


@app.command("ls")
@on_database
def ls(
    operation: Annotated[str | None, _about("--operation", "ID", "Each row of one operation, by its id.")] = None,
    task: Annotated[str | None, _about("--task", "ID", "What was done to one task.")] = None,
    worker: Annotated[str | None, _about("--worker", "ID", "What was done to one worker.")] = None,
    queue: Annotated[str | None, _about("--queue", "NAME", "What was done to one queue.")] = None,
    schedule: Annotated[str | None, _about("--schedule", "NAME", "What was done to one schedule.")] = None,
    workflow: Annotated[str | None, _about("--workflow", "ID", "What was done to one workflow.")] = None,
    node: Annotated[str | None, _about("--node", "WORKFLOW:INDEX", "What was done to one node of a workflow.")] = None,
    since: Annotated[str | None, _about("--since", "TIME", "So long ago at most, or since a day or time: 12h.")] = None,
    by: Annotated[str | None, _about("--by", "WHO", "By this user, user@host, host or database role.")] = None,
    verb: Annotated[str | None, _about("--verb", "VERB", "Operations with this verb, for example requeue.")] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
    *,
    database: DatabaseOptions,
) -> None:
    """List operator actions, newest first: one line for each operation with its totals, or each row of what is named.

    `--json` prints `now`, `operations` (or for what is named `actions`, each row with its state before and after) and
    `next`, the cursor of the next page or null.
    """
    from horsies.cli.recovery.audit_lists import list_actions, list_operations

    targets = {"task": task, "worker": worker, "queue": queue, "schedule": schedule, "workflow": workflow, "node": node}
    given = [(kind, name) for kind, name in targets.items() if name is not None]
    if len(given) > 1:
        raise typer.BadParameter("give one of --task, --worker, --queue, --schedule, --workflow and --node")
    target = given[0] if given else None
    narrowed = {key: text for key, text in {"since": since, "by": by, "verb": verb}.items() if text is not None}
    choice = database.choose_existing()
    if operation is None and target is None:
        list_operations(choice, narrowed, limit=limit, after=after, as_json=as_json)
    elif narrowed:
        raise typer.BadParameter(f"--{next(iter(narrowed))} chooses operations; leave it out where one thing is named")
    else:
        list_actions(choice, operation, target, limit=limit, after=after, as_json=as_json)
