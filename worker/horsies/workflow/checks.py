"""The errors in a workflow's definition: names first, then shape, arguments, queues, output and policy at once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from horsies.config.app import DEFAULT_PRIORITY, DEFAULT_QUEUE
from horsies.domain.argument_types import spell
from horsies.domain.errors import ErrorCode, WorkflowValidationError, raise_collected
from horsies.domain.plain_text import MAX_NAME_CHARACTERS, is_workflow_name
from horsies.domain.states import OnError
from horsies.workflow.check_arguments import argument_problems
from horsies.workflow.graph import Graph
from horsies.workflow.nodes import MapNode, Node, SuccessPolicy, TaskNode
from horsies.workflow.signatures import fits, nested_cycle, output_type, value_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from horsies.config.app import AppConfig
    from horsies.domain.errors import HorsiesError, SourceLocation
    from horsies.workflow.check_arguments import NodeProblem
    from horsies.workflow.nodes import AnyNode, BaseDefinition, NodeRef

_JOINS: Final = ("all", "any", "quorum")
_MAX_ID_CHARACTERS: Final = 128
_NODE_ID: Final = re.compile(rf"[A-Za-z0-9_\-:.]{{1,{_MAX_ID_CHARACTERS}}}")
_KINDS: Final[dict[str, tuple[type | tuple[type, ...], ErrorCode]]] = {
    "waits_for": ((list, tuple), ErrorCode.WORKFLOW_INVALID_DEPENDENCY),
    "args_from": (Mapping, ErrorCode.WORKFLOW_INVALID_ARGS_FROM),
    "workflow_ctx_from": ((list, tuple, NoneType), ErrorCode.WORKFLOW_INVALID_CTX_FROM),
    "kwargs": (Mapping, ErrorCode.WORKFLOW_INVALID_KWARG_KEY),
}


@dataclass(frozen=True, slots=True)
class WorkflowDraft:
    """A workflow before its checks."""

    name: str
    tasks: Sequence[AnyNode]
    on_error: OnError
    output: NodeRef | None
    success_policy: SuccessPolicy | None
    definition_key: str | None
    definition: type[BaseDefinition[Any]] | None


def checked_graph(draft: WorkflowDraft, location: SourceLocation | None, config: AppConfig | None) -> Graph:
    """Return the graph of a workflow, whose nodes have their queues if an application's configuration is given.

    All errors of the first phase that finds any are raised; those without a place get this location.
    """
    _raise(_bare_problems(draft), location)
    graph = Graph(draft.name, list(draft.tasks))
    _raise(_id_problems(graph), location)
    problems = [
        *_shape_problems(graph),
        *_of_nodes(graph.nodes, argument_problems),
        *_output_problems(draft, graph),
        *_policy_problems(draft, graph),
        *_nesting_problems(draft, graph),
    ]
    if config is not None:
        queues = {queue.name: queue.priority for queue in config.custom_queues or ()}
        queues = queues or {DEFAULT_QUEUE: DEFAULT_PRIORITY}
        problems += [
            *_key_problems(draft.definition_key),
            *_of_nodes(graph.nodes, lambda node: _route_problems(node, queues)),
        ]
    _raise(problems, location)
    for node in graph.nodes if config is not None else ():
        if isinstance(node, TaskNode | MapNode):
            node.queue = _queue_of(node)
            node.priority = node.priority or queues[node.queue]
    return graph


def require_routed(nodes: Iterable[AnyNode]) -> None:
    """Raise WorkflowValidationError for nodes without a queue or a priority, as those of no application have."""
    raise_collected(_of_nodes(nodes, _unrouted_problems))


def _raise(problems: Iterable[HorsiesError], location: SourceLocation | None) -> None:
    raise_collected(each.with_location(each.location or location) for each in problems)


def _of_nodes(
    nodes: Iterable[AnyNode], check: Callable[[AnyNode], Iterable[NodeProblem]]
) -> Iterator[WorkflowValidationError]:
    for node in nodes:
        for code, what, help_text in check(node):
            yield _error(code, f"node {node.node_id!r} {what}", help_text, node)


def _error(
    code: ErrorCode | None, message: str, help_text: str, node: Node[Any] | None = None, *, notes: Sequence[str] = ()
) -> WorkflowValidationError:
    """Return an error at the place of a node, if it is one of a node."""
    location = None if node is None else node.location
    return WorkflowValidationError(message, code=code, location=location, notes=notes, help_text=help_text)


# The first phases: without a name, nodes and their ids no other check is possible.


def _bare_problems(draft: WorkflowDraft) -> Iterator[WorkflowValidationError]:
    name, tasks = draft.name, draft.tasks
    if draft.on_error not in list(OnError):
        message = f"on_error={draft.on_error!r} of workflow {name!r} is not a possible value"
        yield _error(None, message, "write OnError.FAIL or OnError.PAUSE")
    if not is_workflow_name(name):
        yield _error(
            ErrorCode.WORKFLOW_NO_NAME,
            "the workflow has no name" if not name else f"{name!r:.60} cannot be the name of a workflow",
            f"name it with at most {MAX_NAME_CHARACTERS} printable characters, without line breaks",
        )
    nodes = list(tasks) if isinstance(tasks, list | tuple) else None
    if not nodes:
        message = f"workflow {name!r} has no nodes"
        yield _error(ErrorCode.WORKFLOW_NO_NODES, message, "give it a list of them: tasks=[TaskNode(my_task), ...]")
    for position, node in enumerate(nodes or ()):
        if not isinstance(node, Node):
            yield _error(
                ErrorCode.WORKFLOW_NO_NODES,
                f"tasks[{position}] of workflow {name!r} is {type(node).__name__}, not a node",
                "write TaskNode(my_task), or call the factory: my_task.node(...)(argument=...)",
            )
        else:
            yield from _not_runnable(node, f"tasks[{position}]")


def _not_runnable(node: Any, where: str) -> Iterator[WorkflowValidationError]:
    for name, (kind, code) in _KINDS.items():
        if not isinstance(value := getattr(node, name), kind):
            remedy = f"write {name}={'{...}' if kind is Mapping else '[...]'}"
            yield _error(code, f"{name} of {where} is {type(value).__name__}", remedy, node)
    if isinstance(node, TaskNode | MapNode):
        if not hasattr(node.fn, "stored_options"):
            message = f"{where} runs {node.name!r}, which is not a task"
            yield _error(ErrorCode.TASK_NOT_REGISTERED, message, "decorate the function with @app.task", node)
    elif not hasattr(node.workflow_def, "build_with"):
        message = f"{where} is a SubWorkflowNode of {node.name!r}, which is not a WorkflowDefinition"
        remedy = "give it the class: SubWorkflowNode(MyWorkflow)"
        yield _error(ErrorCode.WORKFLOW_NO_DEFINITION_KEY, message, remedy, node)


def _id_problems(graph: Graph) -> Iterator[WorkflowValidationError]:
    """Check the ids. All other messages name nodes by them, so these errors are reported alone."""
    by_id = defaultdict(list)
    for node in graph.nodes:
        by_id[node.node_id].append(node)
        if not isinstance(node.node_id, str) or not _NODE_ID.fullmatch(node.node_id):
            message = f"{str(node.node_id)[: _MAX_ID_CHARACTERS + 1]!r} cannot be a node_id"
            remedy = f"use letters, digits and _ - : . only, at most {_MAX_ID_CHARACTERS} of them"
            yield _error(ErrorCode.WORKFLOW_INVALID_NODE_ID, message, remedy, node)
    by_original = defaultdict(list)
    for original, node in zip(graph.originals, graph.nodes, strict=True):
        by_original[id(original)].append(node)
    repeated = [(f"{each[0]!r} is in the list {len(each)} times", each) for each in by_original.values()]
    repeated += [
        (f"{len(each)} nodes have the node_id {node_id!r}", each)
        for node_id, each in by_id.items()
        if each not in by_original.values()
    ]
    for message, nodes in repeated:
        if len(nodes) > 1:
            yield _error(
                ErrorCode.WORKFLOW_DUPLICATE_NODE_ID,
                message,
                "a node may be in the list once, and each needs its own id",
                nodes[-1],
                notes=["they are " + ", ".join(f"tasks[{node.index}]" for node in nodes)],
            )


# The shape: dependencies, joins, cycles.


def _shape_problems(graph: Graph) -> Iterator[WorkflowValidationError]:
    if all(any(source in graph for source in node.waits_for) for node in graph.nodes):
        message = "every node waits for another, so none can start"
        yield _error(ErrorCode.WORKFLOW_NO_ROOT_TASKS, message, "at least one node must have an empty waits_for")
    yield from _of_nodes(graph.nodes, lambda node: [*_dependency_problems(node, graph), *_join_problems(node)])
    if (cycle := _cycle(graph)) is not None:
        path = " waits for ".join(str(node.node_id) for node in cycle)
        message, remedy = "nodes wait for each other in a cycle", "remove one of these dependencies"
        yield _error(ErrorCode.WORKFLOW_CYCLE_DETECTED, message, remedy, cycle[0], notes=[path])


def _dependency_problems(node: AnyNode, graph: Graph) -> Iterator[NodeProblem]:
    for source in node.waits_for:
        if source not in graph:
            what = repr(source) if isinstance(source, Node) else f"{type(source).__name__}, which is not a node"
            remedy = "put every node that another waits for into the list of tasks"
            yield ErrorCode.WORKFLOW_INVALID_DEPENDENCY, f"waits for {what}", remedy


def _join_problems(node: AnyNode) -> Iterator[NodeProblem]:
    count, wanted, code = len(node.waits_for), node.min_success, ErrorCode.WORKFLOW_INVALID_JOIN
    if node.join not in _JOINS:
        yield code, f"has join={node.join!r}", f"write one of {', '.join(map(repr, _JOINS))}"
    elif node.join != "quorum" and wanted is not None:
        yield code, f"has min_success={wanted!r}, but join={node.join!r}", "write join='quorum' with it"
    elif node.join == "quorum" and not _is_count(wanted, count):
        nodes = "node" if count == 1 else "nodes"
        what = f"has join='quorum' with min_success={wanted!r} of {count} {nodes} that it waits for"
        yield code, what, f"write min_success between 1 and {count}" if count else "let it wait for at least one node"


def _is_count(number: object, most: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= most


def _cycle(graph: Graph) -> list[AnyNode] | None:
    """Return one cycle, with its first node again at its end. Not recursive: 1,000 nodes exceed Python's stack."""
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


