"""All screenshots, on temporary databases."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from horsies.testing import embedded_database
from horsies_tui.shots.camera import take
from horsies_tui.shots.scene import set_scene, under_its_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from horsies_tui.shots.camera import Shot


async def gallery(shots: Iterable[Shot]) -> AsyncIterator[tuple[Shot, str]]:
    """One after the other. Shots that do not change their database share one."""
    with ExitStack() as stack:
        shared: str | None = None
        for shot in shots:
            if shot.spoils:
                with embedded_database() as made:
                    async with under_its_name(made) as url:
                        await set_scene(url)
                        yield shot, await take(shot, url)
                continue
            if shared is None:
                shared = stack.enter_context(embedded_database())
                await set_scene(shared)
            yield shot, await take(shot, shared)
