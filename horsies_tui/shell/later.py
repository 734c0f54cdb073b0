"""Imports what the first rows do not need after they are shown: the recovery report, other screens, and sheets."""

from __future__ import annotations

import asyncio
import gc
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

from horsies_tui.shell.views import MODULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.command import Provider

_REPORT: Final = ("horsies.findings.diagnose", "horsies.findings.searches", "horsies_tui.health.alerts")
"""For the recovery report, whose number the header shows."""
_REST: Final = (
    *MODULES,
    "horsies_tui.shell.operation_flow",
    "horsies_tui.shell.palette",
    "horsies_tui.shell.picker",
    "horsies_tui.shell.help",
    "horsies_tui.command.completing",
    "horsies_tui.feed.values",
    "horsies.display.exporting",
    "horsies.operations.named_targets",
    "horsies.operations.pipeline",
)
_imported: set[str] = set()


def action_commands() -> type[Provider]:
    from horsies_tui.shell.palette import ActionCommands

    return ActionCommands


def named_filters() -> type[Provider]:
    from horsies_tui.shell.palette import NamedFilters

    return NamedFilters


async def import_report() -> None:
    await _import(_REPORT)


async def import_rest() -> None:
    """Import what the first rows did not need; otherwise the first key of a screen would wait up to 100 ms."""
    await _import(_REST)


async def _import(names: Sequence[str]) -> None:
    """Import in a thread: one module may take 50 ms. Python lets the loop run after 5 ms when a key waits."""
    if _imported.issuperset(names):
        return
    over = False

    def run() -> None:
        for name in names:
            for module in (name, *_modules_in(name)):
                if over:
                    return
                import_module(module)
            _imported.add(name)

    # As at the start, see launch.py: a collection would go through all that is imported, and find nothing.
    gc.disable()
    try:
        await asyncio.to_thread(run)
    finally:
        over = True  # the console closes, and waits for the thread
        gc.freeze()
        gc.enable()


def _modules_in(name: str) -> list[str]:
    """Those of a package: findings and alerts are found by their place."""
    path = getattr(import_module(name), "__path__", ())
    return [f"{name}.{module.name}" for module in iter_modules(path)]
