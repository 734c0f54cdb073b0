"""A checked workflow: its nodes numbered and named, its values copied; immutable."""

from __future__ import annotations

import itertools
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol

from typing_extensions import TypeVar

from horsies.domain.codec import dump_value, load_value
from horsies.domain.codec.classes import LOADED
from horsies.domain.errors import calling_place
from horsies.domain.plan import WorkflowPlan
from horsies.domain.states import OnError
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.workflow.checks import WorkflowDraft, checked_graph, require_routed
from horsies.workflow.graph import Graph, node_plan, policy_json
from horsies.workflow.nodes import MapNode, Node, SuccessPolicy
from horsies.workflow.signatures import NodeFunction, target_of
from horsies.workflow.starting import starting_again, starting_own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies.broker import PostgresBroker
    from horsies.config.app import AppConfig
    from horsies.domain.codec.classes import StorableClasses
    from horsies.workflow.handle import WorkflowHandle
    from horsies.workflow.nodes import AnyNode, BaseDefinition, NodeRef
    from horsies.workflow.starting import WorkflowStartError, WorkflowStartResult

T = TypeVar("T", default=Any)

_numbers = itertools.count(1)


class WorkflowApp(Protocol):
    """The part of an application that a workflow uses."""

    config: AppConfig
    storable: StorableClasses

    def get_broker(self) -> PostgresBroker: ...

    def workflow(self, name: str, tasks: Sequence[AnyNode], *args: Any, **options: Any) -> WorkflowSpec[Any]: ...


@dataclass(eq=False, repr=False)
class WorkflowSpec(Generic[T]):
    """Usually built by `app.workflow(...)`, which knows the queues. T is the type of the value it ends with."""

    name: str
    tasks: Sequence[AnyNode]
    on_error: OnError = OnError.FAIL
    output: NodeRef | None = None
    """The node whose result is the workflow's; without one, the results of all nodes on which none depends."""
    success_policy: SuccessPolicy | None = None
    definition_key: str | None = None
    workflow_def_cls: type[BaseDefinition[Any]] | None = None
    # No plain default, so that a missing value goes through __getattr__ when it is first used.
    broker: PostgresBroker | None = field(default_factory=lambda: None)
    resend_on_transient_err: bool = False
    app: InitVar[WorkflowApp | None] = None

    number: int = field(init=False)

    def __post_init__(self, app: WorkflowApp | None) -> None:
        definition = self.workflow_def_cls
        # The nodes of a class are defined in it; build() is called from anywhere, also in workers.
        location = calling_place() if definition is None or definition.takes_parameters() else definition.defined_at()
        draft = WorkflowDraft(
            self.name,
            self.tasks,
            self.on_error,
            self.output,
            self.success_policy,
            self.definition_key,
            definition,
        )
        graph = checked_graph(draft, location, None if app is None else app.config)
        self._finish(graph, app)

    def _finish(self, graph: Graph, app: WorkflowApp | None) -> None:
        for node in graph.nodes:
            _freeze(node)
        graph.write_back()
        self.tasks = graph.nodes
        # Planned now, because values in it may be changed later, for example a model by its owner.
        self.__dict__["_nodes"] = tuple(map(node_plan, graph.nodes))
        self.on_error = OnError(self.on_error)
        self.output = graph.find(self.output)
        # In the stored form, because nodes are compared by identity and the policy refers to the user's.
        self.__dict__["_policy"] = None if self.success_policy is None else policy_json(self.success_policy, graph)
        self.__dict__.update(_app=app, number=next(_numbers))
        if self.broker is None and app is not None:
            del self.__dict__["broker"]
        self.__dict__["_frozen"] = True

    @staticmethod
    def count() -> int:
        """Return how many were built so far: a spec with a higher number was built later."""
        return next(_numbers)

    def to_plan(self) -> WorkflowPlan:
        """Return the plan to store when it starts. WorkflowValidationError for queues that only an app would know."""
        require_routed(self.tasks)
        output = self.output
        return WorkflowPlan(
            name=self.name,
            definition_key=self.definition_key,
            on_error=self.on_error.value,
            output_index=output.index if isinstance(output, Node) else None,
            success_policy=self.__dict__["_policy"],
            nodes=self.__dict__["_nodes"],
        )

    def start(
        self, workflow_id: str | None = None, *, connection: object = None
    ) -> WorkflowStartResult[WorkflowHandle[T]]:
        """Store it with its first tasks. Nothing is raised; with an id of your own, a second start has no effect.

        With a `connection` it is stored in the caller's transaction.
        """
        return drive_blocking(starting_own(self, workflow_id, connection))

    async def start_async(
        self, workflow_id: str | None = None, *, connection: object = None
    ) -> WorkflowStartResult[WorkflowHandle[T]]:
        """`start` for a running event loop."""
        return await drive_awaited(starting_own(self, workflow_id, connection))

    def retry_start(self, error: WorkflowStartError) -> WorkflowStartResult[WorkflowHandle[T]]:
        """Start under the id of a start that failed, so that it cannot be started twice."""
        return drive_blocking(starting_again(self, error))

    async def retry_start_async(self, error: WorkflowStartError) -> WorkflowStartResult[WorkflowHandle[T]]:
        """`retry_start` for a running event loop."""
        return await drive_awaited(starting_again(self, error))

    def __getattr__(self, name: str) -> Any:
        """Return the broker of the app, resolved when it is used: a test may have replaced it since."""
        app = self.__dict__.get("_app")
        if name == "broker" and app is not None:
            return app.get_broker()
        raise AttributeError(f"a WorkflowSpec has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if "_frozen" in self.__dict__:
            raise AttributeError(f"{self!r} is finished and checked; {name!r} cannot be set, make a new one")
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name!r} of {self!r} cannot be deleted")

    def __repr__(self) -> str:
        return f"<workflow {self.name!r} of {len(self.tasks)} nodes>"


def _freeze(node: AnyNode) -> None:
    """Replace its values by copies through the codec: as the worker will receive them, and safe from later changes."""
    target = target_of(node)
    node.kwargs = MappingProxyType({name: _stored_copy(target, name, value) for name, value in node.kwargs.items()})
    node.args_from = MappingProxyType(node.args_from)
    if isinstance(node, MapNode) and not isinstance(node.over, Node):
        item = next(iter(target.by_keyword))
        node.over = tuple(_stored_copy(target, item, value) for value in node.over)
    node.freeze()


def _stored_copy(target: NodeFunction, name: str, value: Any) -> Any:
    stored = target.to_stored(name, value)
    copy = load_value(dump_value(stored), classes=LOADED)
    # What has a JSON of its own, a set or a UUID, is made again from that.
    return _frozen(copy) if stored is value else target.from_stored(name, copy)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
