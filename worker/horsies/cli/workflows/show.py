"""`horsies workflows ls` and `horsies workflows show`: a page of workflows; all data of one, or of one of its nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from horsies.cli.reading import ReadSession, cursor_of, next_page, read, read_page, require_found, say_aside, understood
from horsies.cli.workflows.graph import head, node_lines, node_report, read_workflow, workflow_report
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import (
    actions,
    damage_lines,
    details,
    headline,
    lasting,
    links,
    number,
    short,
    state,
    times,
    titled,
    way_out,
)
from horsies.display.json_output import cursor_time, plain, print_json, read_cursor_time
from horsies.display.payload import ALL, POSITIONAL, SHOWN, Masks, stored_json, stored_lines
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.domain.plain_text import clean
from horsies.operations.named_targets import node_named, story_of
from horsies.query import parse_workflows, workflow_conditions
from horsies.store.connect import Connection
from horsies.views import Cursor, NodeStory, NodeView, Page, WorkflowRow, WorkflowStory, node_story, workflow_page

_COLUMNS: Final = (
    TableColumn("STATE"),
    TableColumn("ID"),
    TableColumn("NAME", least=12),
    TableColumn("NODES", right=True),
    TableColumn("RUNNING", right=True, rank=5),
    TableColumn("WAITING", right=True, rank=6),
    TableColumn("FAILED", right=True, rank=4),
    TableColumn("AGE", right=True),
    TableColumn("RUN", right=True, rank=2),
    TableColumn("FAILED AT", least=8, rank=3),
    TableColumn("ERROR", least=9, rank=1),
)


def list_workflows(choice: DatabaseChoice, text: str, *, limit: int, after: str | None, as_json: bool) -> None:
    wanted = understood(text, parse_workflows)
    cursor = None if after is None else cursor_of(after, _read_cursor)
    conditions = workflow_conditions(wanted)

    async def page(connection: Connection, limit: int, after: Cursor | None) -> Page[WorkflowRow]:
        return await workflow_page(connection, conditions, limit=limit, after=after)

    rows, now, further = read_page(choice, "workflows ls", page, limit, cursor)
    next_cursor = None if further is None else f"{cursor_time(further.time)}/{further.id}"
    if as_json:
        listed = [workflow_report(row, now) for row in rows]
        print_json({"now": now, "filter": wanted.text, "workflows": listed, "next": next_cursor})
        return
    screen = Screen.of(sys.stdout)
    say(*table(_COLUMNS, [_cells(row, now, screen) for row in rows], screen) if rows else [])
    say(*damage_lines(rows, screen))
    if next_cursor is not None:
        options = ["--filter", wanted.text] if wanted.text else []
        say_aside([next_page("workflows ls", options, next_cursor)], screen)
    elif not rows:
        say_aside(_none_listed(wanted.text, first=after is None), screen)


def _read_cursor(text: str) -> Cursor:
    time, workflow_id = text.split("/", 1)
    return Cursor(read_cursor_time(time), workflow_id)


def _cells(row: WorkflowRow, now: datetime, screen: Screen) -> list[TableCell | str]:
    return [
        state(row.status, screen),
        short(row.id, screen),
        row.name,
        f"{number(row.done)}/{number(row.total)}",
        number(row.running) if row.running else "",
        number(row.waiting) if row.waiting else "",
        TableCell(number(row.failed) if row.failed else "", "red"),
        lasting(now - row.sent_at),
        lasting(row.run(now)),
        row.failed_node or "",
        TableCell(row.error_code or "", "red" if row.status == "FAILED" else ""),
    ]


def _none_listed(text: str, *, first: bool) -> list[str]:
    if not first:
        return ["there are no more workflows"]
    if text:
        hint = "`horsies workflows ls` shows the newest of all, --filter-help explains filters"
        return [f"no workflow matches {text}", hint]
    return ["no workflow has been started in this database yet", "an application starts one with `spec.start()`"]


def show_workflow_story(choice: DatabaseChoice, text: str, names: list[str], *, as_json: bool) -> None:
    masks = Masks.of(names)
    story = read_workflow(choice, "workflows show", text, most_characters=ALL if as_json else SHOWN)
    if as_json:
        print_json(_workflow_report(story, masks), is_stored=True)
    else:
        say(*_workflow(story, masks, Screen.of(sys.stdout)))


def show_node(choice: DatabaseChoice, text: str, name: str, names: list[str], *, as_json: bool) -> None:
    masks = Masks.of(names)

    async def work(session: ReadSession) -> tuple[NodeStory, dict[int, NodeView]] | None:
        story = await story_of(session.connection, text, most_characters=SHOWN)
        if story is None:
            return None
        index, most = node_named(story, name).index, ALL if as_json else SHOWN
        node = await node_story(session.connection, story.row.id, index, most_characters=most)
        return None if node is None else (node, {each.index: each for each in story.nodes})

    story, nodes = require_found(read(choice, "workflows show", work), "workflow", text)
    if as_json:
        print_json(_node_report(story, masks), is_stored=True)
    else:
        say(*_node(story, nodes, masks, Screen.of(sys.stdout)))


def _workflow_report(story: WorkflowStory, masks: Masks) -> dict[str, Any]:
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


def _node_report(story: NodeStory, masks: Masks) -> dict[str, Any]:
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
    yield from titled("times", times(moments, story.now), screen)
    yield from titled("nodes", node_lines(story, screen.inside), screen)
    yield from titled("result", stored_lines(story.result, masks), screen)
    yield from titled("error", stored_lines(story.error, masks), screen)
    yield from titled("success policy", stored_lines(story.success_policy, Masks()), screen)
    yield from titled("operator actions", actions(story.audit, story.now), screen)
    linked = {
        "definition": row.definition_key,
        "parent": parent and f"{parent.name} {parent.status} {parent.workflow_id}",
        "its node": parent and f"{parent.node_id or parent.task_index} {parent.node_status or 'is not there'}",
    }
    yield from titled("links", links(linked), screen)


def _node(story: NodeStory, nodes: dict[int, NodeView], masks: Masks, screen: Screen) -> Iterator[str]:
    node = story.node
    yield headline(node.state, node.error_code, node.label, node.name, screen)
    tries = f"   try {node.retry_count + 1} of {node.max_retries + 1}" if node.task_id else ""
    yield from damage_lines([node, *story.audit], screen)
    yield f"queue {clean(node.queue)}   priority {number(node.priority)}{tries}"
    yield from map(clean, way_out([node], story.workflow_id, story.workflow_status))
    moments = {"started": node.started_at, "next try": node.next_retry_at, "ended": node.completed_at}
    yield from titled("times", times(moments, story.now), screen)
    yield from titled("inputs", [clean(line) for line in _inputs(node, nodes)], screen)
    hidden = masks.hides(POSITIONAL)
    args = story.args if story.args is not None and story.args.text != "[]" else None
    yield from titled("args", stored_lines(args, masks, hide=hidden), screen)
    yield from titled("kwargs", stored_lines(story.kwargs, masks), screen)
    yield from titled("result", stored_lines(story.result, masks), screen)
    yield from titled("child workflow", stored_lines(story.summary, masks), screen)
    yield from titled("options", stored_lines(story.options, masks), screen)
    yield from titled("operator actions", actions(story.audit, story.now), screen)
    linked = {
        "workflow": f"{story.workflow_name} {story.workflow_status} {story.workflow_id}",
        "task": node.task_id and f"{node.task_status or 'is not there any more'} {node.task_id}",
        "child": node.sub_workflow_id and f"{node.sub_status or 'is not there any more'} {node.sub_workflow_id}",
        "definition": node.sub_definition_key,
    }
    yield from titled("links", links(linked), screen)


def _inputs(node: NodeView, nodes: dict[int, NodeView]) -> Iterator[str]:
    """Yield a node's dependencies, and the results that it takes from them."""

    def name(index: int) -> str:
        return f"{nodes[index].label} ({nodes[index].state.lower()})" if index in nodes else f"#{index}"

    if node.dependencies:
        yield f"waits for {', '.join(map(name, node.dependencies))}"
    if how := ", ".join(details(node)):
        yield how
    yield from (f"{parameter} from {name(index)}" for parameter, index in node.args_from.items())
    if node.ctx_from:
        yield f"workflow_ctx from {', '.join(node.ctx_from)}"
