"""`:` and ctrl+p: every action that works now, and the filters of the config file, searchable by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Provider

from horsies_tui.actions import live_actions
from horsies_tui.keys import key_label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from textual.command import Hits

    from horsies_tui.view import Console


class ActionCommands(Provider):
    """The registry's actions that the screen below handles; writes only if they would be accepted."""

    async def discover(self) -> Hits:
        for name, command, help_text in self._offers():
            yield DiscoveryHit(name, command, help=help_text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, command, help_text in self._offers():
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name), command, help=help_text)

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
    async def discover(self) -> Hits:
        console = cast("Console", self.app)
        for name, text in console.options.config.filters.items():
            yield DiscoveryHit(f"filter {name}", partial(console.show_tasks, text), help=text)

    async def search(self, query: str) -> Hits:
        matcher, console = self.matcher(query), cast("Console", self.app)
        for name, text in console.options.config.filters.items():
            words = f"filter {name}"
            if (score := matcher.match(words)) > 0:
                yield Hit(score, matcher.highlight(words), partial(console.show_tasks, text), help=text)
