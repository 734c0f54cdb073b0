"""JSON that an operator has written, which workers must read and columns store; copies of tasks with such arguments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from horsies.domain import tags
from horsies.domain.codec import CodecError, parse_json, to_json
from horsies.domain.codec.json_text import CorruptJsonError, first_surrogate, spell_path
from horsies.domain.codec.read import moment
from horsies.domain.codec.write import MAX_DEPTH, MAX_INTEGER_BITS
from horsies.domain.ids import enqueue_sha, new_task_id
from horsies.domain.retry import RetryRule
from horsies.operations.target import ArgumentChange, OperationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import asyncpg

_ABSENT: Any = object()


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


def checked(edited: Arguments) -> Arguments:
    """Return the arguments in their stored form; OperationError names what is wrong, and where."""
    return Arguments(_checked(edited.args, "args", list), _checked(edited.kwargs, "kwargs", dict))


def refuse_untyped(edited: Arguments, original: Arguments) -> None:
    """Raise OperationError for plain JSON in place of an object that is stored with its class, which tasks refuse."""
    for name, now, before in (("args", edited.args, original.args), ("kwargs", edited.kwargs, original.kwargs)):
        if now is None or before is None:
            continue
        if problem := first_untyped(parse_json(now, name), _tree_of(before), [name]):
            raise OperationError(
                f"the task would refuse the edited arguments: {problem}, and is plain JSON now",
                help_text="name the application, which converts it: --module shop.tasks:app; or keep its form, as "
                "`horsies tasks show --json` prints it",
            )


def changes(stored: Arguments, edited: Arguments) -> Iterator[ArgumentChange]:
    """Return each replaced argument by its name, before and after."""
    if edited.args is not None:
        yield from _differences(("args",), _tree(stored.args, []), _tree(edited.args, []))
    if edited.kwargs is not None:
        yield from _differences((), _tree(stored.kwargs, {}), _tree(edited.kwargs, {}))


def _differences(path: tuple[str, ...], before: Any, after: Any) -> Iterator[ArgumentChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            yield from _differences((*path, name), before.get(name, _ABSENT), after.get(name, _ABSENT))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences((*path, f"[{place}]"), old, new)
    elif before is _ABSENT or after is _ABSENT or to_json(before, "before") != to_json(after, "after"):
        yield ArgumentChange(path, *(None if one is _ABSENT else to_json(one, "argument") for one in (before, after)))


def _tree(text: str | None, empty: Any) -> Any:
    try:
        return empty if text is None else parse_json(text, "arguments")
    except CodecError:
        return "not JSON"  # shows nothing: an unreadable value cannot be masked


@lru_cache(maxsize=256)
def policy_retries(task_options: str | None) -> int:
    """Return the retries of a policy; 0 without a policy and for unreadable options, as in a worker."""
    rule = RetryRule.from_stored(_tree_of(task_options))
    return 0 if rule is None else rule.max_retries


def copy_of(source: asyncpg.Record | None, edited: Arguments) -> tuple[Any, ...]:
    """Return the values of a copy, in the order of `rerun_change`. A deleted original has none and is refused."""
    if source is None:
        return (new_task_id(), *(None,) * 7)
    args, kwargs = (
        source[name] if text is None else None if text in ("[]", "{}") else text
        for name, text in (("args", edited.args), ("kwargs", edited.kwargs))
    )
    good_until, now = source["good_until"], source["now"]
    options = source["task_options"] if good_until is not None else _without_deadline(source["task_options"])
    fingerprint = enqueue_sha(
        task_name=source["task_name"],
        queue_name=source["queue_name"],
        priority=source["priority"],
        args_json=args,
        kwargs_json=kwargs,
        sent_at=now,
        good_until=good_until,
        task_options=options,
    )
    return new_task_id(), fingerprint, args, kwargs, options, policy_retries(options), good_until, now


@lru_cache(maxsize=256)
def _without_deadline(task_options: str | None) -> str | None:
    """Return the options of a copy, whose original's deadline has passed."""
    options = _tree_of(task_options)
    if not isinstance(options, dict) or options.get("good_until") is None:
        return task_options
    return to_json(options | {"good_until": None}, "task_options")


def _tree_of(task_options: str | None) -> Any:
    try:
        return None if task_options is None else parse_json(task_options, "task_options")
    except CodecError:
        return None


def _checked(text: str | None, name: str, kind: type[list[Any]] | type[dict[str, Any]]) -> str | None:
    if text is None:
        return None
    try:
        tree = parse_json(text, name)
        if not isinstance(tree, kind):
            raise CorruptJsonError(name, f"must be a JSON {'array' if kind is list else 'object'}")
        check_storable(tree, [name])
        return to_json(tree, name)
    except CodecError as error:
        raise OperationError(
            f"the edited arguments cannot be stored: {error}",
            help_text='args is an array like [1, "two"], kwargs an object like {"dry_run": true}',
        ) from error
