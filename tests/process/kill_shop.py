"""The application of test_workflow_kills.py: that of fault_app.py with workflows that run as nodes of others."""

from __future__ import annotations

from typing import Any

from fault_app import AGAIN, app, note, work

from horsies import TaskError, TaskNode, TaskResult, WorkflowDefinition, WorkflowSpec

__all__ = ["app"]


@app.task("broken", retry_policy=AGAIN)
def broken(ledger: str, task: str) -> TaskResult[int, TaskError]:
    note(ledger, task)
    return TaskResult(err=TaskError(error_code="OUT_OF_STOCK"))


class Parcel(WorkflowDefinition[int]):
    """Picked, then packed."""

    name = "parcel"
    definition_key = "kills.parcel"

    @classmethod
    def build_with(cls, app: Any, *_: Any, ledger: str, task: str) -> WorkflowSpec:
        pick = TaskNode(work, kwargs={"ledger": ledger, "task": f"{task}-pick"})
        pack = TaskNode(work, kwargs={"ledger": ledger, "task": f"{task}-pack"}, waits_for=[pick])
        return app.workflow(cls.name, [pick, pack], output=pack, definition_key=cls.definition_key)
