"""The views, those that have a tab, and the imports that wait until the first rows are shown."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final, cast

from horsies_tui.shell.tabs import Tab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horsies_tui.view import ConsoleView


TABS: Final = (
    Tab("1", "overview", "Overview"),
    Tab("2", "tasks", "Tasks"),
    Tab("3", "workers", "Workers"),
    Tab("4", "workflows", "Workflows"),
    Tab("5", "recovery", "Recovery"),
    Tab("6", "schedules", "Schedules"),
    Tab("7", "activity", "Activity"),
)
_CLASSES: Final[Mapping[str, tuple[str, str]]] = {
    "overview": ("horsies_tui.overview.view", "OverviewView"),
    "tasks": ("horsies_tui.tasks.view", "TasksView"),
    "detail": ("horsies_tui.task.view", "DetailView"),
    "workers": ("horsies_tui.workers.view", "WorkersView"),
    "workflows": ("horsies_tui.workflows.view", "WorkflowsView"),
    "workflow": ("horsies_tui.workflow.view", "WorkflowView"),
    "recovery": ("horsies_tui.recovery.view", "RecoveryView"),
    "schedules": ("horsies_tui.schedules.view", "SchedulesView"),
    "activity": ("horsies_tui.activity.view", "ActivityView"),
}

MODULES: Final = tuple(module for module, _ in _CLASSES.values())


class _Views(Mapping[str, "type[ConsoleView[Any]]"]):
    """The views by name, each imported on first use. All nine imports would take a fifth of the start-up time."""

    def __getitem__(self, name: str) -> type[ConsoleView[Any]]:
        module, title = _CLASSES[name]
        return cast("type[ConsoleView[Any]]", getattr(import_module(module), title))

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


VIEWS: Final = _Views()


_REPORT: Final = ("horsies.findings.diagnose", "horsies.findings.searches", "horsies_tui.health.alerts")
"""Modules of the recovery report, whose count the header shows."""
_REST: Final = (
    *MODULES,
    "horsies_tui.shell.operation_flow",
    "horsies_tui.shell.palette",
    "horsies_tui.shell.picker",
    "horsies_tui.shell.help",
    "horsies_tui.command.completing",
    "horsies_tui.feed.suggested_values",
    "horsies.display.exporting",
    "horsies.operations.named_targets",
    "horsies.operations.pipeline",
)
_imported: set[str] = set()


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

    # As in launch.py: keep the garbage collector from traversing the imported objects.
    gc.disable()
    try:
        await asyncio.to_thread(run)
    finally:
        over = True  # the console closes and waits for the thread
        gc.freeze()
        gc.enable()


def _modules_in(name: str) -> list[str]:
    """Return the modules of a package; findings and alerts are discovered by their folder."""
    path = getattr(import_module(name), "__path__", ())
    return [f"{name}.{module.name}" for module in iter_modules(path)]
