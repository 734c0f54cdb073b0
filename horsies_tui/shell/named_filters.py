"""The filters of the config file in the palette: name and filter text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Provider

if TYPE_CHECKING:
    from textual.command import Hits

    from horsies_tui.view import Console


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
