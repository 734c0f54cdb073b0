"""`horsies workflows`: list workflows, and show one. The verbs are added from their records."""

from __future__ import annotations

from typing import Annotated

import typer

from horsies.cli.database import DatabaseOptions, on_database
from horsies.cli.options import (
    VERBS_EPILOG,
    AfterOption,
    ExportFormat,
    ExportFormatOption,
    ExportPathArgument,
    JsonOption,
    LimitOption,
    MaskOption,
    WorkflowFilterHelpOption,
    WorkflowFilterOption,
    WorkflowIdArgument,
    filter_words,
    joined_filter,
    text_option,
)

app = typer.Typer(
    name="workflows", help="List and inspect workflows, and act on them.", no_args_is_help=True, epilog=VERBS_EPILOG
)


@app.command("ls")
@on_database
def ls(
    database: DatabaseOptions,
    words: Annotated[list[str] | None, filter_words("status:failed name:order_* since:1h")] = None,
    filter_text: WorkflowFilterOption = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
    filter_help: WorkflowFilterHelpOption = False,
) -> None:
    """List workflows, newest first, a page at a time.

    NODES is how many nodes have ended, of how many. AGE counts from when it was sent, RUN from its start to its end or
    to now. `parent:no` leaves out sub-workflows. `--json` prints `now`, `filter`, `workflows` and `next`, the cursor of
    the next page or null.
    """
    from horsies.cli.workflows.show import list_workflows

    text = joined_filter(filter_text, words)
    list_workflows(database.choose_existing(), text, limit=limit, after=after, as_json=as_json)


@app.command("export")
@on_database
def export(
    database: DatabaseOptions,
    path: ExportPathArgument = None,
    filter_text: WorkflowFilterOption = None,
    form: ExportFormatOption = ExportFormat.CSV,
    filter_help: WorkflowFilterHelpOption = False,
) -> None:
    """Write every workflow that matches as CSV or as JSON lines, to a new file or to standard output.

    As `tasks export` does; `parent:no` leaves out sub-workflows.
    """
    from horsies.cli.reading import understood, write_export
    from horsies.display.exporting import workflows_export
    from horsies.query import parse_workflows

    choice = database.choose_existing()
    write_export(choice, workflows_export(understood(filter_text or "", parse_workflows)), form.value, path)


@app.command("show")
@on_database
def show(
    database: DatabaseOptions,
    workflow_id: WorkflowIdArgument,
    node: Annotated[
        str | None,
        text_option("--node", "NODE", "One node of it, by node id or index, with its inputs and its result."),
    ] = None,
    mask: MaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything that is stored about one workflow, or about one of its nodes.

    `--json` prints `now`, `workflow`, `nodes`, `result`, `error`, `success_policy`, `output_index`, `parent` and
    `audit`; with `--node` instead `now`, `workflow_id`, `workflow_name`, `workflow_status`, `node`, `args`, `kwargs`,
    `options`, `result`, `summary` and `audit`.
    """
    from horsies.cli.workflows.show import show_node, show_workflow_story

    choice = database.choose_existing()
    if node is None:
        show_workflow_story(choice, workflow_id, mask or [], as_json=as_json)
    else:
        show_node(choice, workflow_id, node, mask or [], as_json=as_json)


@app.command("graph")
@on_database
def graph(
    database: DatabaseOptions,
    workflow_id: WorkflowIdArgument,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print it as a Mermaid flowchart.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw the nodes of a workflow with their dependencies and states.

    `--json` prints `now`, `workflow`, `nodes` and `edges`, pairs of indexes.
    """
    from horsies.cli.workflows.graph import draw_workflow

    if mermaid and as_json:
        raise typer.BadParameter("--mermaid and --json are two formats; give one of them")
    draw_workflow(database.choose_existing(), workflow_id, mermaid=mermaid, as_json=as_json)
