"""Fixtures of many files of tests with processes: workers and their table, faults, workflows, the place of commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_scene import scene
from test_worker import served, shared_worker, start, table
from worker_flows import flows

__all__ = ["flows", "scene", "served", "shared_worker", "start", "table"]


@pytest.fixture
def here(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands use the database of the test, and no setting of the user."""
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HORSIES_READ_ONLY", raising=False)
