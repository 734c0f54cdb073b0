"""Builds Python values from a tree of JSON values; of the classes that its tags name, those that are declared.

For display nothing is imported and no user code runs: there an object is shown with the name of its class.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from horsies.domain import tags
from horsies.domain.codec.classes import UndeclaredClassError
from horsies.domain.codec.conversion import conversions_of_fields
from horsies.domain.codec.json_text import CodecError, CorruptJsonError, HydrationError, parse_json, spell_path, to_json
from horsies.domain.codes import BUILTIN_CODE_REGISTRY, ContractCode, OperationalErrorCode, to_builtin
from horsies.domain.task_result import SubWorkflowError, TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.domain.codec.classes import Classes

_Tree = dict[str, Any]


class Reader:
    """One traversal. `path` is the current position, and is kept when an exception ends it."""

    def __init__(self, name: str, classes: Classes) -> None:
        self.path: list[str | int] = [name]
        self.classes = classes

    def entry(self, read: Callable[[Reader, Any], Any], tree: Any) -> Any:
        try:
            return read(self, tree)
        except CodecError:
            raise
        except RecursionError as error:
            raise HydrationError(spell_path(self.path), "nested too deeply") from error
        except UndeclaredClassError as error:
            raise HydrationError(spell_path(self.path), str(error)) from error
        # The user's constructors may raise anything. SystemExit too: one that calls sys.exit() must fail this row, not
        # the worker.
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise HydrationError(spell_path(self.path), reason) from error

    def attempt(self, read: Callable[[Reader, Any], Any], tree: Any, otherwise: Callable[[CodecError], Any]) -> Any:
        """Read a part whose failure must not fail the whole."""
        depth = len(self.path)
        try:
            return self.entry(read, tree)
        except CodecError as error:
            del self.path[depth:]
            return otherwise(error)

    @staticmethod
    def unreadable(error: CodecError) -> TaskError:
        """Return the error that replaces a stored result that cannot be read."""
        corrupt = isinstance(error, CorruptJsonError)
        return TaskError(
            error_code=OperationalErrorCode.BROKER_ERROR if corrupt else ContractCode.PYDANTIC_HYDRATION_ERROR,
            message=f"the stored result cannot be {'read' if corrupt else 'rebuilt'}: {error}",
        )

    def step(self, name: str | int, tree: Any) -> Any:
        self.path.append(name)
        value = self.value(tree)
        self.path.pop()
        return value

    def value(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.step(position, item) for position, item in enumerate(tree)]
        if not isinstance(tree, dict):
            return tree
        for tag, build in _BUILDERS:
            if tree.get(tag) is True:
                return build(self, tree)
        if tree.keys() == {tags.BUILTIN_CODE}:
            return BUILTIN_CODE_REGISTRY.get(str(tree[tags.BUILTIN_CODE]), tree)
        return {key: self.step(key, item) for key, item in tree.items()}

    def model(self, tree: _Tree) -> Any:
        cls = self.classes.find(tree["module"], tree["qualname"])
        if not issubclass(cls, BaseModel):
            raise LookupError(f"{cls.__qualname__} is not a pydantic model")
        # As JSON, because a strict model accepts a date as text only there; by name, because the data has field names.
        return cls.model_validate_json(to_json(tree["data"]), by_alias=True, by_name=True)

    def dataclass(self, tree: _Tree) -> Any:
        cls = self.classes.find(tree["module"], tree["qualname"])
        if not dataclasses.is_dataclass(cls):
            raise LookupError(f"{cls.__qualname__} is not a dataclass")
        fields = [field for field in dataclasses.fields(cls) if field.name in tree["data"]]
        stored = {field.name: self.step(field.name, tree["data"][field.name]) for field in fields}
        for name, conversion in conversions_of_fields(cls).items():
            if name in stored:
                stored[name] = conversion.load(stored[name], name)
        value = cls(**{field.name: stored[field.name] for field in fields if field.init})
        for field in fields:
            if not field.init:
                object.__setattr__(value, field.name, stored[field.name])  # it may be frozen
        return value

    def nested_result(self, tree: _Tree) -> TaskResult[Any, Any]:
        """Build one result among several: the others stay readable if this one is not."""
        result: TaskResult[Any, Any] = self.attempt(
            Reader.task_result, tree, lambda error: TaskResult(err=self.unreadable(error))
        )
        return result

    def task_result(self, tree: _Tree) -> TaskResult[Any, Any]:
        ok, err = tree.get("ok"), tree.get("err")
        if err is None:
            return TaskResult(ok=self.step("ok", ok))
        if ok is not None:
            raise CorruptJsonError(spell_path(self.path), "contains both ok and err")
        if isinstance(err, dict) and tree.get(tags.TASK_RESULT) is not True:
            return TaskResult(err=self.task_error(err))
        return TaskResult(err=self.step("err", err))

    def task_error(self, tree: _Tree) -> TaskError:
        """Read an error, whose data may be anything, whatever the type of the value beside it."""
        declared, self.classes = self.classes, self.classes.anywhere
        try:
            return self.task_error_of_any_class(tree)
        finally:
            self.classes = declared

    def task_error_of_any_class(self, tree: _Tree) -> TaskError:
        stored = {key: item for key, item in tree.items() if key not in (tags.TASK_ERROR, tags.ERROR_CLASS)}
        fields = {key: self.error_field(key, item) for key, item in stored.items()}
        code = fields.get("error_code")
        if isinstance(code, dict):
            code = code.get(tags.BUILTIN_CODE)
        # Rows of other writers may have a built-in code as plain text, or one that is newer than this version.
        fields["error_code"] = to_builtin(code) if isinstance(code, str) else code
        if tags.ERROR_CLASS not in tree and "sub_workflow_id" not in fields:
            return TaskError.model_validate(fields)
        # Callers decide by code, message and data: a process without the subclass still gets those.
        error: TaskError = self.attempt(
            lambda _, address: _error_class(address, self.classes).model_validate(fields, by_alias=True, by_name=True),
            tree.get(tags.ERROR_CLASS),
            lambda _: TaskError.model_validate(fields),
        )
        return error

    def error_field(self, name: str, tree: Any) -> Any:
        """Read a field of an error. If a class in its data does not exist, the data stays JSON; the code is kept."""
        return self.attempt(lambda reader, part: reader.step(name, part), tree, lambda _: tree)


def _error_class(address: dict[str, str] | None, classes: Classes) -> type[TaskError]:
    if address is None:
        return SubWorkflowError
    cls = classes.find(address["module"], address["qualname"])
    if not issubclass(cls, TaskError):
        raise LookupError(f"{cls.__qualname__} is not a TaskError")
    return cls


def moment(tree: _Tree) -> date | time:
    """Parse the datetime, date or time of a tagged object; ValueError if its text is invalid."""
    kind = datetime if tags.DATETIME in tree else date if tags.DATE in tree else time
    return kind.fromisoformat(tree["value"])


_BUILDERS: Final[tuple[tuple[str, Callable[[Reader, _Tree], Any]], ...]] = (
    (tags.DATETIME, lambda _, tree: moment(tree)),
    (tags.DATE, lambda _, tree: moment(tree)),
    (tags.TIME, lambda _, tree: moment(tree)),
    (tags.PYDANTIC_MODEL, Reader.model),
    (tags.DATACLASS, Reader.dataclass),
    (tags.TASK_RESULT, Reader.nested_result),
    (tags.TASK_ERROR, Reader.task_error),
)


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
        with suppress(KeyError, TypeError, ValueError):
            return moment(tree)
        return tree
    if tree.get(tags.INJECTED_RESULT) is True:
        with suppress(CodecError, KeyError, TypeError):
            return _shown(parse_json(tree["data"]))
        return tree
    if tree.get(tags.PYDANTIC_MODEL) is True or tree.get(tags.DATACLASS) is True:
        return _object(tree)
    if tree.get(tags.TASK_RESULT) is True:
        side = "ok" if tree.get("err") is None else "err"
        return Labelled("TaskResult", {side: _shown(tree.get(side))})
    if tree.get(tags.TASK_ERROR) is True:
        return _error(tree)
    return {key: _shown(item) for key, item in tree.items()}


def _object(tree: dict[str, Any]) -> Labelled:
    # A model's own data contains no tags; a key that looks like one is the user's.
    data = tree.get("data")
    return Labelled(f"{tree.get('module')}.{tree.get('qualname')}", _shown(data) if tags.DATACLASS in tree else data)


def _error(tree: dict[str, Any]) -> Labelled:
    own = tree.get(tags.ERROR_CLASS)
    label = f"{own.get('module')}.{own.get('qualname')}" if isinstance(own, dict) else "TaskError"
    hidden = (tags.TASK_ERROR, tags.ERROR_CLASS)
    return Labelled(label, {key: _shown(item) for key, item in tree.items() if key not in hidden})
