"""The pictures in screenshots/: there is one of every screen, and each is what the console draws today."""

from __future__ import annotations

from pathlib import Path

from textual.command import CommandPalette

from horsies_tui.app import VIEWS
from horsies_tui.shots.gallery import gallery
from horsies_tui.shots.shots import SHOTS
from horsies_tui.widgets.sheet import Sheet

SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
AGAIN = "write them anew with: python -m horsies_tui.shots"


async def test_every_screen_has_a_picture_that_is_what_it_draws_today() -> None:
    stale, shown = [], set()
    async for shot, picture in gallery(SHOTS):
        shown |= picture.shows
        path = SCREENSHOTS / shot.file_name
        if not path.exists() or path.read_text("utf-8") != picture.svg:
            stale.append(shot.file_name)
    screens = {CommandPalette.__name__, *(view.__name__ for view in VIEWS.values()), *_sheets(Sheet)}
    assert screens - shown == set(), "these screens are in no picture: add a shot to horsies_tui/shots/shots.py"
    assert stale == [], AGAIN


def test_there_is_no_picture_that_nobody_takes() -> None:
    assert {path.name for path in SCREENSHOTS.glob("*.svg")} == {shot.file_name for shot in SHOTS}, AGAIN


def _sheets(base: type) -> set[str]:
    """Names of all sheets of the console that are not made only to be inherited from."""
    found: set[str] = set()
    for sheet in base.__subclasses__():
        found |= _sheets(sheet)
        if sheet.__module__.startswith("horsies_tui") and not sheet.__name__.startswith("_"):
            found.add(sheet.__name__)
    return found
