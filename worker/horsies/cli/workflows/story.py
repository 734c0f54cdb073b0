"""`horsies workflows show`: all data of one workflow, or of one of its nodes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from horsies.cli.read_session import read
from horsies.cli.tasks.story import action, titled
from horsies.cli.verbs.report import NOTHING_MATCHED
from horsies.cli.workflows.graph import node_report, read_workflow
from horsies.cli.workflows.listing import workflow_report
from horsies.cli.workflows.node_lines import head, inconsistent_lines, node_lines
from horsies.display.formatting import at, damage_lines, details, number, state, way_out
from horsies.display.json_output import plain, print_json
from horsies.display.payload import ALL, POSITIONAL, SHOWN, Masks, stored_json, stored_lines
from horsies.display.terminal import Screen, say
from horsies.domain.plain_text import clean
from horsies.operations.named_targets import node_named, story_of
from horsies.views import node_story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.cli.read_session import ReadSession
    from horsies.config.contexts import DatabaseChoice
    from horsies.views import NodeStory, NodeView, Stored, WorkflowStory


def show_workflow_story(choice: DatabaseChoice, text: str, names: list[str], *, as_json: bool) -> None:
    masks = Masks.of(names)
    story = read_workflow(choice, "workflows show", text, most_characters=ALL if as_json else SHOWN)
    if as_json:
        print_json(workflow_story_report(story, masks), is_stored=True)
        return
    screen = Screen.of(sys.stdout)
    say(*_workflow(story, masks, screen))


def show_node(choice: DatabaseChoice, text: str, name: str, names: list[str], *, as_json: bool) -> None:
    masks = Masks.of(names)

    async def work(session: ReadSession) -> tuple[NodeStory, dict[int, NodeView]] | None:
        story = await story_of(session.connection, text, most_characters=SHOWN)
        if story is None:
            return None
        index, most = node_named(story, name).index, ALL if as_json else SHOWN
        node = await node_story(session.connection, story.row.id, index, most_characters=most)
        return None if node is None else (node, {each.index: each for each in story.nodes})

    found = read(choice, "workflows show", work)
    if found is None:
        say(f"no workflow has the id {text}, or one that begins or ends so", stream=sys.stderr)
        raise typer.Exit(NOTHING_MATCHED)
    story, nodes = found
    if as_json:
        print_json(node_story_report(story, masks), is_stored=True)
        return
    screen = Screen.of(sys.stdout)
    say(*_node(story, nodes, masks, screen))


def workflow_story_report(story: WorkflowStory, masks: Masks) -> dict[str, Any]:
    """All data of a workflow."""
    return {
        "now": story.now,
        "workflow": workflow_report(story.row, story.now),
        "nodes": [node_report(node) for node in story.nodes],
        "result": stored_json(story.result, masks),
        "error": stored_json(story.error, masks),
        "success_policy": stored_json(story.success_policy, Masks()),
        "output_index": story.output_index,
        "parent": story.parent,
        "audit": masks.on(plain(story.audit)),
    }


def node_story_report(story: NodeStory, masks: Masks) -> dict[str, Any]:
    """All data of a node."""
    return {
        "now": story.now,
        "workflow_id": story.workflow_id,
        "workflow_name": story.workflow_name,
        "workflow_status": story.workflow_status,
        "node": node_report(story.node),
        "args": stored_json(story.args, masks, hide=masks.hides(POSITIONAL)),
        "kwargs": stored_json(story.kwargs, masks),
        "options": stored_json(story.options, masks),
        "result": stored_json(story.result, masks),
        "summary": stored_json(story.summary, masks),
        "audit": masks.on(plain(story.audit)),
    }


def _workflow(story: WorkflowStory, masks: Masks, screen: Screen) -> Iterator[str]:
    row, parent = story.row, story.parent
    yield from head(story, screen)
    yield from damage_lines([row, *story.nodes, *story.audit], screen)
    moments = {"sent": row.sent_at, "started": row.started_at, "ended": row.completed_at}
    times = [f"{name:<11}{at(moment, story.now)}" for name, moment in moments.items() if moment is not None]
    yield from titled("times", times, screen)
    yield from titled("nodes", [*node_lines(story, screen.inside), *inconsistent_lines(story)], screen)
    yield from titled("result", _lines(story.result, masks), screen)
    yield from titled("error", _lines(story.error, masks), screen)
    yield from titled("success policy", _lines(story.success_policy, Masks()), screen)
    yield from titled("operator actions", [action(each, story.now) for each in story.audit], screen)
    links = {
        "definition": row.definition_key,
        "parent": parent and f"{parent.name} {parent.status} {parent.workflow_id}",
        "its node": parent and f"{parent.node_id or parent.task_index} {parent.node_status or 'is not there'}",
    }
    yield from titled("links", [f"{name:<11}{clean(text)}" for name, text in links.items() if text], screen)


def _node(story: NodeStory, nodes: dict[int, NodeView], masks: Masks, screen: Screen) -> Iterator[str]:
    node, shown = story.node, state(story.node.state, screen)
    error = f" {clean(node.error_code)}" if node.error_code else ""
    painted = screen.paint(f"{shown.text}{error}", shown.style)
    yield f"{painted}  {screen.paint(clean(node.label), 'bold')}  {clean(node.name)}"
    tries = f"   try {node.retry_count + 1} of {node.max_retries + 1}" if node.task_id else ""
    yield from damage_lines([node, *story.audit], screen)
    yield f"queue {clean(node.queue)}   priority {number(node.priority)}{tries}"
    yield from map(clean, way_out([node], story.workflow_id, story.workflow_status))
    moments = {"started": node.started_at, "next try": node.next_retry_at, "ended": node.completed_at}
    times = [f"{name:<11}{at(moment, story.now)}" for name, moment in moments.items() if moment is not None]
    yield from titled("times", times, screen)
    yield from titled("inputs", [clean(line) for line in _inputs(node, nodes)], screen)
    hidden = masks.hides(POSITIONAL)
    args = story.args if story.args is not None and story.args.text != "[]" else None
    yield from titled("args", _lines(args, masks, hide=hidden), screen)
    yield from titled("kwargs", _lines(story.kwargs, masks), screen)
    yield from titled("result", _lines(story.result, masks), screen)
    yield from titled("child workflow", _lines(story.summary, masks), screen)
    yield from titled("options", _lines(story.options, masks), screen)
    yield from titled("operator actions", [action(each, story.now) for each in story.audit], screen)
    links = {
        "workflow": f"{story.workflow_name} {story.workflow_status} {story.workflow_id}",
        "task": node.task_id and f"{node.task_status or 'is not there any more'} {node.task_id}",
        "child": node.sub_workflow_id and f"{node.sub_status or 'is not there any more'} {node.sub_workflow_id}",
        "definition": node.sub_definition_key,
    }
    yield from titled("links", [f"{name:<11}{clean(text)}" for name, text in links.items() if text], screen)


def _inputs(node: NodeView, nodes: dict[int, NodeView]) -> Iterator[str]:
    """Yield its dependencies, and the results that it takes from them."""

    def name(index: int) -> str:
        return f"{nodes[index].label} ({nodes[index].state.lower()})" if index in nodes else f"#{index}"

    if node.dependencies:
        yield f"waits for {', '.join(map(name, node.dependencies))}"
    if how := ", ".join(details(node)):
        yield how
    yield from (f"{parameter} from {name(index)}" for parameter, index in node.args_from.items())
    if node.ctx_from:
        yield f"workflow_ctx from {', '.join(node.ctx_from)}"


def _lines(stored: Stored | None, masks: Masks, *, hide: bool = False) -> list[str]:
    return [] if stored is None else stored_lines(stored, masks, hide=hide)
