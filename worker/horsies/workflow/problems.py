"""The format of errors about a node: the node, its task, where it was defined, the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies.domain.errors import WorkflowValidationError

if TYPE_CHECKING:
    from horsies.domain.errors import ErrorCode
    from horsies.workflow.nodes import Node


def node_problem(node: Node[Any], code: ErrorCode, what: str, help_text: str) -> WorkflowValidationError:
    return WorkflowValidationError(
        f"node {node.node_id!r} {what}", code=code, location=node.location, help_text=help_text
    )
