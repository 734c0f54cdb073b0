"""Functions that build workflows; a check calls them with example arguments, before any worker does."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import ErrorCode, HorsiesError, WorkflowValidationError, flatten
from horsies.domain.places import raising_place, signature_place
from horsies.workflow.definition import WorkflowDefinition
from horsies.workflow.spec import WorkflowSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from horsies.domain.errors import SourceLocation
    from horsies.workflow.spec import WorkflowApp

NO_CHECK: Final = "__horsies_no_check__"
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
    """Errors for definitions that no worker could find."""
    return [each.missing_key() for each in _definitions(modules) if not each.has_key()]


def building_errors(
    app: WorkflowApp, builders: Iterable[WorkflowBuilder], modules: Iterable[ModuleType]
) -> list[HorsiesError]:
    """The errors of all builders' workflows, and of all definitions that can be built without arguments."""
    errors: list[HorsiesError] = []
    for builder in builders:
        errors += _builder_errors(builder)
    for definition in _definitions(modules):
        if not definition.takes_parameters():
            errors += _errors_of(definition.build, {"app": app}, definition.__qualname__)
    return errors


def undecorated_errors(builders: Iterable[WorkflowBuilder], modules: Iterable[ModuleType]) -> list[HorsiesError]:
    """Functions at module level whose annotation says that they return a workflow, and that no check would try."""
    known = {builder.fn for builder in builders}
    return [
        WorkflowValidationError(
            f"{fn.__name__}() returns a WorkflowSpec, but is not checked",
            code=ErrorCode.WORKFLOW_CHECK_UNDECORATED_BUILDER,
            location=signature_place(fn),
            help_text=_DECORATE.format(name=fn.__name__),
        )
        for fn in _functions_of(modules)
        if fn not in known and not getattr(fn, NO_CHECK, False) and _returns_spec(fn)
    ]


def _definitions(modules: Iterable[ModuleType]) -> list[type[WorkflowDefinition[Any]]]:
    found = {
        value: None
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, WorkflowDefinition) and not value.is_base()
    }
    return list(found)


def _functions_of(modules: Iterable[ModuleType]) -> Iterator[Callable[..., Any]]:
    for module in modules:
        for value in vars(module).values():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                yield value


def _returns_spec(fn: Callable[..., Any]) -> bool:
    """By its text, if the annotation is one: the name in it may be imported for type checkers only."""
    hint = getattr(fn, "__annotations__", {}).get("return")
    if isinstance(hint, str):
        return hint.partition("[")[0].rpartition(".")[2].strip() == WorkflowSpec.__name__
    return getattr(hint, "__origin__", hint) is WorkflowSpec


def _builder_errors(builder: WorkflowBuilder) -> list[HorsiesError]:
    parameters = inspect.signature(builder.fn).parameters.values()
    required = [each.name for each in parameters if each.default is each.empty and each.kind not in _VARIABLE]
    if builder.cases is None:
        if required:
            return [_cases_required(builder, required)]
        return _errors_of(builder.fn, {}, builder.name)
    if not isinstance(builder.cases, list | tuple) or not builder.cases:
        return [_bad_case(builder, f"cases={builder.cases!r} of {builder.name}() is no list of calls")]
    errors: list[HorsiesError] = []
    for position, case in enumerate(builder.cases):
        where = f"cases[{position}] of {builder.name}()"
        if not isinstance(case, Mapping):
            errors.append(_bad_case(builder, f"{where} is {type(case).__name__}, not a dict of arguments"))
        elif reason := _why_not_callable(builder.fn, case):
            errors.append(_bad_case(builder, f"{where} does not fit: {reason}"))
        else:
            errors += _errors_of(builder.fn, case, where)
    return errors


_VARIABLE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _why_not_callable(fn: Callable[..., Any], case: Mapping[str, Any]) -> str | None:
    try:
        inspect.signature(fn).bind(**case)
    except TypeError as error:  # also a key that is no text
        return str(error)
    return None


def _errors_of(build: Callable[..., Any], arguments: Mapping[str, Any], where: str) -> list[HorsiesError]:
    """Call it; errors of the engine as they are, any other as HRS-029."""
    location = signature_place(inspect.unwrap(getattr(build, "__func__", build)))
    try:
        spec = build(**arguments)
        if isinstance(spec, WorkflowSpec):
            spec.to_plan()
            return []
    except HorsiesError as error:
        return [each.with_note(f"found by building {where}") for each in flatten([error])]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code; sys.exit() in it must not end the check
        text = traceback.TracebackException(type(error), error, None)
        return [_failed(f"{where} raised {type(error).__name__}: {text}", raising_place(error) or location)]
    if inspect.iscoroutine(spec):
        spec.close()  # else Python warns that it was never awaited
    return [_failed(f"{where} returned {type(spec).__name__}, not a WorkflowSpec", location)]


def _failed(message: str, location: SourceLocation | None) -> WorkflowValidationError:
    return WorkflowValidationError(
        message,
        code=ErrorCode.WORKFLOW_CHECK_BUILDER_EXCEPTION,
        location=location,
        help_text="a builder returns app.workflow(...), and needs neither a database nor a running loop for it",
    )


def _cases_required(builder: WorkflowBuilder, required: list[str]) -> WorkflowValidationError:
    example = ", ".join(f"{name!r}: ..." for name in required)
    return WorkflowValidationError(
        f"{builder.name}() needs {', '.join(required)}, so a check cannot call it",
        code=ErrorCode.WORKFLOW_CHECK_CASES_REQUIRED,
        location=signature_place(builder.fn),
        help_text=f"give it examples: @app.workflow_builder(cases=[{{{example}}}])",
    )


def _bad_case(builder: WorkflowBuilder, message: str) -> WorkflowValidationError:
    return WorkflowValidationError(
        message,
        code=ErrorCode.WORKFLOW_CHECK_CASE_INVALID,
        location=signature_place(builder.fn),
        help_text="each case is a dict with the arguments of one call, by name",
    )
