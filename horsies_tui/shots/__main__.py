"""`python -m horsies_tui.shots`: write the pictures, all of them or those whose names begin as given."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from horsies_tui.shots.gallery import gallery
from horsies_tui.shots.shots import SHOTS

_DIRECTORY = Path("screenshots")


async def write(beginnings: tuple[str, ...]) -> None:
    """All: then pictures that nobody takes any more are removed."""
    _DIRECTORY.mkdir(exist_ok=True)
    chosen = [shot for shot in SHOTS if shot.file_name.startswith(beginnings or "")]
    async for shot, picture in gallery(chosen):
        (_DIRECTORY / shot.file_name).write_text(picture.svg, "utf-8")
        print(_DIRECTORY / shot.file_name)
    if not beginnings:
        for path in set(_DIRECTORY.glob("*.svg")) - {_DIRECTORY / shot.file_name for shot in SHOTS}:
            path.unlink()


asyncio.run(write(tuple(sys.argv[1:])))
