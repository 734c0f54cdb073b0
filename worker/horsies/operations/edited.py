"""Checks JSON that an operator has written: a worker must be able to read it, and a column to store it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from horsies.domain import tags
from horsies.domain.codec import CodecError, parse_json, to_json
from horsies.domain.codec.json_text import CorruptJsonError, first_surrogate, spell_path
from horsies.domain.codec.read import moment
from horsies.domain.codec.write import MAX_DEPTH, MAX_INTEGER_BITS
from horsies.operations.target import OperationError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Arguments:
    """Edited JSON, an array and an object, in the form of the columns. None: as in the original."""

    args: str | None = None
    kwargs: str | None = None


class TypedValues(Protocol):
    """The types of an application, which convert an operator's JSON into the values that its tasks store and read.

    Both methods return None for a task that the application does not have, and raise OperationError for a value of
    the wrong type.
    """

    def result(self, task_name: str, definition_key: str | None, text: str) -> str | None:
        """Convert a result of a task, or of the map or the sub-workflow with this key."""
        ...

    def arguments(self, task_name: str, edited: Arguments, original: Arguments) -> Arguments | None:
        """Convert edited arguments of a task; an unedited part stays None."""
        ...


def first_untyped(edited: Any, original: Any, path: list[str | int]) -> str | None:
    """Return the first place where a typed object, or a moment, has become plain JSON, which its task refuses."""
    if isinstance(original, dict) and (tag := next((tag for tag in _TYPED if original.get(tag) is True), None)):
        plain = dict if tag in _CLASSES else str
        if not isinstance(edited, plain) or (isinstance(edited, dict) and any(edited.get(each) for each in _TYPED)):
            return None
        name = f"{original.get('module')}.{original.get('qualname')}" if tag in _CLASSES else tag.strip("_")
        return f"{spell_path(path)} was stored as {name}"
    pairs: Iterable[tuple[str | int, Any, Any]] = ()
    if isinstance(original, dict) and isinstance(edited, dict):
        pairs = ((key, edited[key], part) for key, part in original.items() if key in edited)
    elif isinstance(original, list) and isinstance(edited, list):
        pairs = ((place, *parts) for place, parts in enumerate(zip(edited, original, strict=False)))
    return next(filter(None, (first_untyped(now, before, [*path, key]) for key, now, before in pairs)), None)


_CLASSES = (tags.PYDANTIC_MODEL, tags.DATACLASS)
_TYPED = (*_CLASSES, tags.DATETIME, tags.DATE, tags.TIME)


def checked_value(text: str) -> str:
    """Return the text in its stored form; OperationError names what is wrong, and where."""
    try:
        tree = parse_json(text, "value")
        check_storable(tree, ["value"])
        return to_json(tree, "value")
    except CodecError as error:
        raise OperationError(
            f"the value cannot be stored: {error}",
            help_text='give JSON, such as a text in quotes, "done", or an object, {"n": 1}',
        ) from error


def check_storable(tree: Any, path: list[str | int]) -> None:
    """Raise CorruptJsonError for JSON that a worker cannot read or the column cannot store. Imports nothing."""
    if len(path) > MAX_DEPTH:
        raise CorruptJsonError(spell_path(path[:3]), "nested too deeply")
    if isinstance(tree, str) and first_surrogate(tree) is not None:
        raise CorruptJsonError(spell_path(path), "contains a lone surrogate, which UTF-8 cannot encode")
    if isinstance(tree, int) and tree.bit_length() > MAX_INTEGER_BITS:
        raise CorruptJsonError(spell_path(path), "has more than 4,214 digits; write it as a string")
    if isinstance(tree, dict):
        _check_tags(tree, path)
        for key, item in tree.items():
            check_storable(key, path)
            check_storable(item, [*path, key])
    if isinstance(tree, list):
        for position, item in enumerate(tree):
            check_storable(item, [*path, position])


def _check_tags(tree: dict[str, Any], path: list[str | int]) -> None:
    if any(tree.get(tag) is True for tag in (tags.DATETIME, tags.DATE, tags.TIME)):
        try:
            moment(tree)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptJsonError(spell_path(path), f"is not a date or time: {error}") from error
    if any(tree.get(tag) is True for tag in (tags.PYDANTIC_MODEL, tags.DATACLASS)) and not (
        isinstance(tree.get("module"), str) and isinstance(tree.get("qualname"), str) and "data" in tree
    ):
        raise CorruptJsonError(spell_path(path), "is tagged as an object, but lacks module, qualname or data")
