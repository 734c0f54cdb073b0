"""The nodes of a workflow: a task, a workflow of its own, or one task per item of a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
)

from horsies.domain.errors import ErrorCode, WorkflowContextMissingIdError, WorkflowValidationError, calling_place
from horsies.domain.plain_text import is_workflow_name
from horsies.domain.task_result import TaskResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from horsies.domain.codec.classes import Classes, StorableClasses
    from horsies.domain.errors import SourceLocation
    from horsies.handle import TaskHandle, TaskSendError, TaskSendResult

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")

MOST_ITEMS: Final = 1000
"""The default for one map: each item is a node and a task."""


class TaskParameters(Protocol):
    """The part of a task's parameters that a node uses."""

    classes: StorableClasses


class WorkflowTask(Protocol[T]):
    """The part of a task that a node uses; the class itself is in a higher layer."""

    task_name: str
    task_queue_name: str | None
    task_ok_type: Any
    location: SourceLocation | None

    def stored_options(self, good_until: datetime | None) -> str: ...

    @property
    def parameters(self) -> TaskParameters: ...

    @property
    def result_classes(self) -> Classes: ...

    def declared_types(self) -> list[Any]: ...

    def restored(self, result: TaskResult[Any, Any]) -> TaskResult[Any, Any]: ...

    # Not called here: it tells type checkers what T is.
    def retry_send(self, error: TaskSendError) -> TaskSendResult[TaskHandle[T]]: ...


@dataclass(frozen=True)
class NodeKey(Generic[T]):
    """Names a node whose value is a T, where the node object is not available: `ctx.result_for(key)`."""

    node_id: str


class Node(Generic[T]):
    """The base of all nodes. T is the type of the value: for `TaskResult[T, E]` of its task."""

    kwargs: Mapping[str, Any]
    waits_for: Sequence[AnyNode]
    args_from: Mapping[str, AnyNode]
    workflow_ctx_from: Sequence[AnyNode] | None
    join: str
    min_success: int | None
    allow_failed_deps: bool
    index: int | None
    node_id: str | None

    location: SourceLocation | None
    named_by_index: bool
    """The node_id was derived from the position in the list; another list may give another one."""

    def __post_init__(self) -> None:
        self.__dict__.update(location=calling_place(), named_by_index=False)

    @property
    def name(self) -> str:
        """The name of its task or its definition."""
        raise NotImplementedError

    def key(self) -> NodeKey[T]:
        """Return its key. WorkflowContextMissingIdError before the user or the workflow has given it a node_id."""
        return NodeKey(id_of(self))

    def freeze(self) -> None:
        self.__dict__["_frozen"] = True

    @property
    def is_frozen(self) -> bool:
        return "_frozen" in self.__dict__

    def __setattr__(self, name: str, value: object) -> None:
        if self.is_frozen:
            raise AttributeError(f"{self!r} belongs to a finished workflow; {name!r} cannot be set")
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name!r} of {self!r} cannot be deleted")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.node_id or self.name!r}>"


