"""The plan of a child workflow, made in a worker when its node is READY; user code runs in here."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import load_kwargs
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.result import Err
from horsies.workflow.context import call_kwargs
from horsies.workflow.definition import build_for, find_definition
from horsies.workflow.maps import BuildFailed, ChildPlanError, UnreadableKwargs, map_plan
from horsies.workflow.signatures import build_target

if TYPE_CHECKING:
    from horsies.domain.plan import WorkflowPlan
    from horsies.workflow.nodes import BaseDefinition
    from horsies.workflow.spec import WorkflowApp, WorkflowSpec

__all__ = ["BuildFailed", "ChildPlanError", "UnknownDefinition", "UnreadableKwargs", "child_plan", "map_plan"]


class UnknownDefinition(ChildPlanError):  # noqa: N818 - as its siblings
    """No definition with this key has been imported here."""


def child_plan(app: WorkflowApp, definition_key: str, kwargs_json: str | None) -> WorkflowPlan:
    """The child of a node, from the kwargs that a task of that node would get, including results of its dependencies.

    Raises UnknownDefinition, UnreadableKwargs or BuildFailed. Runs the user's `build_with`, so call it in a thread.
    """
    if definition_key == MAP_DEFINITION:
        return map_plan(kwargs_json)
    definition = find_definition(definition_key)
    if definition is None:
        raise UnknownDefinition(
            f"no WorkflowDefinition with the key {definition_key!r} is known here; list its module in discover_tasks()"
        )
    try:
        # build_with may return a spec with another key, and a worker must find this definition again.
        return replace(built_child(definition, app, kwargs_json).to_plan(), definition_key=definition_key)
    except UnreadableKwargs:
        raise
    except BaseException as error:  # build_with is user code: sys.exit() in it must fail this node, not the worker
        # str(error) is user code and may raise; the traceback module takes care of that.
        text = traceback.TracebackException(type(error), error, None)
        raise BuildFailed(f"{definition.__qualname__} cannot be built: {type(error).__name__}: {text}") from error


def built_child(definition: type[BaseDefinition[Any]], app: WorkflowApp, kwargs_json: str | None) -> WorkflowSpec[Any]:
    """The spec of a child, from the stored kwargs of its node; raises UnreadableKwargs and what `build_with` raises."""
    target = build_target(definition, app.storable)
    loaded = load_kwargs(kwargs_json, target.classes_for)
    if isinstance(loaded, Err):
        raise UnreadableKwargs(loaded.err_value.message)
    kwargs = call_kwargs(loaded.ok_value, target.by_keyword, app.storable)
    kwargs = {name: target.from_stored(name, value) for name, value in kwargs.items()}
    return build_for(definition, app, kwargs)
