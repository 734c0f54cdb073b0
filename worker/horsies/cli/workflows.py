"""`horsies workflows`: list workflows, and operator actions on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horsies.cli.confirm import YesOption
from horsies.cli.options import ContextOption, DatabaseUrlOption, DebugOption, JsonOption, ModuleOption, choose_existing
from horsies.cli.verb_options import (
    AfterOption,
    Asked,
    DryRunOption,
    LimitOption,
    MaskOption,
    NodeArgument,
    ReadOnlyOption,
    ReasonOption,
    WorkflowFilterHelpOption,
    WorkflowFilterOption,
    WorkflowIdArgument,
    WorkflowIdsArgument,
    fit_for_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    name="workflows",
    help="List and inspect workflows, and act on them.",
    no_args_is_help=True,
    epilog="Verbs show what would change and ask before they do it: `--dry-run` only shows, `--yes` does not ask. "
    "Exit codes: 0 all applied, 3 some refused, 4 nothing matched, 1 it failed, 2 the command line was wrong, "
    "130 interrupted.",
)


@app.command("ls")
def ls(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILTER", help="A filter: `status:failed name:order_* since:1h`."),
    ] = None,
    filter_text: WorkflowFilterOption = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
    filter_help: WorkflowFilterHelpOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """List workflows, newest first, a page at a time.

    NODES is how many nodes have ended, of how many. AGE counts from when it was sent, RUN from its start to its end or
    to now. `parent:no` leaves out sub-workflows. `--json` prints `now`, `filter`, `workflows` and `next`, the cursor of
    the next page or null.
    """
    from horsies.cli.workflow_list import list_workflows

    text = " ".join([*([filter_text] if filter_text else []), *(words or ())])
    list_workflows(choose_existing(database_url, context), text, limit=limit, after=after, as_json=as_json)


@app.command("show")
def show(
    workflow_id: WorkflowIdArgument,
    node: Annotated[
        str | None,
        typer.Option(
            "--node",
            metavar="NODE",
            help="One node of it, by node id or index, with its inputs and its result.",
            callback=fit_for_text,
            show_default=False,
        ),
    ] = None,
    mask: MaskOption = None,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Show everything that is stored about one workflow, or about one of its nodes.

    `--json` prints `now`, `workflow`, `nodes`, `result`, `error`, `success_policy`, `output_index`, `parent` and
    `audit`; with `--node` instead `now`, `workflow_id`, `workflow_name`, `workflow_status`, `node`, `args`, `kwargs`,
    `options`, `result`, `summary` and `audit`.
    """
    from horsies.cli.workflow_story import tell_node, tell_workflow

    choice = choose_existing(database_url, context)
    if node is None:
        tell_workflow(choice, workflow_id, mask or [], as_json=as_json)
    else:
        tell_node(choice, workflow_id, node, mask or [], as_json=as_json)


@app.command("graph")
def graph(
    workflow_id: WorkflowIdArgument,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print it as a Mermaid flowchart.", show_default=False)
    ] = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Draw the nodes of a workflow with their dependencies and states.

    `--json` prints `now`, `workflow`, `nodes` and `edges`, pairs of indexes.
    """
    from horsies.cli.workflow_graph import draw_workflow

    if mermaid and as_json:
        raise typer.BadParameter("--mermaid and --json are two formats; give one of them")
    draw_workflow(choose_existing(database_url, context), workflow_id, mermaid=mermaid, as_json=as_json)


def _on_workflows(verb: str) -> Callable[..., None]:
    """The command of a verb that has no arguments but workflows."""

    def command(
        ids: WorkflowIdsArgument = None,
        filter_text: WorkflowFilterOption = None,
        dry_run: DryRunOption = False,
        yes: YesOption = False,
        reason: ReasonOption = None,
        read_only: ReadOnlyOption = False,
        as_json: JsonOption = False,
        filter_help: WorkflowFilterHelpOption = False,
        database_url: DatabaseUrlOption = None,
        context: ContextOption = None,
        debug: DebugOption = False,
    ) -> None:
        from horsies.cli.workflow_verbs import act_on_workflows

        database, name = choose_existing(database_url, context), f"workflows {verb}"
        asked = Asked(database, name, reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
        act_on_workflows(asked, verb, ids, filter_text)

    return command


for _verb, _help in {
    "pause": "Let what runs end, and start nothing more, also in workflows below.",
    "resume": "Go on with paused workflows, also with those below. What has failed stays failed.",
    "cancel": "End workflows as CANCELLED, with those below and all their tasks.\n\n"
    "A RUNNING task is taken from its worker, which is told to stop it; what user code has done stays done.",
    "reconcile": "Put workflows right whose nodes are out of step with their tasks or with each other.\n\n"
    "Lists each repair before it does it. Workers do the same at every sweep.",
    "retry": "Run again what failed in a workflow, and what was skipped because of it; what went well is kept.",
    "rerun": "Start workflows that have ended once more from the beginning, as new ones.",
}.items():
    app.command(_verb, help=_help)(_on_workflows(_verb))


@app.command("skip")
def skip(
    workflow_id: WorkflowIdArgument,
    node: NodeArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Skip a node; what waits for it follows as its joins say."""
    from horsies.cli.workflow_verbs import act_on_node

    database = choose_existing(database_url, context)
    asked = Asked(database, "workflows skip", reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_node(asked, "skip", workflow_id, node)


@app.command("complete")
def complete(
    workflow_id: WorkflowIdArgument,
    node: NodeArgument,
    value: Annotated[
        str,
        typer.Option("--value", metavar="JSON", help='What it returns instead of its code: `{"rows": 12}`.'),
    ] = "null",
    module: ModuleOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    database_url: DatabaseUrlOption = None,
    context: ContextOption = None,
    debug: DebugOption = False,
) -> None:
    """Complete a node by hand, with a value in place of what its code would return.

    With `--module` the application is imported, and the value must fit the type that the task returns; without it,
    the value must only be JSON that can be read.
    """
    from horsies.cli.workflow_verbs import act_on_node

    database, name = choose_existing(database_url, context), "workflows complete"
    asked = Asked(database, name, reason, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json)
    act_on_node(asked, "complete", workflow_id, node, value=value, module=module)
