"""Positional and keyword arguments of a task in their stored form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from horsies.domain import tags
from horsies.domain.codec.errors import CodecError, CorruptJsonError
from horsies.domain.codec.json_text import parse_json
from horsies.domain.codec.read import from_tree
from horsies.domain.codec.results import dump_value, load_task_result
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.result import Err, Ok, Result
from horsies.domain.task_result import TaskError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def dump_args(args: Sequence[Any]) -> str | None:
    """A JSON array; None (a NULL column) for no arguments. Raises CodecError."""
    return dump_value(tuple(args), "args") if args else None


@overload
def dump_kwargs(kwargs: Mapping[str, Any], *, keep_empty: Literal[True]) -> str: ...
@overload
def dump_kwargs(kwargs: Mapping[str, Any], *, keep_empty: bool = False) -> str | None: ...
def dump_kwargs(kwargs: Mapping[str, Any], *, keep_empty: bool = False) -> str | None:
    """A JSON object; None for no arguments unless `keep_empty`, as for nodes of a workflow. Raises CodecError."""
    return dump_value(dict(kwargs), "kwargs") if kwargs or keep_empty else None


def load_args(text: str | None) -> Result[list[Any], TaskError]:
    """The positional arguments, or the error of a task whose arguments are unreadable."""
    if text is None:
        return Ok([])
    try:
        tree = parse_json(text, "args")
        if not isinstance(tree, list):
            raise CorruptJsonError("args", f"expected a JSON array, found {_kind(tree)}")
        return Ok(from_tree(tree, "args"))
    except CodecError as error:
        return Err(_unreadable(error))


def load_kwargs(text: str | None) -> Result[dict[str, Any], TaskError]:
    """The keyword arguments; results of earlier nodes arrive as TaskResult, even those that cannot be rebuilt."""
    if text is None:
        return Ok({})
    try:
        tree = parse_json(text, "kwargs")
        if not isinstance(tree, dict):
            raise CorruptJsonError("kwargs", f"expected a JSON object, found {_kind(tree)}")
        results = {name: load_task_result(value["data"]) for name, value in tree.items() if _is_injected(value)}
        own = from_tree({name: value for name, value in tree.items() if name not in results}, "kwargs")
        return Ok({name: results[name] if name in results else own[name] for name in tree})
    except CodecError as error:
        return Err(_unreadable(error))


def _is_injected(value: object) -> bool:
    return isinstance(value, dict) and value.get(tags.INJECTED_RESULT) is True and isinstance(value.get("data"), str)


def _unreadable(error: CodecError) -> TaskError:
    return TaskError(
        error_code=OperationalErrorCode.WORKER_SERIALIZATION_ERROR,
        message=f"the stored arguments cannot be read: {error}",
    )


def _kind(tree: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
    return names.get(type(tree), "a number")
