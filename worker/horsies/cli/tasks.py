"""`horsies tasks`: list tasks, and operator actions on them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from horsies.cli.confirm import YesOption
from horsies.cli.options import ContextOption, DatabaseUrlOption, DebugOption, JsonOption, choose_existing
from horsies.cli.verb_options import (
    AfterOption,
    Asked,
    DryRunOption,
    FilterHelpOption,
    FilterOption,
    LimitOption,
    MaskOption,
    ReadOnlyOption,
    ReasonOption,
    TaskIdsArgument,
    fit_for_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    name="tasks",
    help="List and inspect tasks, and act on them.",
    no_args_is_help=True,
    epilog="Verbs show what would change and ask before they do it: `--dry-run` only shows, `--yes` does not ask. "
    "Exit codes: 0 all applied, 3 some refused, 4 nothing matched, 1 it failed, 2 the command line was wrong, "
    "130 interrupted.",
)


class TaskOrder(StrEnum):
    """The values of horsies.views, which this module cannot import: `--help` must be quick."""

    NEWEST = "newest"
    OLDEST = "oldest"
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@app.command("ls")
def ls(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILTER", help="A filter: `status:failed queue:mail since:1h`."),
    ] = None,
    filter_text: FilterOption = None,
    sort: Annotated[
        TaskOrder | None,
        typer.Option(
            help="`waiting` is the order in which workers take them, `running` the longest first, `finished` the last "
            "to end first; each shows only the tasks that have what it sorts by. Without it: `newest`.",
            show_default=False,
        ),
    ] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
    filter_help: FilterHelpOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """List tasks, a page at a time.

    AGE counts from when it was sent, WAIT from when it was due to its start, RUN from its start to its end or to now.
    `--json` prints `now`, `filter`, `sort`, `tasks` and `next`, the cursor of the next page or null.
    """
    from horsies.cli.task_list import list_tasks

    text = " ".join([*([filter_text] if filter_text else []), *(words or ())])
    order = None if sort is None else sort.value
    list_tasks(choose_existing(database_url, context), text, order, limit=limit, after=after, as_json=as_json)


@app.command("show")
def show(
    task_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id, or how it begins or ends: `1cd6ba9a`.", callback=fit_for_text)
    ],
    mask: MaskOption = None,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Show everything that is stored about one task.

    Attempts with how long each waited and ran, heartbeats, why it waits, arguments and result, operator actions.
    `--json` prints `now`, `task`, `args`, `kwargs`, `options`, `result`, `failed_reason`, `attempts`,
    `earlier_attempts`, `executions`, `why`, `audit`, `reruns` and `workflow`.
    """
    from horsies.cli.task_story import tell_story

    tell_story(choose_existing(database_url, context), task_id, mask or [], as_json=as_json)


@app.command("requeue")
def requeue(
    ids: TaskIdsArgument = None,
    filter_text: FilterOption = None,
    fresh_budget: Annotated[
        bool,
        typer.Option("--fresh-budget", help="Grant all retries of its policy anew, not one run.", show_default=False),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    filter_help: FilterHelpOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Run tasks once more: what has ended, and what is claimed or runs.

    A RUNNING task is taken from its worker, which is told to stop it; until it has, user code may run twice at once.
    """
    from horsies.cli.task_verbs import act_on_tasks

    database = choose_existing(database_url, context)
    asked = Asked(database, "tasks requeue", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_tasks(asked, "requeue", ids, filter_text, fresh_budget=fresh_budget)


@app.command("rerun")
def rerun(
    ids: TaskIdsArgument = None,
    filter_text: FilterOption = None,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help='Other arguments: `[7, "eu"]`.', show_default=False)
    ] = None,
    kwargs: Annotated[
        str | None,
        typer.Option(
            "--kwargs", metavar="JSON", help='Other named arguments: `{"dry_run": true}`.', show_default=False
        ),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    filter_help: FilterHelpOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Send tasks that have ended again, as new tasks; the old ones keep their outcome.

    `--args` and `--kwargs` replace the arguments of one task; what is not given stays as it was.
    """
    from horsies.cli.task_verbs import act_on_tasks

    database = choose_existing(database_url, context)
    asked = Asked(database, "tasks rerun", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_tasks(asked, "rerun", ids, filter_text, args=args, kwargs=kwargs)


def _plain(verb: str) -> Callable[..., None]:
    """The command of a verb that has no arguments but tasks."""

    def command(
        ids: TaskIdsArgument = None,
        filter_text: FilterOption = None,
        dry_run: DryRunOption = False,
        yes: YesOption = False,
        reason: ReasonOption = None,
        read_only: ReadOnlyOption = False,
        as_json: JsonOption = False,
        filter_help: FilterHelpOption = False,
        database_url: DatabaseUrlOption = None,
        context: ContextOption = None,
        debug: DebugOption = False,
    ) -> None:
        from horsies.cli.task_verbs import act_on_tasks

        database = choose_existing(database_url, context)
        asked = Asked(database, f"tasks {verb}", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
        act_on_tasks(asked, verb, ids, filter_text)

    return command


for _verb, _help in {
    "fail": "End tasks as FAILED with OPERATOR_FAILED: what waits, is claimed or runs.\n\n"
    "A RUNNING task is taken from its worker, which is told to stop it; what user code has done stays done.",
    "cancel": "End tasks as CANCELLED: what waits, is claimed or runs.\n\n"
    "A RUNNING task is taken from its worker, which is told to stop it; what user code has done stays done.",
    "retry-now": "Make tasks due that wait for their next try or for their time.",
    "release": "Put claimed tasks that have not started back into their queue.",
    "expire": "End waiting tasks whose `good_until` has passed, as the next sweep would.",
}.items():
    app.command(_verb, help=_help)(_plain(_verb))