# Output, success policy, nesting, key and queues.


def _output_problems(draft: WorkflowDraft, graph: Graph) -> Iterator[WorkflowValidationError]:
    if draft.output is None:
        return
    node = graph.find(draft.output)
    if node is None:
        yield _error(
            ErrorCode.WORKFLOW_INVALID_OUTPUT,
            f"the output of workflow {draft.name!r} is {draft.output!r}, which is not among its nodes",
            "put the node into the list of tasks, or name one that is in it",
            notes=["the nodes are " + ", ".join(str(each.node_id) for each in graph.nodes)],
        )
    elif draft.definition is not None and not fits(value_type(node), output_type(draft.definition)):
        promised, given = spell(output_type(draft.definition)), spell(value_type(node))
        yield _error(
            ErrorCode.WORKFLOW_OUTPUT_TYPE_MISMATCH,
            f"{draft.definition.__qualname__} promises {promised}, but its output node {node.node_id!r} gives {given}",
            f"write WorkflowDefinition[{given}], or choose another output",
        )


def _policy_problems(draft: WorkflowDraft, graph: Graph) -> Iterator[WorkflowValidationError]:
    policy = draft.success_policy
    remedy = "write SuccessPolicy(cases=[SuccessCase(required=[node, ...])]) with nodes of this workflow"
    for message in () if policy is None else _policy_messages(policy, draft.name, graph):
        yield _error(ErrorCode.WORKFLOW_INVALID_SUCCESS_POLICY, message, remedy)


