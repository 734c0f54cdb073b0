"""The states in a list's filter: those that it names, one of them switched, and the menu that switches them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from horsies.query.sense import states
from horsies_tui.look.tones import state_tone
from horsies_tui.widgets.counts_line import counted
from horsies_tui.widgets.menus import Item, PickSome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.query.language import Filter
    from horsies.views import TaskCounts, WorkflowCounts
    from horsies_tui.look.glyphs import Glyphs

_COUNT_WIDTH: Final = 8
_NO_HELP: Final[Mapping[str, str]] = MappingProxyType({})


def states_on(current: Filter) -> frozenset[str]:
    """The states switched on in the menu; none if the filter names no states."""
    return states(current) if any(term.key == "status" for term in current.terms) else frozenset()


def toggled(current: Filter, state: str) -> frozenset[str]:
    """The filter's states with this one switched; if any state matched, this one alone."""
    return states_on(current) ^ {state} if states(current) != current.language.every_state else frozenset({state})


def state_menu(
    letters: Mapping[str, str],
    counts: TaskCounts | WorkflowCounts | None,
    current: Filter,
    glyphs: Glyphs,
    help: Mapping[str, str] = _NO_HELP,  # noqa: A002 - as in an Item
) -> PickSome:
    """Return the states in the order of `letters`. With none switched on, any state matches."""
    found = counts.states if counts is not None else {}
    items = [
        Item(
            state,
            glyphs.state_text(state),
            letter,
            f"{counted(found.get(state)):>{_COUNT_WIDTH}}  {help.get(state, '')}".rstrip(),
            state_tone(state),
        )
        for state, letter in letters.items()
    ]
    return PickSome("States (none: any)", items, states_on(current), glyphs)
