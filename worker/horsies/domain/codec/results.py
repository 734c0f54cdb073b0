"""Values, arguments, results and errors in their stored form; of results and errors, neither direction ever raises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from horsies.domain import tags
from horsies.domain.codec.classes import OURS, Classes, StorableClasses
from horsies.domain.codec.json_text import CodecError, CorruptJsonError, parse_json, plain_json, to_json
from horsies.domain.codec.read import Reader
from horsies.domain.codec.write import to_tree
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.result import Err, Ok, Result
from horsies.domain.states import WorkflowStatus
from horsies.domain.task_result import SubWorkflowSummary, TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LARGE: Final = 1_000_000
EXCEPTION_TYPE: Final = "exception_type"
"""The key in the data of an error that was made of an exception."""


def dump_value(value: Any, name: str = "value", classes: StorableClasses | None = None) -> str:
    """The compact JSON of `value`; CodecError names what cannot be written, with `name` as the start of its path.

    With `classes`, an object of another class is refused, because readers of the application would not build it.
    """
    text = plain_json(value)
    return to_json(to_tree(value, name, classes), name) if text is None else text


def load_value(text: str, name: str = "value", classes: Classes = OURS) -> Any:
    """Load a stored value. CorruptJsonError, or HydrationError for a class that is not one of `classes`."""
    return Reader(name, classes).entry(Reader.value, parse_json(text, name))


def storable_task_result(result: TaskResult[Any, Any]) -> tuple[TaskResult[Any, Any], str]:
    """The result to store, and its text: `result` itself, or the fixed error if it cannot be written.

    The caller must decide between COMPLETED and FAILED by the returned result.
    """
    try:
        return result, dump_value(result, "result")
    except CodecError as error:
        replaced: TaskResult[Any, TaskError] = TaskResult(err=_not_writable(error, result.err))
        return replaced, dump_value(replaced, "result")


def dump_task_result(result: TaskResult[Any, Any]) -> str:
    return storable_task_result(result)[1]


def with_retries_spent(text: str, *, retry_count: int, max_retries: int) -> str:
    """Return the stored result of the last try, whose error says in its data that no retry is left.

    Data that the task gave its error stays as it is, and so does the error of a subclass: its `data` may have a type
    that would refuse this when it is read back.
    """
    tree = parse_json(text, "result")
    error = tree["err"]
    plain = isinstance(error, dict) and error.get(tags.TASK_ERROR) is True and tags.ERROR_CLASS not in error
    if not plain or not _has_data_of_engine(error):
        return text
    spent = {"reason": "all retries are spent", "retry_count": retry_count, "max_retries": max_retries}
    error["data"] = (error["data"] or {}) | spent
    return to_json(tree, "result")


def _has_data_of_engine(error: dict[str, Any]) -> bool:
    """Return whether the data of a stored error is missing, that of an exception, or that of a built-in code."""
    data, code = error["data"], error["error_code"]
    if not isinstance(data, dict):
        return data is None
    built_in = isinstance(code, dict) and code.keys() == {tags.BUILTIN_CODE}
    return not data or built_in or (data.keys() == {EXCEPTION_TYPE} and error.get("exception") is not None)


def dump_task_error(error: TaskError) -> str:
    try:
        return dump_value(error, "error")
    except CodecError as reason:
        return dump_value(_not_writable(reason, error), "error")


def load_task_result(text: str, classes: Classes = OURS) -> TaskResult[Any, Any]:
    """Load a result. Corrupt text gives BROKER_ERROR, a class that is not in `classes` PYDANTIC_HYDRATION_ERROR."""
    try:
        tree = parse_json(text, "result")
        if not isinstance(tree, dict) or not tree.keys() & {"ok", "err"}:
            raise CorruptJsonError("result", "expected an object with ok and err")
        result: TaskResult[Any, Any] = Reader("result", classes).entry(Reader.task_result, tree)
    except CodecError as error:
        return TaskResult(err=Reader.unreadable(error))
    return result


def load_task_error(text: str, classes: Classes = OURS) -> TaskError:
    """Load an error, or an error with the reason why it cannot be read."""
    try:
        tree = parse_json(text, "error")
        if not isinstance(tree, dict):
            raise CorruptJsonError("error", "expected an object")
        found: TaskError = Reader("error", classes).entry(Reader.task_error, tree)
    except CodecError as error:
        return Reader.unreadable(error)
    return found


def stored_traceback(text: str) -> str | None:
    """Return the traceback in a stored result, if it is the error of an exception and not of megabytes."""
    if len(text) > _LARGE:
        return None
    try:
        found: Any = parse_json(text, "result")
    except CodecError:
        return None
    for name in ("err", "exception", "traceback"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def load_summary(text: str, classes: Classes = OURS) -> SubWorkflowSummary[Any]:
    """Load the summary of a child workflow; an output of an undeclared class stays JSON, damaged text is a failure."""
    try:
        summary = load_value(text, "summary", classes)
    except CorruptJsonError as error:
        reason = f"the stored summary cannot be read: {error}"
        return SubWorkflowSummary(WorkflowStatus.FAILED, None, 0, 0, 0, 0, reason)
    except CodecError:
        summary = parse_json(text, "summary")
    if isinstance(summary, SubWorkflowSummary):
        return summary
    return SubWorkflowSummary.from_json(summary if isinstance(summary, dict) else {})


def _not_writable(error: CodecError, original: object) -> TaskError:
    """Return an error in place of what cannot be written. An error loses only its data: callers need its code."""
    data = {"reason": str(error)}
    if isinstance(original, TaskError) and isinstance(original.error_code, str):
        with suppress(CodecError):
            kept = TaskError(error_code=original.error_code, message=original.message, data=data)
            dump_value(kept, "error")
            return kept
    code = OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    return TaskError(error_code=code, message="secondary serialization failure", data=data)


ClassesFor: TypeAlias = Callable[[int | str], Classes | None]
"""The classes that an argument may have, by its position or its name; None if no parameter takes it."""

_OUR_KEYS: Final = frozenset({tags.WORKFLOW_CTX, tags.WORKFLOW_META})


def _ours(_argument: int | str) -> Classes:
    return OURS


def dump_args(args: Sequence[Any], classes: StorableClasses | None = None) -> str | None:
    """Return a JSON array, or None (a NULL column) for no arguments. Raises CodecError. `classes`: see `dump_value`."""
    return dump_value(tuple(args), "args", classes) if args else None


def dump_kwargs(kwargs: Mapping[str, Any], classes: StorableClasses | None = None) -> str | None:
    """Return a JSON object, or None for no arguments. Raises CodecError."""
    return dump_value(dict(kwargs), "kwargs", classes) if kwargs else None


def load_args(text: str | None, classes_for: ClassesFor = _ours) -> Result[list[Any], TaskError]:
    """Load the positional arguments, or return the error of a task whose arguments are unreadable.

    What no parameter takes stays JSON: the call is refused by the signature, without building anything for it.
    """
    try:
        tree: list[Any] = [] if text is None else _container(text, "args", list)
        return Ok([_part(part, "args", place, classes_for) for place, part in enumerate(tree)])
    except CodecError as error:
        return Err(_unreadable(error))


def load_kwargs(text: str | None, classes_for: ClassesFor = _ours) -> Result[dict[str, Any], TaskError]:
    """Load the keyword arguments; results of earlier nodes arrive as TaskResult, even those that cannot be rebuilt."""
    try:
        tree: dict[str, Any] = {} if text is None else _container(text, "kwargs", dict)
        return Ok({name: _part(part, "kwargs", name, classes_for) for name, part in tree.items()})
    except CodecError as error:
        return Err(_unreadable(error))


def _container(text: str, column: str, kind: type) -> Any:
    tree = parse_json(text, column)
    if not isinstance(tree, kind):
        found = _KINDS.get(type(tree), "a number")
        raise CorruptJsonError(column, f"expected a JSON {'array' if kind is list else 'object'}, found {found}")
    return tree


def _part(tree: Any, column: str, key: int | str, classes_for: ClassesFor) -> Any:
    if not isinstance(tree, dict | list) or key in _OUR_KEYS or (classes := classes_for(key)) is None:
        return tree
    if isinstance(tree, dict) and tree.get(tags.INJECTED_RESULT) is True and isinstance(tree.get("data"), str):
        return load_task_result(tree["data"], classes)
    return Reader(column, classes).entry(lambda reader, part: reader.step(key, part), tree)


def _unreadable(error: CodecError) -> TaskError:
    return TaskError(
        error_code=OperationalErrorCode.WORKER_SERIALIZATION_ERROR,
        message=f"the stored arguments cannot be read: {error}",
    )


_KINDS: Final = {dict: "an object", list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
