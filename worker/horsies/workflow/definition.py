"""Workflows as classes: their nodes are attributes, and workers find them by their key."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import TypeVar

from horsies.domain.errors import ErrorCode, WorkflowValidationError, calling_place
from horsies.domain.plain_text import is_workflow_name
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.states import OnError
from horsies.workflow.nodes import BaseDefinition, SubWorkflowNode
from horsies.workflow.signatures import build_target, output_type
from horsies.workflow.spec import WorkflowSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from horsies.workflow.spec import WorkflowApp

T = TypeVar("T", default=Any)

_META: Final = {"output": None, "on_error": OnError.FAIL, "success_policy": None}


class WorkflowDefinition(BaseDefinition[T]):
    """Subclass it with a name, a definition_key and nodes; T is the type of the output's value.

    An inner `class Meta` may hold output, on_error and success_policy. It cannot see its siblings, so there nodes are
    named by their attribute: `output = "total"`.
    """

    Meta: ClassVar[type[Any]] = object

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._place = calling_place()
        if cls.is_base():
            return
        if not is_workflow_name(name := getattr(cls, "name", None)):
            raise WorkflowValidationError(
                f"name={name!r:.60} of {cls.__qualname__} is not possible"
                if name
                else f"{cls.__qualname__} has no name",
                code=ErrorCode.WORKFLOW_NO_NAME,
                location=cls._place,
                help_text='name it: name = "monthly_report"',
            )
        if cls.has_key():
            _register(cls)

    @classmethod
    def build(cls, app: WorkflowApp) -> WorkflowSpec[T]:
        """Return a new spec of the class's nodes."""
        if not cls.has_key():
            raise cls.missing_key()
        meta = cls._read_meta()
        nodes = [node for _, node in cls.get_workflow_nodes()]
        return app.workflow(cls.name, nodes, **meta, definition_key=cls.definition_key, workflow_def_cls=cls)

    @classmethod
    def build_with(cls, app: Any, *args: Any, **params: Any) -> WorkflowSpec[T]:
        """Build the workflow. Override it to take parameters: `def build_with(cls, app, *, count: int)`."""
        if args or params:
            raise WorkflowValidationError(
                f"{cls.__qualname__} has no build_with() of its own to take {', '.join(params) or 'arguments'}",
                code=ErrorCode.WORKFLOW_SUBWORKFLOW_PARAMS_REQUIRE_BUILD_WITH,
                location=cls._place,
                help_text="define build_with(cls, app, ...) with these parameters in the definition",
            )
        return cls.build(app)

    @classmethod
    def takes_parameters(cls) -> bool:
        """Return whether it has its own build_with."""
        return cls.build_with.__func__ is not WorkflowDefinition.build_with.__func__  # type: ignore[attr-defined]

    @classmethod
    def is_base(cls) -> bool:
        """Return whether the class exists only as a base of other definitions."""
        return not hasattr(cls, "name") and not cls.takes_parameters() and not cls.get_workflow_nodes()

    @classmethod
    def _read_meta(cls) -> dict[str, Any]:
        unknown = [name for name in dir(cls.Meta) if not name.startswith("_") and name not in _META]
        if unknown:
            raise WorkflowValidationError(
                f"{cls.__qualname__}.Meta has {', '.join(unknown)}, which is not an option of a workflow",
                location=cls._place,
                help_text=f"it may hold {', '.join(_META)}",
            )
        return {name: getattr(cls.Meta, name, default) for name, default in _META.items()}


_by_key: dict[str, type[WorkflowDefinition[Any]]] = {}
_lock = threading.Lock()


def find_definition(definition_key: str) -> type[WorkflowDefinition[Any]] | None:
    """Return the definition with this key, of all that this process has imported."""
    return _by_key.get(definition_key)


def known_definitions() -> list[str]:
    """Return the keys of all definitions that this process has imported."""
    return list(_by_key)


def declared_types() -> Iterator[Any]:
    """Yield the types in all definitions that this process has imported: of parameters, nodes and outputs."""
    for definition in list(_by_key.values()):
        yield output_type(definition)
        yield from build_target(definition).declared_types()
        for _, node in definition.get_workflow_nodes():
            if not isinstance(node, SubWorkflowNode):
                yield from node.fn.declared_types()


def build_for(definition: type[BaseDefinition[Any]], app: WorkflowApp, params: Mapping[str, Any]) -> WorkflowSpec[Any]:
    """Call build_with and check its result: a spec, and a new one."""
    before = WorkflowSpec.count()
    spec = definition.build_with(app, **params)
    if not isinstance(spec, WorkflowSpec) or spec.number <= before:
        what = "an old spec" if isinstance(spec, WorkflowSpec) else type(spec).__name__
        raise WorkflowValidationError(
            f"{definition.__qualname__}.build_with() returned {what}, not a new WorkflowSpec",
            code=ErrorCode.WORKFLOW_SUBWORKFLOW_BUILD_WITH_BINDING,
            location=definition.defined_at(),
            help_text="return app.workflow(...) or cls.build(app): its parameters may differ each time",
        )
    return spec


def _register(definition: type[WorkflowDefinition[Any]]) -> None:
    """Register it under its key. A module that is imported again replaces its own; two classes cannot share one."""
    key = definition.definition_key
    with _lock:
        known = _by_key.get(key)
        same = known is not None and (known.__module__, known.__qualname__) == (
            definition.__module__,
            definition.__qualname__,
        )
        if key != MAP_DEFINITION and (known is None or same):
            _by_key[key] = definition
            return
    other = (
        "this library's maps" if known is None else f"{known.__module__}.{known.__qualname__} at {known.defined_at()}"
    )
    raise WorkflowValidationError(
        f"the definition_key {key!r} of {definition.__qualname__} is taken",
        code=ErrorCode.WORKFLOW_DUPLICATE_DEFINITION_KEY,
        location=definition.defined_at(),
        notes=[f"it belongs to {other}"],
        help_text="give it another key: workers find the definition of a stored workflow by its key",
    )
