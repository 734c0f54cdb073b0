"""Functions that build workflows; a check calls them with example arguments, before any worker does."""

from __future__ import annotations

import inspect
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import (
    ErrorCode,
    HorsiesError,
    WorkflowValidationError,
    flatten,
    raising_place,
    signature_place,
)
from horsies.workflow.definition import WorkflowDefinition
from horsies.workflow.nodes import SubWorkflowNode
from horsies.workflow.signatures import FILLED_BY_US, build_target
from horsies.workflow.spec import WorkflowSpec
from horsies.workflow.subworkflow_plan import built_child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from horsies.domain.errors import SourceLocation
    from horsies.workflow.nodes import BaseDefinition
    from horsies.workflow.spec import WorkflowApp

NO_CHECK: Final = "__horsies_no_check__"
_MAX_CHILDREN: Final = 1_000
_DECORATE: Final = f"put @app.workflow_builder() on it, or set {{name}}.{NO_CHECK} = True"


@dataclass(frozen=True, slots=True)
class WorkflowBuilder:
    """A user function that builds a workflow, and the calls that a check tries."""

    fn: Callable[..., Any]
    cases: Sequence[Mapping[str, Any]] | None

    @property
    def name(self) -> str:
        return f"{self.fn.__module__}.{self.fn.__qualname__}"


def definition_errors(modules: Iterable[ModuleType]) -> list[HorsiesError]:
    """Return errors for definitions that no worker could find."""
    return [each.missing_key() for each in _definitions(modules) if not each.has_key()]


class TrialBuilds:
    """Builds each workflow that can be built without a result: those of builders, of definitions, and their children.

    A child is built with the arguments that its node gives it. `errors` are those of all, once each.
    """

    def __init__(self, app: WorkflowApp) -> None:
        self.errors: list[HorsiesError] = []
        self._app = app
        self._seen: set[tuple[type[BaseDefinition[Any]], str | None]] = set()
        self._built: set[str | None] = set()
        """The keys of definitions that were built, or that a schedule builds."""
        self._open: dict[type[BaseDefinition[Any]], str] = {}
        """Why a node's definition could not be built."""
        self._is_cut = False
        self._ahead: deque[tuple[SubWorkflowNode[Any], str | None, str]] = deque()

    def run(self, builders: Iterable[WorkflowBuilder], modules: Iterable[ModuleType]) -> None:
        definitions = _definitions(modules)
        for builder in builders:
            for case, where in self._cases(builder):
                self._try(builder.fn, case, where)
        for definition in definitions:
            if definition.takes_parameters():
                parameters = ", ".join(build_target(definition).by_keyword)
                self._open.setdefault(definition, f"no case and no schedule gives its {parameters or 'arguments'}")
            elif (definition, None) not in self._seen:
                self._seen.add((definition, None))
                self._try(definition.build, {"app": self._app}, definition.__qualname__)
        while self._ahead:
            self._child(*self._ahead.popleft())

    @property
    def unbuilt(self) -> list[str]:
        """The definitions that no call has built, and why."""
        scheduled = {getattr(one, "workflow", None) for one in self._app.config.enabled_schedules}
        known = self._built | scheduled
        unknown = [
            f"{definition.__qualname__}.build_with(): {reason}"
            for definition, reason in self._open.items()
            if definition.definition_key not in known
        ]
        return [*unknown, *([f"sub-workflows after the first {_MAX_CHILDREN:,}"] if self._is_cut else [])]

    def _cases(self, builder: WorkflowBuilder) -> Iterator[tuple[Mapping[str, Any], str]]:
        parameters = inspect.signature(builder.fn).parameters.values()
        required = [each.name for each in parameters if each.default is each.empty and each.kind not in _VARIABLE]
        if builder.cases is None:
            if required:
                example = ", ".join(f"{name!r}: ..." for name in required)
                error = WorkflowValidationError(
                    f"{builder.name}() needs {', '.join(required)}, so a check cannot call it",
                    code=ErrorCode.WORKFLOW_CHECK_CASES_REQUIRED,
                    location=signature_place(builder.fn),
                    help_text=f"give it examples: @app.workflow_builder(cases=[{{{example}}}])",
                )
                self.errors.append(error)
            else:
                yield {}, builder.name
            return
        if not isinstance(builder.cases, list | tuple) or not builder.cases:
            self.errors.append(
                _bad_case(builder, f"cases={builder.cases!r} of {builder.name}() is not a list of calls")
            )
            return
        for position, case in enumerate(builder.cases):
            where = f"cases[{position}] of {builder.name}()"
            if not isinstance(case, Mapping):
                message = f"{where} is {type(case).__name__}, not a dict of arguments"
                self.errors.append(_bad_case(builder, message))
            elif reason := _why_not_callable(builder.fn, case):
                self.errors.append(_bad_case(builder, f"{where} does not fit: {reason}"))
            else:
                yield case, where

    def _try(
        self,
        build: Callable[..., Any],
        arguments: Mapping[str, Any],
        where: str,
        written: Callable[..., Any] | None = None,
    ) -> None:
        """Call it; errors of the engine are reported as they are, any other as HRS-029.

        `written` is the user's function behind it, if that is not `build` itself.
        """
        written = written or build
        location = signature_place(inspect.unwrap(getattr(written, "__func__", written)))
        try:
            spec = build(**arguments)
            if isinstance(spec, WorkflowSpec):
                plan = spec.to_plan()
                self._built.add(spec.definition_key)
                pairs = zip(spec.tasks, plan.nodes, strict=True)
                self._ahead += [
                    (node, one.kwargs_json, where) for node, one in pairs if isinstance(node, SubWorkflowNode)
                ]
                return
        except HorsiesError as error:
            self.errors += [each.with_note(f"found by building {where}") for each in flatten([error])]
            return
        except (Exception, SystemExit) as error:  # noqa: BLE001 - user code; sys.exit() in it must not end the check
            text = traceback.TracebackException(type(error), error, None)
            place = raising_place(error) or location
            self.errors.append(_failed(f"{where} raised {type(error).__name__}: {text}", place))
            return
        if inspect.iscoroutine(spec):
            spec.close()  # else Python warns that it was never awaited
        self.errors.append(_failed(f"{where} returned {type(spec).__name__}, not a WorkflowSpec", location))

    def _child(self, node: SubWorkflowNode[Any], kwargs_json: str | None, where: str) -> None:
        """Build the child of a node as a worker does, unless it needs results that only a run has."""
        definition = node.workflow_def
        given = (definition, kwargs_json if definition.takes_parameters() else None)
        if given in self._seen:
            return
        target = build_target(definition)
        missing = [*node.args_from, *(name for name in FILLED_BY_US if name in target.by_keyword)]
        if missing:
            self._open[definition] = f"{', '.join(missing)} comes from a run of {where}"
        elif len(self._seen) >= _MAX_CHILDREN:
            self._ahead.clear()
            self._is_cut = True
        else:
            self._seen.add(given)
            build = partial(built_child, definition, self._app, kwargs_json)
            self._try(build, {}, f"{definition.__qualname__}, a sub-workflow of {where}", definition.build_with)


