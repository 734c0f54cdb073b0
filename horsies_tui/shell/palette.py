"""The palette (ctrl+p): the actions of all screens and the saved filters, searchable by name."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Provider
from textual.content import Content

from horsies.domain.plain_text import clean
from horsies_tui.actions import ACTIONS, Scope, action_of, key_label, live_actions
from horsies_tui.command.grammar import Show
from horsies_tui.shell.help import TITLES
from horsies_tui.shell.views import TABS, VIEWS
from horsies_tui.textual_internals import PacedScreen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from textual.binding import Binding
    from textual.command import Hits
    from textual.fuzzy import Matcher
    from textual.types import IgnoreReturnCallbackType

    from horsies_tui.actions import Action
    from horsies_tui.shell.commanding import CommandingApp
    from horsies_tui.shell.tabs import Tab
    from horsies_tui.view import Console

_ELSEWHERE_SCORE: Final = 0.5
"""Factor for the score of actions of other screens, so that those of this screen come first."""
_SHEETS: Final = frozenset(
    {
        Scope.SHEET,
        Scope.PREVIEW,
        Scope.ARGUMENTS,
        Scope.OUTCOME,
        Scope.PICKER,
        Scope.FILTER,
        Scope.COMMAND,
        Scope.MENU,
    }
)
"""Scopes whose actions only work inside a sheet or a field, and are not listed."""


class ActionPalette(CommandPalette, PacedScreen[None]):
    """Textual's palette, with the console's output pacing."""


def _offered(name: str, command: IgnoreReturnCallbackType, help_text: str) -> DiscoveryHit:
    name = clean(name)
    return DiscoveryHit(Content(name), command, text=name, help=_help(help_text))


def _found(score: float, matcher: Matcher, name: str, command: IgnoreReturnCallbackType, help_text: str) -> Hit:
    """Return the name with its matching letters marked. `Matcher.highlight` is not used, because it parses markup."""
    name = clean(name)
    shown = Content(name)
    for at in matcher.fuzzy_search.match(matcher.query, name)[1]:
        if not name[at].isspace():
            shown = shown.stylize(matcher.match_style, at, at + 1)
    return Hit(score, shown, command, text=name, help=_help(help_text))


def _help(text: str) -> str:
    """Return the text as a Content, because Textual would parse a string as markup."""
    return cast("str", Content(clean(text)))


@cache
def _tabs_by_action() -> dict[str, Tab]:
    """Return the first tab whose screen has an action, by action."""
    found: dict[str, Tab] = {}
    for tab in TABS:
        for binding in cast("list[Binding]", VIEWS[tab.name].BINDINGS):
            if action_of(binding.id) is not None:
                found.setdefault(str(binding.id), tab)
    return found


class ActionCommands(Provider):
    """Offers the registered actions, those of the current screen first, and verbs only if they would be accepted.

    An action of another tab opens that tab first; for all other actions a message says where they work. A verb never
    runs on another tab, because the operator has not selected its rows. One provider offers them all, because the
    palette keeps its cursor on the first hit that arrives.
    """

    async def discover(self) -> Hits:
        for name, command, help_text in self._offers():
            yield _offered(name, command, help_text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, command, help_text in self._offers():
            if (score := matcher.match(name)) > 0:
                yield _found(score, matcher, name, command, help_text)
        for name, run, help_text in self._elsewhere():
            if (score := matcher.match(name)) > 0:
                yield _found(score * _ELSEWHERE_SCORE, matcher, name, run, help_text)

    def _elsewhere(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]], str]]:
        live = {action.id for action, _ in live_actions(self.screen)}
        for action in ACTIONS:
            if action.id not in live and action.palette and action.scope not in _SHEETS:
                tab = _tabs_by_action().get(action.id)
                place = TITLES[action.scope] if tab is None else tab.title
                yield f"{place}: {action.label}  {self._key(action)}", partial(self._run, action, tab), action.help

    def _key(self, action: Action) -> str:
        return key_label(action.keys[0], ascii_only=cast("Console", self.app).options.ascii)

    async def _run(self, action: Action, tab: Tab | None) -> None:
        console, app, key = cast("Console", self.app), cast("CommandingApp", self.app), self._key(action)
        if tab is None:
            console.say(f"{key} {action.label}: {action.help} Works in: {TITLES[action.scope]}.")
            return
        view = await app.stage.go(tab.name)
        if action.writes:
            # After the refresh, because a new view clears the messages about the previous one.
            app.call_after_refresh(console.say, f"select rows, then {key} {action.label}")
        else:
            view.call_later(app.run_action, action.binding.action, view)

    def _offers(self) -> Iterator[tuple[str, Callable[[], Awaitable[bool]], str]]:
        console = cast("Console", self.app)
        active = {live.binding.id: live for live in self.screen.active_bindings.values()}
        for action, keys in live_actions(self.screen):
            if not action.palette or (action.writes and console.why_no_writes()):
                continue
            live = active[action.id]
            label = " ".join(key_label(key, ascii_only=console.options.ascii) for key in keys)
            yield (
                f"{action.label}  {label}",
                partial(self.app.run_action, live.binding.action, live.node),
                action.help,
            )


class NamedFilters(Provider):
    """Offers the saved filters. Each opens the screen for which it was saved."""

    async def discover(self) -> Hits:
        for words, run, text in self._filters():
            yield _offered(words, run, text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for words, run, text in self._filters():
            if (score := matcher.match(words)) > 0:
                yield _found(score, matcher, words, run, text)

    def _filters(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]], str]]:
        app = cast("CommandingApp", self.app)
        for tab in TABS:
            for name, text in app.options.settings.filters_of(tab.name).items():
                place = "" if tab.name == "tasks" else f"  {tab.name}"
                yield f"filter {name}{place}", partial(app.run_command, Show(tab.name, text)), text
