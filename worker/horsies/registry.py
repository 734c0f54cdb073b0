"""The tasks of one application by name."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from horsies.domain.errors import ErrorCode, RegistryError
from horsies.task import TaskFunction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.domain.errors import SourceLocation

AnyTask = TaskFunction[..., Any, Any, Any]


class TaskNotRegisteredError(RegistryError, KeyError):
    """A name that no task of this application has; a KeyError too, so that the registry behaves like other mappings."""

    default_code = ErrorCode.TASK_NOT_REGISTERED


class TaskRegistry(Mapping[str, AnyTask]):
    """Filled by `@app.task`, and never emptied."""

    def __init__(self) -> None:
        self._tasks: dict[str, AnyTask] = {}

    def register(self, task: AnyTask) -> None:
        """Add a task. Of a module that is imported twice the first task is kept; any other duplicate is HRS-301."""
        known = self._tasks.setdefault(task.task_name, task)
        if _place(known.location) == _place(task.location):
            return
        raise RegistryError(
            f"there are two tasks named {task.task_name!r}",
            code=ErrorCode.TASK_DUPLICATE_NAME,
            location=task.location,
            notes=[f"the other one is at {known.location}"],
            help_text="give one of them another name: rows of both would run the same function",
        )

    def __getitem__(self, task_name: str) -> AnyTask:
        if (task := self._tasks.get(task_name)) is not None:
            return task
        close = difflib.get_close_matches(str(task_name), self._tasks, n=1)
        raise TaskNotRegisteredError(
            f"task {task_name!r} is not registered" + (f"; did you mean {close[0]!r}?" if close else ""),
            help_text="define it with @app.task, and list its module in app.discover_tasks([...])",
        )

    def __contains__(self, task_name: object) -> bool:
        return task_name in self._tasks

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


def _place(location: SourceLocation | None) -> tuple[str, int] | None:
    return None if location is None else (os.path.realpath(location.file), location.line)