def _policy_messages(policy: SuccessPolicy, name: str, graph: Graph) -> Iterator[str]:
    if not isinstance(policy, SuccessPolicy) or not policy.cases:
        yield "the success policy has no case"
        return
    named: list[tuple[NodeRef, str]] = []
    for position, case in enumerate(policy.cases):
        if not case.required:
            yield f"case {position} of the success policy requires no node"
        named += [(ref, f"case {position} of the success policy requires") for ref in case.required]
    named += [(ref, "the success policy names as optional") for ref in policy.optional or ()]
    for ref, what in named:
        if graph.find(ref) is None:
            yield f"{what} {ref!r}, which is not among the nodes of workflow {name!r}"


def _nesting_problems(draft: WorkflowDraft, graph: Graph) -> Iterator[WorkflowValidationError]:
    if (path := nested_cycle(draft.definition, graph.nodes)) is not None:
        yield _error(
            ErrorCode.WORKFLOW_CYCLE_DETECTED,
            "the definition contains itself, so it would never end",
            "a definition that ends its own recursion builds the inner node in build_with, under a condition",
            notes=[" → ".join(definition.__qualname__ for definition in path)],
        )


def _key_problems(key: object) -> Iterator[WorkflowValidationError]:
    """Check the key of an application's workflow, by which stored workflows of one kind are known later."""
    if not is_workflow_name(key):
        yield _error(
            ErrorCode.WORKFLOW_NO_DEFINITION_KEY,
            "the workflow has no definition_key" if key is None else f"definition_key={key!r:.60} is not possible",
            'give it one that never changes: definition_key="reports.monthly"',
        )


def _route_problems(node: AnyNode, queues: Mapping[str, int]) -> Iterator[NodeProblem]:
    if not isinstance(node, TaskNode | MapNode):
        return
    if (queue := _queue_of(node)) not in queues:
        what = f"is for the queue {queue!r}, which the application does not have"
        yield ErrorCode.TASK_INVALID_QUEUE, what, f"choose one of {', '.join(queues)}"
    if node.priority is not None and not _is_count(node.priority, 100):
        what = f"has priority={node.priority!r}"
        yield ErrorCode.TASK_INVALID_OPTIONS, what, "write a number from 1, which goes first, to 100"


def _unrouted_problems(node: AnyNode) -> Iterator[NodeProblem]:
    if isinstance(node, TaskNode | MapNode):
        remedy = "make the workflow with app.workflow(...), which knows the queues, or give the node both"
        if node.queue is None:
            yield ErrorCode.WORKFLOW_UNRESOLVED_QUEUE, "has no queue", remedy
        if node.priority is None:
            yield ErrorCode.WORKFLOW_UNRESOLVED_PRIORITY, "has no priority", remedy


def _queue_of(node: TaskNode[Any] | MapNode[Any]) -> str:
    return node.queue or node.fn.task_queue_name or DEFAULT_QUEUE
