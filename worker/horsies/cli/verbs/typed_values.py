"""Converts JSON that an operator typed to what the application's own tasks would store."""

from __future__ import annotations

from typing import Any

from horsies.domain import tags
from horsies.domain.codec import CodecError, dump_value, load_value, parse_json, to_json
from horsies.domain.codec.conversion import ConversionError, conversion_of, reading_of
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.task_result import TaskError, TaskResult
from horsies.locate import locate_app
from horsies.operations.edited import Arguments
from horsies.operations.target import OperationError
from horsies.registry import AnyTask
from horsies.task.calls import ReturnType
from horsies.workflow.definition import find_definition
from horsies.workflow.signatures import output_type

_OURS = frozenset({tags.WORKFLOW_CTX, tags.WORKFLOW_META})


class ApplicationTypes:
    """The TypedValues of an application. Its constructor imports the application with its task modules."""

    def __init__(self, module: str) -> None:
        self._app = locate_app(module)
        self._app.import_task_modules()

    def result(self, task_name: str, definition_key: str | None, text: str) -> str | None:
        return_type = self._return_type(task_name, definition_key)
        if return_type is None:
            return None
        try:
            value = self._by_hand(return_type.ok_type, text, "value")
            broken = return_type.broken_by(TaskResult(ok=value))
            stored = return_type.to_stored(TaskResult(ok=value))
            if (error := broken or stored.err) is None:
                return dump_value(stored.ok, "value", self._app.storable)
            problem = error.message
        except (CodecError, ConversionError) as error:
            problem = str(error)
        raise OperationError(
            f"the value does not fit what {task_name} returns: {problem}",
            help_text="the nodes that depend on it read it as that type",
        )

    def arguments(self, task_name: str, edited: Arguments, original: Arguments) -> Arguments | None:
        task = self._app.tasks.get(task_name)
        if task is None:
            return None
        try:
            typed = Arguments(self._args(task, edited.args), self._kwargs(task, edited.kwargs))
            args = original.args if typed.args is None else typed.args
            problem = task.why_not_run(args, original.kwargs if typed.kwargs is None else typed.kwargs)
        except (CodecError, ConversionError) as error:
            problem = str(error)
        if problem is not None:
            raise OperationError(
                f"the edited arguments do not fit what {task_name} takes: {problem}",
                help_text="write them as the types of its parameters say",
            )
        return typed

    def _return_type(self, task_name: str, definition_key: str | None) -> ReturnType | None:
        """Return the types of a node's outcome."""
        if definition_key is not None and definition_key != MAP_DEFINITION:
            definition = find_definition(definition_key)
            return None if definition is None else ReturnType(output_type(definition), TaskError)
        task = self._app.tasks.get(task_name)
        if task is None:
            return None
        return task.return_type if definition_key is None else ReturnType(list[task.task_ok_type], TaskError)  # type: ignore[name-defined]

    def _args(self, task: AnyTask, text: str | None) -> str | None:
        if text is None:
            return None
        return to_json([self._argument(task, place, part) for place, part in enumerate(parse_json(text, "args"))])

    def _kwargs(self, task: AnyTask, text: str | None) -> str | None:
        if text is None:
            return None
        return to_json({name: self._argument(task, name, part) for name, part in parse_json(text, "kwargs").items()})

    def _argument(self, task: AnyTask, key: int | str, tree: Any) -> Any:
        """Return the stored form of one argument; `why_not_run` refuses one that no parameter takes."""
        hint = task.parameters.hint_for(key)
        if hint is None or key in _OURS or (isinstance(tree, dict) and tags.INJECTED_RESULT in tree):
            return tree
        name = f"args[{key}]" if isinstance(key, int) else key
        value = self._by_hand(hint, to_json(tree), name)
        conversion = conversion_of(hint)
        stored = value if conversion is None else conversion.dump(value, name)
        return parse_json(dump_value(stored, name, self._app.storable))

    def _by_hand(self, hint: Any, text: str, name: str) -> Any:
        """Parse what an operator typed: plain JSON, or JSON with the tags of stored values."""
        value = load_value(text, name, self._app.storable)
        reading = None if isinstance(hint, str) else reading_of(hint)
        return value if reading is None else reading.load(value, name)
