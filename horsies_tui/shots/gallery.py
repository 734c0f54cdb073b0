"""All pictures, on databases that are gone afterwards."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from horsies.testing import embedded_database
from horsies_tui.shots.camera import take
from horsies_tui.shots.scene import set_scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from horsies_tui.shots.camera import Shot


async def gallery(shots: Iterable[Shot]) -> AsyncIterator[tuple[Shot, str]]:
    """One after the other. Those that leave their database as it was share one."""
    with ExitStack() as stack:
        shared: str | None = None
        for shot in shots:
            if shot.spoils or shared is None:
                url = stack.enter_context(embedded_database())
                await set_scene(url)
                shared = shared if shot.spoils else url
            else:
                url = shared
            yield shot, await take(shot, url)
