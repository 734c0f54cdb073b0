"""`python -m horsies_tui.shots`: write all screenshots, or those whose names begin with the arguments."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from horsies_tui.shots.camera import gallery
from horsies_tui.shots.shots import SHOTS

_DIRECTORY = Path("screenshots")


async def develop(beginnings: tuple[str, ...]) -> dict[str, str]:
    """Create the screenshots, by file name."""
    chosen = [shot for shot in SHOTS if shot.file_name.startswith(beginnings or "")]
    return {shot.file_name: picture async for shot, picture in gallery(chosen)}


def write(beginnings: tuple[str, ...]) -> None:
    """Write the screenshots. If all are written, files of those that no longer exist are removed."""
    _DIRECTORY.mkdir(exist_ok=True)
    pictures = asyncio.run(develop(beginnings))
    for name, svg in pictures.items():
        (_DIRECTORY / name).write_text(svg, "utf-8")
        print(_DIRECTORY / name)
    if not beginnings:
        for path in _DIRECTORY.glob("*.svg"):
            if path.name not in pictures:
                path.unlink()


write(tuple(sys.argv[1:]))
