"""The queue and the priority of a node's task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.config.app import DEFAULT_PRIORITY, DEFAULT_QUEUE
from horsies.domain.errors import ErrorCode
from horsies.workflow.nodes import MapNode, TaskNode
from horsies.workflow.problems import node_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from horsies.config.app import AppConfig
    from horsies.domain.errors import WorkflowValidationError
    from horsies.workflow.nodes import AnyNode

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