class BaseDefinition(Generic[T]):
    """The part of a WorkflowDefinition that nodes, checks and specs use; definition.py adds what makes a spec."""

    name: ClassVar[str]
    definition_key: ClassVar[str]
    _place: ClassVar[SourceLocation | None] = None

    @classmethod
    def build_with(cls, app: Any, *args: Any, **params: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def takes_parameters(cls) -> bool:
        """Return whether it has its own build_with."""
        raise NotImplementedError

    @classmethod
    def get_workflow_nodes(cls) -> list[tuple[str, AnyNode]]:
        """Return the nodes with the names of their attributes, those of base classes first, each node once."""
        attributes: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            attributes.update(vars(base))
        nodes: dict[int, tuple[str, Any]] = {}
        for name, value in attributes.items():
            if isinstance(value, Node):
                nodes.setdefault(id(value), (name, value))
                if not value.is_frozen and (value.node_id is None or value.named_by_index):
                    value.node_id, value.named_by_index = name, False
        return list(nodes.values())

    @classmethod
    def defined_at(cls) -> SourceLocation | None:
        return cls._place

    @classmethod
    def has_key(cls) -> bool:
        """Return whether it has its own definition_key, which can be stored."""
        return is_workflow_name(vars(cls).get("definition_key"))

    @classmethod
    def missing_key(cls) -> WorkflowValidationError:
        return WorkflowValidationError(
            f"{cls.__qualname__} has no definition_key of its own"
            if (key := vars(cls).get("definition_key")) is None
            else f"definition_key={key!r:.60} of {cls.__qualname__} is not possible",
            code=ErrorCode.WORKFLOW_NO_DEFINITION_KEY,
            location=cls._place,
            help_text=f'give it one that never changes: definition_key = "{cls.__module__}.{cls.__name__}"',
        )


@dataclass(eq=False, repr=False)
class TaskNode(Node[T]):
    """One run of a task."""

    fn: WorkflowTask[T]
    """The task."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Its arguments, by name."""
    waits_for: Sequence[AnyNode] = field(default_factory=list)
    """The nodes that must end before it starts; without any, it starts with the workflow."""
    args_from: Mapping[str, AnyNode] = field(default_factory=dict)
    """Parameters that receive the whole TaskResult of a node in `waits_for`."""
    workflow_ctx_from: Sequence[AnyNode] | None = None
    """Nodes of `waits_for` whose results the parameter `workflow_ctx` gives access to."""
    queue: str | None = None
    """Another queue than the task's own."""
    priority: int | None = None
    """1 first, 100 last; None: the queue's."""
    allow_failed_deps: bool = False
    """Whether it also runs if nodes of `waits_for` failed or were skipped; it gets their error results."""
    join: str = "all"
    """How many nodes of `waits_for` must succeed: `all`, `any`, or `quorum` with `min_success`."""
    min_success: int | None = None
    """With `join="quorum"`, how many."""
    good_until: datetime | None = None
    """Its task expires if it has not started by then; must have a time zone."""
    index: int | None = None
    """Its place in the list of nodes; the workflow sets it."""
    node_id: str | None = None
    """A name that stays; without one it is derived from the name of the workflow and the place in the list."""

    @property
    def name(self) -> str:
        return _name_of(self.fn)

    @staticmethod
    def map(
        fn: WorkflowTask[U], over: Node[Any] | Sequence[Any], *, max_items: int = MOST_ITEMS, **fixed: Any
    ) -> MapNode[U]:
        """Make one node that runs a task for each item of a list, or of the list that is the value of another node.

        The item is the first parameter; `fixed` are the others. MapNode takes the options that a TaskNode has.
        """
        return MapNode(fn, over, kwargs=fixed, max_items=max_items)


@dataclass(eq=False, repr=False)
class SubWorkflowNode(Node[T]):
    """A workflow within the workflow, built by its definition when the node is READY."""

    workflow_def: type[BaseDefinition[T]]
    """The WorkflowDefinition that builds it."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """For the parameters of `build_with`."""
    waits_for: Sequence[AnyNode] = field(default_factory=list)
    args_from: Mapping[str, AnyNode] = field(default_factory=dict)
    workflow_ctx_from: Sequence[AnyNode] | None = None
    join: str = "all"
    min_success: int | None = None
    allow_failed_deps: bool = False
    index: int | None = None
    node_id: str | None = None

    @property
    def name(self) -> str:
        return str(getattr(self.workflow_def, "name", None) or self.workflow_def)


@dataclass(eq=False, repr=False)
class MapNode(Node[list[T]]):
    """One run of a task per item, all of them one node: its value is the list of their values, in order."""

    fn: WorkflowTask[T]
    """The task; its first parameter takes the item."""
    over: Node[Any] | Sequence[Any]
    """A list, or a node whose value is one."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """The same for each item."""
    max_items: int = MOST_ITEMS
    """A longer list fails the node."""
    waits_for: Sequence[AnyNode] = field(default_factory=list)
    """Nodes besides `over`."""
    queue: str | None = None
    priority: int | None = None
    good_until: datetime | None = None
    index: int | None = None
    node_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.over, Node) and not any(node is self.over for node in self.waits_for):
            self.waits_for = [*self.waits_for, cast("AnyNode", self.over)]
        self.__dict__.update(
            args_from={}, workflow_ctx_from=None, join="all", min_success=None, allow_failed_deps=False
        )

    @property
    def name(self) -> str:
        return _name_of(self.fn)


def id_of(node: Node[Any] | NodeKey[Any]) -> str:
    """Return the node's id; WorkflowContextMissingIdError if it has none yet."""
    if node.node_id is None:
        raise WorkflowContextMissingIdError(
            f"{node!r} has no node_id, so nothing can be found by it: give it one, node_id='...', or name it by its "
            "NodeKey, which the workflow's own nodes give with .key()"
        )
    return node.node_id


def result_classes(node: object, otherwise: Classes) -> Classes:
    """Return the classes that a stored result of this node may have: those of its task's type, if it is known."""
    return node.fn.result_classes if isinstance(node, TaskNode | MapNode) else otherwise


def restored(node: object, result: TaskResult[Any, Any]) -> TaskResult[Any, Any]:
    """Return a stored result of this node with a value of the type that its task declares, if it is a task."""
    if isinstance(node, TaskNode):
        return node.fn.restored(result)
    if isinstance(node, MapNode) and isinstance(result.ok, list):
        each = [node.fn.restored(TaskResult(ok=value)) for value in result.ok]
        return next((one for one in each if one.is_err()), TaskResult(ok=[one.ok for one in each]))
    return result


AnyNode: TypeAlias = TaskNode[Any] | SubWorkflowNode[Any] | MapNode[Any]
NodeRef: TypeAlias = AnyNode | NodeKey[Any] | str
"""A node where its name is allowed too: an inner class cannot see the nodes of its definition."""


def _name_of(task: object) -> str:
    return str(getattr(task, "task_name", None) or getattr(task, "__name__", None) or task)


@dataclass(frozen=True, slots=True)
class SuccessCase:
    """The case holds if all of these nodes have succeeded."""

    required: Sequence[NodeRef]


@dataclass(frozen=True, slots=True)
class SuccessPolicy:
    """One case is enough, even if other nodes failed; `optional` names nodes whose failure is expected."""

    cases: Sequence[SuccessCase]
    optional: Sequence[NodeRef] | None = None


@dataclass(frozen=True, slots=True)
class FromNode:
    """Represents a node's result in the call of a node factory."""

    node: AnyNode


def from_node(node: Node[T]) -> TaskResult[T, Any]:
    """Return an argument that is the result of another node: `total.node()(left=from_node(a), right=from_node(b))`."""
    if not isinstance(node, Node):
        raise WorkflowValidationError(
            f"from_node() takes a node, not {type(node).__name__}",
            code=ErrorCode.WORKFLOW_INVALID_ARGS_FROM,
            location=calling_place(),
            help_text="make one first: step = my_task.node()(...), then from_node(step)",
        )
    return cast("TaskResult[T, Any]", FromNode(cast("AnyNode", node)))


class NodeOptions(TypedDict, total=False):
    """The options of `task.node(...)`, which are those of a TaskNode."""

    waits_for: Sequence[AnyNode]
    workflow_ctx_from: Sequence[AnyNode] | None
    args_from: Mapping[str, AnyNode]
    queue: str | None
    priority: int | None
    allow_failed_deps: bool
    join: str
    min_success: int | None
    good_until: datetime | None
    node_id: str | None


class NodeFactory(Generic[P, T]):
    """`task.node(...)`: call it with the arguments of the task, by name, to get the node."""

    __slots__ = ("_fn", "_options")

    def __init__(self, fn: WorkflowTask[T], options: NodeOptions) -> None:
        self._fn = fn
        self._options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskNode[T]:
        if args:
            raise WorkflowValidationError(
                f"a node of task {self._fn.task_name!r} is given {len(args)} arguments by position",
                code=ErrorCode.WORKFLOW_POSITIONAL_ARGS_NOT_SUPPORTED,
                location=calling_place(),
                help_text="name each argument: task.node(...)(amount=3)",
            )
        sources = {name: value.node for name, value in kwargs.items() if isinstance(value, FromNode)}
        options: dict[str, Any] = dict(self._options)
        waits_for = {id(node): node for node in (*(options.pop("waits_for", None) or ()), *sources.values())}
        args_from = {**(options.pop("args_from", None) or {}), **sources}
        plain = {name: value for name, value in kwargs.items() if name not in sources}
        return TaskNode(self._fn, plain, list(waits_for.values()), args_from, **options)
