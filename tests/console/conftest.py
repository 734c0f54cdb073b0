"""Fixes the terminal type for all console tests, and keeps their history out of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def true_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich caches in a style the codes of the terminal that it was first drawn for, also for later applications."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the command line keeps its history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
