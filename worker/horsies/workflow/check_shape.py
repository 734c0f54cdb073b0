"""The check of a graph's shape: dependencies, cycles, joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import ErrorCode, WorkflowValidationError
from horsies.workflow.nodes import Node
from horsies.workflow.problems import node_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.domain.errors import SourceLocation
    from horsies.workflow.graph import Graph
    from horsies.workflow.nodes import AnyNode

JOINS: Final = ("all", "any", "quorum")


def shape_problems(graph: Graph, location: SourceLocation | None) -> Iterator[WorkflowValidationError]:
    if all(any(source in graph for source in node.waits_for) for node in graph.nodes):
        yield WorkflowValidationError(
            "every node waits for another, so none can begin",
            code=ErrorCode.WORKFLOW_NO_ROOT_TASKS,
            location=location,
            help_text="at least one node must have an empty waits_for",
        )
    for node in graph.nodes:
        yield from _dependency_problems(node, graph)
        yield from _join_problems(node)
    if (cycle := _cycle(graph)) is not None:
        yield WorkflowValidationError(
            "nodes wait for each other in a circle",
            code=ErrorCode.WORKFLOW_CYCLE_DETECTED,
            location=cycle[0].location or location,
            notes=[" waits for ".join(str(node.node_id) for node in cycle)],
            help_text="take one of these dependencies away",
        )


def _dependency_problems(node: AnyNode, graph: Graph) -> Iterator[WorkflowValidationError]:
    for source in node.waits_for:
        if source not in graph:
            what = repr(source) if isinstance(source, Node) else f"{type(source).__name__}, which is no node"
            yield node_problem(
                node,
                ErrorCode.WORKFLOW_INVALID_DEPENDENCY,
                f"waits for {what}",
                "put every node that another waits for into the list of tasks",
            )


def _join_problems(node: AnyNode) -> Iterator[WorkflowValidationError]:
    count, wanted = len(node.waits_for), node.min_success
    nodes = "node" if count == 1 else "nodes"
    if node.join not in JOINS:
        yield _bad_join(node, f"has join={node.join!r}", f"write one of {', '.join(map(repr, JOINS))}")
    elif node.join != "quorum" and wanted is not None:
        yield _bad_join(node, f"has min_success={wanted!r}, but join={node.join!r}", "write join='quorum' with it")
    elif node.join == "quorum" and not _is_count(wanted, count):
        yield _bad_join(
            node,
            f"has join='quorum' with min_success={wanted!r} of {count} {nodes} that it waits for",
            f"write min_success between 1 and {count}" if count else "let it wait for at least one node",
        )


def _is_count(wanted: object, most: int) -> bool:
    return isinstance(wanted, int) and not isinstance(wanted, bool) and 1 <= wanted <= most


def _bad_join(node: AnyNode, what: str, help_text: str) -> WorkflowValidationError:
    return node_problem(node, ErrorCode.WORKFLOW_INVALID_JOIN, what, help_text)


def _cycle(graph: Graph) -> list[AnyNode] | None:
    """One cycle, with its first node again at its end. Iterative: 1,000 nodes are too deep for Python's stack."""
    done: set[int] = set()
    for start in graph.nodes:
        path: dict[int, AnyNode] = {}
        stack: list[tuple[AnyNode, Any]] = [(start, iter(start.waits_for))] if id(start) not in done else []
        path[id(start)] = start
        while stack:
            node, rest = stack[-1]
            source = next((each for each in rest if each in graph and id(each) not in done), None)
            if source is None:
                done.add(id(node))
                del path[id(node)]
                stack.pop()
            elif id(source) in path:
                nodes = list(path.values())
                return [*nodes[nodes.index(source) :], source]
            else:
                path[id(source)] = source
                stack.append((source, iter(source.waits_for)))
    return None
