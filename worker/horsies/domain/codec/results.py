"""Values, arguments, results and errors in their stored form; of results and errors, neither direction ever raises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from horsies.domain import tags
from horsies.domain.codec.classes import OURS, Classes, StorableClasses
from horsies.domain.codec.json_text import CodecError, CorruptJsonError, parse_json, plain_json, to_json
from horsies.domain.codec.read import error_from_tree, from_tree, part_from_tree, result_from_tree, unreadable
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
    """The value of stored text. CorruptJsonError, or HydrationError for a class that is not one of `classes`."""
    return from_tree(parse_json(text, name), name, classes)


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
    """The text of the result column."""
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
    """The text of a workflow's error column."""
    try:
        return dump_value(error, "error")
    except CodecError as reason:
        return dump_value(_not_writable(reason, error), "error")


def load_task_result(text: str, classes: Classes = OURS) -> TaskResult[Any, Any]:
    """The result. Corrupt text gives BROKER_ERROR, a class that is not one of `classes` PYDANTIC_HYDRATION_ERROR."""
    try:
        tree = parse_json(text, "result")
        if not isinstance(tree, dict) or not tree.keys() & {"ok", "err"}:
            raise CorruptJsonError("result", "expected an object with ok and err")
        return result_from_tree(tree, "result", classes)
    except CodecError as error:
        return TaskResult(err=unreadable(error))


def load_task_error(text: str, classes: Classes = OURS) -> TaskError:
    """The error of the text, or an error with the reason why it cannot be read."""
    try:
        tree = parse_json(text, "error")
        if not isinstance(tree, dict):
            raise CorruptJsonError("error", "expected an object")
        return error_from_tree(tree, "error", classes)
    except CodecError as error:
        return unreadable(error)


def stored_traceback(text: str) -> str | None:
    """The traceback in a stored result, if it is the error of an exception; not of one of megabytes."""
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
    """The summary of a child workflow; an output whose class is not declared stays JSON, damaged text is a failure."""
    try:
        summary = load_value(text, "summary", classes)
    except CorruptJsonError as error:
        return _unreadable_summary(error)
    except CodecError:
        summary = parse_json(text, "summary")
    if isinstance(summary, SubWorkflowSummary):
        return summary
    return SubWorkflowSummary.from_json(summary if isinstance(summary, dict) else {})


def _unreadable_summary(error: CodecError) -> SubWorkflowSummary[Any]:
    reason = f"the stored summary cannot be read: {error}"
    return SubWorkflowSummary(WorkflowStatus.FAILED, None, 0, 0, 0, 0, reason)


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
    """A JSON array; None (a NULL column) for no arguments. Raises CodecError. `classes`: see `dump_value`."""
    return dump_value(tuple(args), "args", classes) if args else None


@overload
def dump_kwargs(
    kwargs: Mapping[str, Any], classes: StorableClasses | None = None, *, keep_empty: Literal[True]
) -> str: ...
@overload
def dump_kwargs(
    kwargs: Mapping[str, Any], classes: StorableClasses | None = None, *, keep_empty: bool = False
) -> str | None: ...
def dump_kwargs(
    kwargs: Mapping[str, Any], classes: StorableClasses | None = None, *, keep_empty: bool = False
) -> str | None:
    """A JSON object; None for no arguments unless `keep_empty`, as for nodes of a workflow. Raises CodecError."""
    return dump_value(dict(kwargs), "kwargs", classes) if kwargs or keep_empty else None


def load_args(text: str | None, classes_for: ClassesFor = _ours) -> Result[list[Any], TaskError]:
    """The positional arguments, or the error of a task whose arguments are unreadable.

    What no parameter takes stays JSON: the call is refused by the signature, without building anything for it.
    """
    if text is None:
        return Ok([])
    try:
        tree = parse_json(text, "args")
        if not isinstance(tree, list):
            raise CorruptJsonError("args", f"expected a JSON array, found {_kind(tree)}")
        return Ok([_part(part, "args", place, classes_for) for place, part in enumerate(tree)])
    except CodecError as error:
        return Err(_unreadable(error))


def load_kwargs(text: str | None, classes_for: ClassesFor = _ours) -> Result[dict[str, Any], TaskError]:
    """The keyword arguments; results of earlier nodes arrive as TaskResult, even those that cannot be rebuilt."""
    if text is None:
        return Ok({})
    try:
        tree = parse_json(text, "kwargs")
        if not isinstance(tree, dict):
            raise CorruptJsonError("kwargs", f"expected a JSON object, found {_kind(tree)}")
        return Ok({name: _part(part, "kwargs", name, classes_for) for name, part in tree.items()})
    except CodecError as error:
        return Err(_unreadable(error))


def _part(tree: Any, column: str, key: int | str, classes_for: ClassesFor) -> Any:
    if not isinstance(tree, dict | list) or key in _OUR_KEYS or (classes := classes_for(key)) is None:
        return tree
    if isinstance(tree, dict) and tree.get(tags.INJECTED_RESULT) is True and isinstance(tree.get("data"), str):
        return load_task_result(tree["data"], classes)
    return part_from_tree(tree, column, key, classes)


def _unreadable(error: CodecError) -> TaskError:
    return TaskError(
        error_code=OperationalErrorCode.WORKER_SERIALIZATION_ERROR,
        message=f"the stored arguments cannot be read: {error}",
    )


def _kind(tree: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
    return names.get(type(tree), "a number")
