"""Every application of these tests draws for the same kind of terminal."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def true_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich keeps in a style the codes of the terminal that it was first drawn for, also for the next application."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
