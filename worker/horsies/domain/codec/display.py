"""Stored JSON for display: nothing is imported, no user code runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from horsies.domain import tags
from horsies.domain.codec.json_text import CodecError, CorruptJsonError, parse_json
from horsies.domain.codec.read import moment


@dataclass(frozen=True, slots=True)
class Labelled:
    """A stored object with the name of its type, for example `shop.types.Order` or `TaskError`."""

    label: str
    data: Any


def load_for_display(text: str) -> Any:
    """Plain JSON values, moments as such, every tagged object as Labelled; CorruptJsonError for text that is not JSON.

    Invalid tags are returned as plain data.
    """
    try:
        return _shown(parse_json(text))
    except RecursionError as error:
        raise CorruptJsonError("value", "nested too deeply to be shown") from error


def _shown(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_shown(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.keys() == {tags.BUILTIN_CODE}:
        return tree[tags.BUILTIN_CODE]
    if any(tree.get(tag) is True for tag in (tags.DATETIME, tags.DATE, tags.TIME)):
        return _moment(tree)
    if tree.get(tags.INJECTED_RESULT) is True:
        return _injected(tree)
    if tree.get(tags.PYDANTIC_MODEL) is True or tree.get(tags.DATACLASS) is True:
        return _object(tree)
    if tree.get(tags.TASK_RESULT) is True:
        side = "ok" if tree.get("err") is None else "err"
        return Labelled("TaskResult", {side: _shown(tree.get(side))})
    if tree.get(tags.TASK_ERROR) is True:
        return _error(tree)
    return {key: _shown(item) for key, item in tree.items()}


def _moment(tree: dict[str, Any]) -> Any:
    try:
        return moment(tree)
    except (KeyError, TypeError, ValueError):
        return tree


def _object(tree: dict[str, Any]) -> Labelled:
    # A model's own data contains no tags; a key that looks like one is the user's.
    data = tree.get("data")
    return Labelled(f"{tree.get('module')}.{tree.get('qualname')}", _shown(data) if tags.DATACLASS in tree else data)


def _error(tree: dict[str, Any]) -> Labelled:
    own = tree.get(tags.ERROR_CLASS)
    label = f"{own.get('module')}.{own.get('qualname')}" if isinstance(own, dict) else "TaskError"
    hidden = (tags.TASK_ERROR, tags.ERROR_CLASS)
    return Labelled(label, {key: _shown(item) for key, item in tree.items() if key not in hidden})


def _injected(tree: dict[str, Any]) -> Any:
    try:
        return _shown(parse_json(tree["data"]))
    except (CodecError, KeyError, TypeError):
        return tree
