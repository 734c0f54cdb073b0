"""A task's arguments as text that the operator can edit, and back; masked values stay as they are stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from horsies.display.payload import HIDDEN, POSITIONAL, Masks, may_be_json
from horsies.domain.codec import CodecError, parse_json, to_json
from horsies.domain.errors import HorsiesError
from horsies.operations.edited import Arguments, checked

if TYPE_CHECKING:
    from collections.abc import Iterable


class EditError(HorsiesError):
    """The edited text is invalid. `line` is the line of the error, counted from 1, if known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Draft:
    """The stored arguments of one task. Raises EditError if they are not JSON and so cannot be edited."""

    def __init__(self, args: str | None, kwargs: str | None, hidden: Iterable[str] = ()) -> None:
        self._masks = Masks(frozenset(hidden))
        try:
            self._args: list[Any] = parse_json(args or "[]", "args")
            self._kwargs: dict[str, Any] = parse_json(kwargs or "{}", "kwargs")
        except CodecError as error:
            raise EditError(f"its arguments are not JSON: {error}") from error

    def text(self) -> str:
        """Return args and kwargs as one JSON document. Arguments that the config file masks are shown as stars."""
        args = HIDDEN if self._masks.hides(POSITIONAL) else self._masks.on(self._args)
        shown = {"args": args, "kwargs": self._masks.on(self._kwargs)}
        text = json.dumps(shown, indent=2, ensure_ascii=False)
        # Control characters are written as JSON escapes, so that the terminal does not interpret them.
        return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)

    def read(self, text: str) -> Arguments:
        """Return the edited arguments; a part is None if it was not changed, and is then sent as it is stored."""
        tree = _read_json(text)
        if not isinstance(tree, dict) or not tree.keys() <= {"args", "kwargs"}:
            raise EditError('expected {"args": […], "kwargs": {…}} without other keys')
        args, kwargs = tree.get("args", []), tree.get("kwargs", {})
        if args == HIDDEN and self._masks.hides(POSITIONAL):
            args = self._args
        edited = checked(
            Arguments(self._stored(args, self._args, "args"), self._stored(kwargs, self._kwargs, "kwargs"))
        )
        return Arguments(_unless_same(edited.args, self._args), _unless_same(edited.kwargs, self._kwargs))

    def _stored(self, edited: Any, original: Any, name: str) -> str:
        return json.dumps(self._unmasked(edited, original, name), ensure_ascii=False)

    def _unmasked(self, edited: Any, original: Any, path: str) -> Any:
        """Replace stars by the stored value at the same path."""
        match edited:
            case dict():
                before = original if isinstance(original, dict) else {}
                return {key: self._value(key, value, before, f"{path}.{key}") for key, value in edited.items()}
            case list():
                # If items were added or removed, it is unknown which stored item a star stands for.
                same = isinstance(original, list) and len(original) == len(edited)
                items = original if same else [None] * len(edited)
                return [self._unmasked(item, items[at], f"{path}[{at}]") for at, item in enumerate(edited)]
            case str() if edited != original and may_be_json(edited):
                return self._text(edited, original, path)
            case _:
                return edited

    def _text(self, edited: str, original: Any, path: str) -> str:
        """Replace stars in a string; if the string is JSON itself, replace them inside it."""
        before = _tree(original) if isinstance(original, str) else None
        if before is not None and edited == self._masks.on(original):
            return str(original)
        tree = _tree(edited)
        restored = self._unmasked(tree, before, path)
        return edited if restored == tree else json.dumps(restored, ensure_ascii=False)

    def _value(self, key: str, value: Any, before: dict[str, Any], path: str) -> Any:
        if value != HIDDEN or not self._masks.hides(key):
            return self._unmasked(value, before.get(key), path)
        if key not in before:
            raise EditError(f"{path} is {HIDDEN}, but no value is stored there; type the value")
        return before[key]


def read_value(text: str) -> str:
    """Return the text in the form in which JSON is stored."""
    return json.dumps(_read_json(text), ensure_ascii=False, separators=(",", ":"))


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise EditError(f"line {error.lineno}, column {error.colno}: {error.msg}", error.lineno) from error
    except (ValueError, RecursionError) as error:  # a number with more than 4,300 digits, or a thousand brackets
        raise EditError(f"it cannot be read: {error}") from error


def _tree(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unless_same(edited: str | None, original: Any) -> str | None:
    return None if edited == to_json(original, "arguments") else edited
