"""The next release of the shop: its web server already sends this task, its workers do not know it yet."""

from __future__ import annotations

from horsies import TaskError, TaskResult
from horsies.demo.shop import app


@app.task("resize_photo_v2", queue_name="default")
def resize_photo_v2(photo: str, sizes: list[int]) -> TaskResult[list[str], TaskError]:
    return TaskResult(ok=[f"thumbs/{size}/{photo}" for size in sizes])
