"""The files in screenshots/: there is one of every screen, and each is what the console draws today."""

from __future__ import annotations

from pathlib import Path

import pytest

from horsies_tui.shell.palette import ActionPalette
from horsies_tui.shell.views import VIEWS
from horsies_tui.shots.camera import Shot, gallery
from horsies_tui.shots.shots import SHOTS
from horsies_tui.widgets.sheet import Sheet

SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
USUAL = {shot.name for shot in SHOTS if shot.columns == 120}
VARIANTS = tuple(
    shot
    for shot in SHOTS
    if shot.columns == 200
    or (shot.columns == 80 and shot.name in USUAL)
    or shot.name.endswith(("-light", "-ascii", "-colour", "-colours"))
)
"""The same screens in other themes and signs, and on the smallest and the largest terminal: half of the time."""
SCREENS = tuple(shot for shot in SHOTS if shot not in VARIANTS)
AGAIN = "write them anew with: python -m horsies_tui.shots"


@pytest.mark.chaos  # half a second of processor time for each; .ci/run runs it
@pytest.mark.parametrize("shots", [SCREENS, VARIANTS], ids=["screens", "variants"])
async def test_each_picture_is_what_the_console_draws_today(shots: tuple[Shot, ...]) -> None:
    stale = []
    async for shot, picture in gallery(shots):
        path = SCREENSHOTS / shot.file_name
        if not path.exists() or path.read_text("utf-8") != picture:
            stale.append(shot.file_name)
    assert stale == [], AGAIN


def test_every_screen_is_in_a_picture() -> None:
    shown: set[str] = set()
    for path in SCREENSHOTS.glob("*.svg"):
        shown |= set(path.read_text("utf-8").splitlines()[-1].split())
    screens = {ActionPalette.__name__, *(view.__name__ for view in VIEWS.values()), *_sheets(Sheet)}
    assert screens - shown == set(), "these screens are in no picture: add a shot to horsies_tui/shots/shots.py"


def test_each_stored_picture_belongs_to_a_shot() -> None:
    assert {path.name for path in SCREENSHOTS.glob("*.svg")} == {shot.file_name for shot in SHOTS}, AGAIN


def _sheets(base: type) -> set[str]:
    """The names of all sheets of the console, without base classes."""
    found: set[str] = set()
    for sheet in base.__subclasses__():
        found |= _sheets(sheet)
        if sheet.__module__.startswith("horsies_tui") and not sheet.__name__.startswith("_"):
            found.add(sheet.__name__)
    return found
