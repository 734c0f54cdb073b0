"""The error boundary of drawing: a part that cannot be drawn is shown as damaged, and the others are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from horsies.domain.damage import damaged_fields, plain_stored
from horsies.domain.plain_text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

DrawnT = TypeVar("DrawnT")
InsteadT = TypeVar("InsteadT")

_SHOWN_BY: Final = {
    "task": "horsies tasks show {} --json",
    "workflow": "horsies workflows show {} --json",
    "worker": "horsies workers ls --json",
    "schedule": "horsies schedules ls --json",
    "operation": "horsies audit ls --json",
}
"""The command that prints a row as stored, by the kind of the row."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A drawing function that raised, with the `text` shown in its place; or a handler that raised, with its name as
    `text`.
    """

    text: str
    error: Exception


_listeners: Final[list[Callable[[Damage], object]]] = []


def damaged_words(record: object) -> dict[str, str]:
    """Return the stored times and numbers of a row's damaged fields by name. Texts are omitted: they may contain
    arguments that need masking, and cannot be parsed to find them.
    """
    return {name: plain_stored(stored) or "not of its type" for name, stored in damaged_fields(record).items()}


def listen(callback: Callable[[Damage], object]) -> Callable[[], None]:
    """Subscribe to damage, which is also reported from threads that prepare a drawing; return a function that
    unsubscribes.
    """
    _listeners.append(callback)
    return lambda: _listeners.remove(callback)


def report(what: str, error: Exception, kind: str = "", row_id: str = "") -> str:
    """Report a drawing function that raised; return the text for its place. `kind` and `row_id` identify its row."""
    of = f" of {kind} {row_id}" if kind else ""
    see = f", see `{_SHOWN_BY[kind].format(row_id)}`" if kind in _SHOWN_BY else ""
    text = clean(f"damaged: {what}{of}{see}")
    tell(Damage(text, error))
    return text


def tell(damage: Damage) -> None:
    for callback in tuple(_listeners):
        callback(damage)


def drawn(
    what: str, make: Callable[[], DrawnT], instead: Callable[[str], InsteadT], kind: str = "", row_id: str = ""
) -> DrawnT | InsteadT:
    """Return the result of `make`; if it raises, the result of `instead` for the text in its place."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - one damaged value must not end the console
        return instead(report(what, error, kind, row_id))
