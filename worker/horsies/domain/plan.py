"""A workflow as it is stored when it starts: its nodes in their order, with all that a worker needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from horsies.domain.trace import with_trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.domain.trace import Trace

MAP_DEFINITION: Final = "__horsies_map__"  # the definition_key of a node that runs one task per item, and of its child
MAP_ITEMS: Final = "__items__"
"""The pseudo-parameter that receives the result of the node that a map takes its items from."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node; `dependencies` and `args_from` name other nodes by their index, `ctx_from` by their node_id."""

    index: int
    node_id: str
    task_name: str
    kwargs_json: str | None
    queue_name: str
    priority: int
    dependencies: tuple[int, ...]
    args_from: Mapping[str, int]
    ctx_from: tuple[str, ...] | None
    allow_failed_deps: bool
    join: str
    min_success: int | None
    task_options: str | None
    sub_definition_key: str | None = None

    @property
    def is_subworkflow(self) -> bool:
        return self.sub_definition_key is not None


@dataclass(frozen=True, slots=True)
class WorkflowPlan:
    """A workflow; `success_policy` is its stored JSON, `output_index` the node whose result is the workflow's."""

    name: str
    definition_key: str | None
    on_error: str
    output_index: int | None
    success_policy: str | None
    nodes: tuple[NodePlan, ...]

    def traced(self, trace: Trace) -> WorkflowPlan:
        """Return the plan with this trace in every node; unchanged without one."""
        if not trace:
            return self
        nodes = (replace(node, task_options=with_trace(node.task_options, trace)) for node in self.nodes)
        return replace(self, nodes=tuple(nodes))
