"""Whether a value from the operator fits what the task of a node returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.codec import CodecError, load_value
from horsies.domain.task_result import TaskResult
from horsies.locate import locate_app

if TYPE_CHECKING:
    from collections.abc import Callable


def fitting(module: str) -> Callable[[str, str], str | None]:
    """Imports the application. The returned function says why a JSON value does not fit a task; None if it does."""
    app = locate_app(module)
    app.import_task_modules()

    def why_not(task_name: str, text: str) -> str | None:
        task = app.tasks.get(task_name)
        if task is None:
            return f"{module} has no such task"
        try:
            value = load_value(text, "value")
        except CodecError as error:
            return str(error)
        broken = task.promise.broken_by(TaskResult(ok=value))
        return None if broken is None else broken.message

    return why_not
