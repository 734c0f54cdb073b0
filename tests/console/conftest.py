"""Fixes the terminal type for all console tests, and keeps their history out of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from horsies_tui.look.damage import Damage, listen
from horsies_tui.shell import preview_sheet


@pytest.fixture(autouse=True)
def true_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich caches in a style the codes of the terminal that it was first drawn for, also for later applications."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def damages() -> Iterator[list[Damage]]:
    """What the boundaries of drawing have caught. A test that expects that removes it; from all others it is a defect.

    A boundary keeps the console alive, and would hide errors of ours from the tests.
    """
    caught: list[Damage] = []
    end = listen(caught.append)
    yield caught
    end()
    if caught:
        raise AssertionError(f"{len(caught)} draws failed, the first one: {caught[0].text}") from caught[0].error


@pytest.fixture(autouse=True)
def quick_eyes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preview that is painted can be confirmed at once; test_preview_sheet.py proves what holds otherwise."""
    monkeypatch.setattr(preview_sheet, "SEEN_FOR_S", 0.001)


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the command line keeps its history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
