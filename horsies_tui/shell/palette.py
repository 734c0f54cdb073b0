"""ctrl+p: every action of every screen, and the filters of the config file, searchable by name."""

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

_FURTHER: Final = 0.5
"""What works here comes first."""
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
"""They have keys of their own, and are opened by actions."""


class ActionPalette(CommandPalette, PacedScreen[None]):
    """Textual's palette, written to the terminal as all other screens are."""


def _offered(name: str, command: IgnoreReturnCallbackType, help_text: str) -> DiscoveryHit:
    name = clean(name)
    return DiscoveryHit(Content(name), command, text=name, help=_help(help_text))


def _found(score: float, matcher: Matcher, name: str, command: IgnoreReturnCallbackType, help_text: str) -> Hit:
    """The name with the letters that match, without `Matcher.highlight`, which parses markup."""
    name = clean(name)
    shown = Content(name)
    for at in matcher.fuzzy_search.match(matcher.query, name)[1]:
        if not name[at].isspace():
            shown = shown.stylize(matcher.match_style, at, at + 1)
    return Hit(score, shown, command, text=name, help=_help(help_text))


def _help(text: str) -> str:
    """A Content in place of the text: Textual would parse that as markup, and takes a Content as it is."""
    return cast("str", Content(clean(text)))


@cache
def _tabs_by_action() -> dict[str, Tab]:
    """The tab whose screen has an action; of several the first one."""
    found: dict[str, Tab] = {}
    for tab in TABS:
        for binding in cast("list[Binding]", VIEWS[tab.name].BINDINGS):
            if action_of(binding.id) is not None:
                found.setdefault(str(binding.id), tab)
    return found


class ActionCommands(Provider):
    """The registry's actions: first those that the screen below handles, writes only if they would be accepted.

    Those of another tab's screen are run there, and of all others the palette says where they work. A verb is not run
    on a screen that was not seen: what it would act on was never chosen. One provider has both, because the palette
    keeps the first hit that arrives under its cursor.
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
                yield _found(score * _FURTHER, matcher, name, run, help_text)

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
            console.say(f"{key} {action.label}: {action.help} It works where that is open: {TITLES[action.scope]}.")
            return
        view = await app.stage.go(tab.name)
        if action.writes:
            # Later: a new view clears what was said about the one before.
            app.call_after_refresh(console.say, f"choose the rows, then {key} {action.label}")
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
    """A filter is used on its own screen."""

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
