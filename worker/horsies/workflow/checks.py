"""The errors in a workflow's definition: names first, then shape, queues, output and success policy at once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from horsies.config.app import DEFAULT_PRIORITY, DEFAULT_QUEUE
from horsies.domain.argument_types import spell
from horsies.domain.errors import ErrorCode, SourceLocation, WorkflowValidationError
from horsies.domain.plain_text import MAX_NAME_CHARACTERS, is_workflow_name
from horsies.domain.states import OnError
from horsies.workflow.check_arguments import argument_problems, node_problem
from horsies.workflow.nodes import MapNode, Node, SuccessPolicy, TaskNode
from horsies.workflow.signatures import fits, nested_cycle, output_type, value_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from horsies.config.app import AppConfig
    from horsies.domain.errors import HorsiesError, SourceLocation
    from horsies.workflow.graph import Graph
    from horsies.workflow.nodes import AnyNode, BaseDefinition, NodeRef


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


_FROM_AN_APP: Final = "make the workflow with app.workflow(...), which knows the queues, or give the node both"


def route_problems(nodes: Iterable[AnyNode], config: AppConfig) -> Iterator[WorkflowValidationError]:
    known = _priorities(config)
    for node in nodes:
        if isinstance(node, TaskNode | MapNode):
            if (queue := _queue_of(node)) not in known:
                yield node_problem(
                    node,
                    ErrorCode.TASK_INVALID_QUEUE,
                    f"is for the queue {queue!r}, which the application does not have",
                    f"choose one of {', '.join(known)}",
                )
            if node.priority is not None and not _is_priority(node.priority):
                yield node_problem(
                    node,
                    ErrorCode.TASK_INVALID_OPTIONS,
                    f"has priority={node.priority!r}",
                    "write a number from 1, which goes first, to 100",
                )


def route(nodes: Iterable[AnyNode], config: AppConfig) -> None:
    """Set the queue and the priority of each node without problems."""
    priorities = _priorities(config)
    for node in nodes:
        if isinstance(node, TaskNode | MapNode):
            node.queue = _queue_of(node)
            node.priority = node.priority or priorities[node.queue]


def unrouted_problems(nodes: Iterable[AnyNode]) -> Iterator[WorkflowValidationError]:
    for node in nodes:
        if isinstance(node, TaskNode | MapNode):
            if node.queue is None:
                yield node_problem(node, ErrorCode.WORKFLOW_UNRESOLVED_QUEUE, "has no queue", _FROM_AN_APP)
            if node.priority is None:
                yield node_problem(node, ErrorCode.WORKFLOW_UNRESOLVED_PRIORITY, "has no priority", _FROM_AN_APP)


def _priorities(config: AppConfig) -> dict[str, int]:
    return {queue.name: queue.priority for queue in config.custom_queues or ()} or {DEFAULT_QUEUE: DEFAULT_PRIORITY}


def _queue_of(node: TaskNode[object] | MapNode[object]) -> str:
    return node.queue or node.fn.task_queue_name or DEFAULT_QUEUE


def _is_priority(priority: object) -> bool:
    return isinstance(priority, int) and not isinstance(priority, bool) and 1 <= priority <= 100


MAX_NODE_ID_CHARACTERS: Final = 128
_KINDS: Final[dict[str, tuple[type | tuple[type, ...], ErrorCode]]] = {
    "waits_for": ((list, tuple), ErrorCode.WORKFLOW_INVALID_DEPENDENCY),
    "args_from": (Mapping, ErrorCode.WORKFLOW_INVALID_ARGS_FROM),
    "workflow_ctx_from": ((list, tuple, NoneType), ErrorCode.WORKFLOW_INVALID_CTX_FROM),
    "kwargs": (Mapping, ErrorCode.WORKFLOW_INVALID_KWARG_KEY),
}
_NODE_ID: Final = re.compile(r"[A-Za-z0-9_\-:.]+")
_ID_RULE: Final = f"letters, digits and _ - : . only, at most {MAX_NODE_ID_CHARACTERS} of them"


@dataclass(frozen=True, slots=True)
class WorkflowDraft:
    """A workflow before its checks."""

    name: str
    graph: Graph
    output: NodeRef | None
    success_policy: SuccessPolicy | None
    definition: type[BaseDefinition[Any]] | None
    location: SourceLocation | None


def bare_problems(
    name: object, tasks: object, on_error: object, location: SourceLocation | None
) -> Iterator[WorkflowValidationError]:
    """The problems that make all other checks impossible: no name, or no list of nodes."""
    if on_error not in list(OnError):
        yield WorkflowValidationError(
            f"on_error={on_error!r} of workflow {name!r} is not a possible value",
            location=location,
            help_text="write OnError.FAIL or OnError.PAUSE",
        )
    if not is_workflow_name(name):
        yield WorkflowValidationError(
            "the workflow has no name" if not name else f"{name!r:.60} cannot be the name of a workflow",
            code=ErrorCode.WORKFLOW_NO_NAME,
            location=location,
            help_text=f"name it with at most {MAX_NAME_CHARACTERS} printable characters, without line breaks",
        )
    nodes = list(tasks) if isinstance(tasks, list | tuple) else None
    if not nodes:
        yield WorkflowValidationError(
            f"workflow {name!r} has no nodes",
            code=ErrorCode.WORKFLOW_NO_NODES,
            location=location,
            help_text="give it a list of them: tasks=[TaskNode(my_task), ...]",
        )
    for position, node in enumerate(nodes or ()):
        if not isinstance(node, Node):
            yield WorkflowValidationError(
                f"tasks[{position}] of workflow {name!r} is {type(node).__name__}, not a node",
                code=ErrorCode.WORKFLOW_NO_NODES,
                location=location,
                help_text="write TaskNode(my_task), or call the factory: my_task.node(...)(argument=...)",
            )
        else:
            yield from _not_runnable(node, position)


def _not_runnable(node: Node[Any], position: int) -> Iterator[WorkflowValidationError]:
    for name, (kind, code) in _KINDS.items():
        if not isinstance(getattr(node, name), kind):
            yield WorkflowValidationError(
                f"{name} of tasks[{position}] is {type(getattr(node, name)).__name__}",
                code=code,
                location=node.location,
                help_text=f"write {name}={'{...}' if kind is Mapping else '[...]'}",
            )
    if isinstance(node, TaskNode | MapNode):
        if not hasattr(node.fn, "stored_options"):
            yield WorkflowValidationError(
                f"tasks[{position}] runs {node.name!r}, which is not a task",
                code=ErrorCode.TASK_NOT_REGISTERED,
                location=node.location,
                help_text="decorate the function with @app.task",
            )
    elif not hasattr(node.workflow_def, "build_with"):  # type: ignore[attr-defined]
        yield WorkflowValidationError(
            f"tasks[{position}] is a SubWorkflowNode of {node.name!r}, which is not a WorkflowDefinition",
            code=ErrorCode.WORKFLOW_NO_DEFINITION_KEY,
            location=node.location,
            help_text="give it the class: SubWorkflowNode(MyWorkflow)",
        )


def key_problems(key: object, location: SourceLocation | None) -> Iterator[WorkflowValidationError]:
    """The problems of the key of an application's workflow, by which stored workflows of one kind are known later."""
    if not is_workflow_name(key):
        yield WorkflowValidationError(
            "the workflow has no definition_key" if key is None else f"definition_key={key!r:.60} is not possible",
            code=ErrorCode.WORKFLOW_NO_DEFINITION_KEY,
            location=location,
            help_text='give it one that never changes: definition_key="reports.monthly"',
        )


