"""Fixtures of the tests that need no database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory. Afterwards its modules are removed from sys.modules, and sys.path is restored.

    So are modules before it that another test of this process has left: its `shop` would stand in for that of the test.
    """
    monkeypatch.chdir(tmp_path)
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path.parent)):
            del sys.modules[name]
    path, modules = list(sys.path), dict(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in sys.modules.keys() - modules.keys():
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)) or _is_namespace(name):
            del sys.modules[name]


def _is_namespace(name: str) -> bool:
    spec = getattr(sys.modules[name], "__spec__", None)
    return spec is not None and spec.origin is None and spec.submodule_search_locations is not None
