"""Plans of workflows for tests of stored rows, without the application that would define them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from horsies.broker import PostgresBroker
from horsies.domain.errors import HorsiesError
from horsies.domain.plan import NodePlan, WorkflowPlan


def node(index: int, *dependencies: int, **columns: Any) -> NodePlan:
    values: dict[str, Any] = {
        "node_id": f"n{index}",
        "task_name": "demo.add",
        "kwargs_json": '{"a":1}',
        "queue_name": "default",
        "priority": 100,
        "args_from": {},
        "ctx_from": None,
        "allow_failed_deps": False,
        "join": "all",
        "min_success": None,
        "task_options": '{"retry_policy":null,"good_until":null}',
    }
    return NodePlan(index=index, dependencies=dependencies, **(values | columns))


def plan(*nodes: NodePlan, **columns: Any) -> WorkflowPlan:
    values: dict[str, Any] = {
        "name": "demo",
        "definition_key": "demo.v1",
        "on_error": "fail",
        "output_index": None,
        "success_policy": None,
    }
    return WorkflowPlan(nodes=nodes, **(values | columns))


@dataclass
class Spec:
    """The parts of a WorkflowSpec that a start uses."""

    planned: WorkflowPlan
    own: PostgresBroker | HorsiesError | None
    resend_on_transient_err: bool = False
    error: Exception | None = None
    output: object = None

    @property
    def broker(self) -> PostgresBroker | None:
        if isinstance(self.own, HorsiesError):
            raise self.own
        return self.own

    @property
    def name(self) -> str:
        return self.planned.name

    def to_plan(self) -> WorkflowPlan:
        if self.error is not None:
            raise self.error
        return self.planned
