"""The arguments of a task as a text that a person edits, and back: what he may not see stays as it was."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.codec import CodecError, parse_json, to_json
from horsies.domain.errors import HorsiesError
from horsies.operations.reruns import Arguments, checked

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN: Final = "•••"


class EditError(HorsiesError):
    """The text cannot be used; `line` is where, from 1 on, where that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Draft:
    """The stored arguments of one task. EditError where they are no JSON, and so cannot be edited."""

    def __init__(self, args: str | None, kwargs: str | None, hidden: Sequence[str] = ()) -> None:
        self._hidden = tuple(hidden)
        try:
            self._args: list[Any] = parse_json(args or "[]", "args")
            self._kwargs: dict[str, Any] = parse_json(kwargs or "{}", "kwargs")
        except CodecError as error:
            raise EditError(f"its arguments are not JSON: {error}") from error

    def text(self) -> str:
        """Both in one document. Values of arguments that the config file masks are dots."""
        shown = {"args": self._masked(self._args), "kwargs": self._masked(self._kwargs)}
        text = json.dumps(shown, indent=2, ensure_ascii=False)
        # What a terminal might obey is written as JSON can write it.
        return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)

    def read(self, text: str) -> Arguments:
        """What was edited; None for the part that was not, so that it is sent as it is stored."""
        try:
            tree = json.loads(text)
        except json.JSONDecodeError as error:
            raise EditError(f"line {error.lineno}, column {error.colno}: {error.msg}", error.lineno) from error
        except (ValueError, RecursionError) as error:  # a number of more than 4 300 digits, a thousand brackets
            raise EditError(f"it cannot be read: {error}") from error
        if not isinstance(tree, dict) or not tree.keys() <= {"args", "kwargs"}:
            raise EditError('it must be {"args": […], "kwargs": {…}} and nothing besides')
        args, kwargs = tree.get("args", []), tree.get("kwargs", {})
        edited = checked(
            Arguments(self._stored(args, self._args, "args"), self._stored(kwargs, self._kwargs, "kwargs"))
        )
        return Arguments(_unless_same(edited.args, self._args), _unless_same(edited.kwargs, self._kwargs))

    def _stored(self, edited: Any, original: Any, name: str) -> str:
        return json.dumps(self._unmasked(edited, original, name), ensure_ascii=False)

    def _masked(self, tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: HIDDEN if self._is_hidden(key) else self._masked(value) for key, value in tree.items()}
        return [self._masked(item) for item in tree] if isinstance(tree, list) else tree

    def _unmasked(self, edited: Any, original: Any, path: str) -> Any:
        """Dots stand for what is stored at the same place."""
        if isinstance(edited, dict):
            before = original if isinstance(original, dict) else {}
            return {key: self._value(key, value, before, f"{path}.{key}") for key, value in edited.items()}
        if isinstance(edited, list):
            items = original if isinstance(original, list) else []
            padded = [*items, *[None] * len(edited)]
            return [self._unmasked(item, padded[at], f"{path}[{at}]") for at, item in enumerate(edited)]
        return edited

    def _value(self, key: str, value: Any, before: dict[str, Any], path: str) -> Any:
        if value != HIDDEN or not self._is_hidden(key):
            return self._unmasked(value, before.get(key), path)
        if key not in before:
            raise EditError(f"{path} is {HIDDEN}, which stands for a stored value, and there is none; write one")
        return before[key]

    def _is_hidden(self, key: str) -> bool:
        return any(fnmatchcase(key, pattern) for pattern in self._hidden)


def _unless_same(edited: str | None, original: Any) -> str | None:
    return None if edited == to_json(original, "arguments") else edited
