"""The views, and those of them that have a tab."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from horsies_tui.shell.tabs import Tab

if TYPE_CHECKING:
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
    """A view is imported when it is asked for: all nine take a fifth of the time until the first one shows rows."""

    def __getitem__(self, name: str) -> type[ConsoleView[Any]]:
        module, title = _CLASSES[name]
        return cast("type[ConsoleView[Any]]", getattr(import_module(module), title))

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


VIEWS: Final = _Views()