def id_problems(graph: Graph) -> Iterator[WorkflowValidationError]:
    """All other messages name nodes by their ids, so these are checked first and reported alone."""
    by_id = defaultdict(list)
    for node in graph.nodes:
        by_id[node.node_id].append(node)
        if not isinstance(node.node_id, str) or not _is_node_id(node.node_id):
            yield WorkflowValidationError(
                f"{str(node.node_id)[: MAX_NODE_ID_CHARACTERS + 1]!r} cannot be a node_id",
                code=ErrorCode.WORKFLOW_INVALID_NODE_ID,
                location=node.location,
                help_text=_ID_RULE,
            )
    by_original = defaultdict(list)
    for original, node in zip(graph.originals, graph.nodes, strict=True):
        by_original[id(original)].append(node)
    for nodes in by_original.values():
        if len(nodes) > 1:
            yield _duplicate(nodes, f"{nodes[0]!r} is in the list {len(nodes)} times")
    for node_id, nodes in by_id.items():
        if len(nodes) > 1 and nodes not in by_original.values():
            yield _duplicate(nodes, f"{len(nodes)} nodes have the node_id {node_id!r}")


def _duplicate(nodes: list[AnyNode], message: str) -> WorkflowValidationError:
    return WorkflowValidationError(
        message,
        code=ErrorCode.WORKFLOW_DUPLICATE_NODE_ID,
        location=nodes[-1].location,
        notes=["they are " + ", ".join(f"tasks[{node.index}]" for node in nodes)],
        help_text="a node may be in the list once, and each needs its own id",
    )