def undecorated_errors(builders: Iterable[WorkflowBuilder], modules: Iterable[ModuleType]) -> list[HorsiesError]:
    """Return errors for functions of these modules that are annotated to return a workflow, and that no check tries."""
    known = {builder.fn for builder in builders}
    return [
        WorkflowValidationError(
            f"{fn.__name__}() returns a WorkflowSpec, but is not checked",
            code=ErrorCode.WORKFLOW_CHECK_UNDECORATED_BUILDER,
            location=signature_place(fn),
            help_text=_DECORATE.format(name=fn.__name__),
        )
        for module in modules
        for fn in vars(module).values()
        if inspect.isfunction(fn) and fn.__module__ == module.__name__ and fn not in known
        if not getattr(fn, NO_CHECK, False) and _returns_spec(fn)
    ]


def _definitions(modules: Iterable[ModuleType]) -> list[type[WorkflowDefinition[Any]]]:
    found = {
        value: None
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, WorkflowDefinition) and not value.is_base()
    }
    return list(found)


def _returns_spec(fn: Callable[..., Any]) -> bool:
    """Decide by the annotation's text, if it is one: its name may be imported for type checkers only."""
    hint = getattr(fn, "__annotations__", {}).get("return")
    if isinstance(hint, str):
        return hint.partition("[")[0].rpartition(".")[2].strip() == WorkflowSpec.__name__
    return getattr(hint, "__origin__", hint) is WorkflowSpec


_VARIABLE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _why_not_callable(fn: Callable[..., Any], case: Mapping[str, Any]) -> str | None:
    try:
        inspect.signature(fn).bind(**case)
    except TypeError as error:  # also a key that is no text
        return str(error)
    return None


def _failed(message: str, location: SourceLocation | None) -> WorkflowValidationError:
    return WorkflowValidationError(
        message,
        code=ErrorCode.WORKFLOW_CHECK_BUILDER_EXCEPTION,
        location=location,
        help_text="a builder returns app.workflow(...), and needs neither a database nor a running loop for it",
    )


def _bad_case(builder: WorkflowBuilder, message: str) -> WorkflowValidationError:
    return WorkflowValidationError(
        message,
        code=ErrorCode.WORKFLOW_CHECK_CASE_INVALID,
        location=signature_place(builder.fn),
        help_text="each case is a dict with the arguments of one call, by name",
    )
