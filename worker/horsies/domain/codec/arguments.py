"""Positional and keyword arguments of a task in their stored form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from horsies.domain import tags
from horsies.domain.codec.classes import OURS, Classes
from horsies.domain.codec.json_text import CodecError, CorruptJsonError, parse_json
from horsies.domain.codec.read import part_from_tree
from horsies.domain.codec.results import dump_value, load_task_result
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.result import Err, Ok, Result
from horsies.domain.task_result import TaskError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from horsies.domain.codec.classes import StorableClasses

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
