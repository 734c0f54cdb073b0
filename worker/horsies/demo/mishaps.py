"""Random durations and failures for the tasks of the shop."""

from __future__ import annotations

import random
from typing import Any

from horsies import TaskError, TaskResult


def failed(code: str, message: str, **data: Any) -> TaskResult[Any, TaskError]:
    return TaskResult(err=TaskError(error_code=code, message=message, data=data))


def about(seconds: float) -> float:
    """Most take about this long, some much longer."""
    return seconds * random.lognormvariate(0, 0.4)


def happens(probability: float) -> bool:
    return random.random() < probability  # noqa: S311 - mishaps of a shop that does not exist