def _is_node_id(text: str) -> bool:
    return len(text) <= MAX_NODE_ID_CHARACTERS and _NODE_ID.fullmatch(text) is not None


def all_problems(draft: WorkflowDraft) -> Iterable[HorsiesError]:
    found: list[HorsiesError] = [*shape_problems(draft.graph, draft.location)]
    for node in draft.graph.nodes:
        found += argument_problems(node, draft.graph)
    found += _output_problems(draft)
    found += _policy_problems(draft)
    found += _nesting_problems(draft)
    for error in found:
        error.with_location(error.location or draft.location)
    return found


def _output_problems(draft: WorkflowDraft) -> Iterator[WorkflowValidationError]:
    if draft.output is None:
        return
    node = draft.graph.find(draft.output)
    if node is None:
        yield WorkflowValidationError(
            f"the output of workflow {draft.name!r} is {draft.output!r}, which is not among its nodes",
            code=ErrorCode.WORKFLOW_INVALID_OUTPUT,
            notes=[_known(draft.graph.nodes)],
            help_text="put the node into the list of tasks, or name one that is in it",
        )
    elif draft.definition is not None and not fits(value_type(node), output_type(draft.definition)):
        yield WorkflowValidationError(
            f"{draft.definition.__qualname__} promises {spell(output_type(draft.definition))}, "
            f"but its output node {node.node_id!r} gives {spell(value_type(node))}",
            code=ErrorCode.WORKFLOW_OUTPUT_TYPE_MISMATCH,
            help_text=f"write WorkflowDefinition[{spell(value_type(node))}], or choose another output",
        )


def _policy_problems(draft: WorkflowDraft) -> Iterator[WorkflowValidationError]:
    policy = draft.success_policy
    if policy is None:
        return
    if not isinstance(policy, SuccessPolicy) or not policy.cases:
        yield _bad_policy("the success policy has no case")
        return
    for position, case in enumerate(policy.cases):
        if not case.required:
            yield _bad_policy(f"case {position} of the success policy requires no node")
        yield from _foreign(draft, case.required, f"case {position} of the success policy requires")
    yield from _foreign(draft, policy.optional or (), "the success policy names as optional")


def _foreign(draft: WorkflowDraft, refs: Sequence[NodeRef], what: str) -> Iterator[WorkflowValidationError]:
    for ref in refs:
        if draft.graph.find(ref) is None:
            yield _bad_policy(f"{what} {ref!r}, which is not among the nodes of workflow {draft.name!r}")


def _bad_policy(message: str) -> WorkflowValidationError:
    return WorkflowValidationError(
        message,
        code=ErrorCode.WORKFLOW_INVALID_SUCCESS_POLICY,
        help_text="write SuccessPolicy(cases=[SuccessCase(required=[node, ...])]) with nodes of this workflow",
    )


def _nesting_problems(draft: WorkflowDraft) -> Iterator[WorkflowValidationError]:
    if (path := nested_cycle(draft.definition, draft.graph.nodes)) is not None:
        yield WorkflowValidationError(
            "the definition contains itself, so it would never end",
            code=ErrorCode.WORKFLOW_CYCLE_DETECTED,
            notes=[" → ".join(definition.__qualname__ for definition in path)],
            help_text="a definition that ends its own recursion builds the inner node in build_with, under a condition",
        )


def _known(nodes: Iterable[AnyNode]) -> str:
    return "the nodes are " + ", ".join(str(node.node_id) for node in nodes)
