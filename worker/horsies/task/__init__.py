"""Tasks: the objects that `@app.task` creates, and how they are called, run and sent."""

from horsies.task.definition import TaskDecorator, TaskOptions, define
from horsies.task.function import TaskFunction
from horsies.task.options import TaskSendOptions
from horsies.task.sending import BoundTask, TaskCall, sends_suppressed

__all__ = [
    "BoundTask",
    "TaskCall",
    "TaskDecorator",
    "TaskFunction",
    "TaskOptions",
    "TaskSendOptions",
    "define",
    "sends_suppressed",
]
