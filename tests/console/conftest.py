"""Fixes the terminal type for all console tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def true_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich caches in a style the codes of the terminal that it was first drawn for, also for later applications."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
