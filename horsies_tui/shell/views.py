"""Which views there are, and which of them have a tab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from horsies_tui.activity.view import ActivityView
from horsies_tui.overview.view import OverviewView
from horsies_tui.recovery.view import RecoveryView
from horsies_tui.schedules.view import SchedulesView
from horsies_tui.shell.tabs import Tab
from horsies_tui.task.view import DetailView
from horsies_tui.tasks.view import TasksView
from horsies_tui.workers.view import WorkersView
from horsies_tui.workflow.view import WorkflowView
from horsies_tui.workflows.view import WorkflowsView

if TYPE_CHECKING:
    from collections.abc import Mapping

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
VIEWS: Final[Mapping[str, type[ConsoleView[Any]]]] = {
    "overview": OverviewView,
    "tasks": TasksView,
    "detail": DetailView,
    "workers": WorkersView,
    "workflows": WorkflowsView,
    "workflow": WorkflowView,
    "recovery": RecoveryView,
    "schedules": SchedulesView,
    "activity": ActivityView,
}
