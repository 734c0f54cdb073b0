"""The end of the month: all tills are closed in parallel, and the books only if every till balances."""

from __future__ import annotations

import asyncio
from typing import Any

from horsies import AnyNode, OnError, RetryPolicy, TaskError, TaskNode, TaskResult, WorkflowSpec
from horsies.demo.mishaps import about, failed
from horsies.demo.shop import app


@app.task("list_tills", queue_name="bulk")
async def list_tills(month: str, count: int) -> TaskResult[list[str], TaskError]:
    await asyncio.sleep(about(0.5))
    return TaskResult(ok=[f"till-{number:02}" for number in range(1, count + 1)])


@app.task(
    "close_till",
    queue_name="default",
    requeue_on_interrupt=True,
    retry_policy=RetryPolicy.fixed([1, 3], auto_retry_for=["WORKER_CRASHED"]),
)
async def close_till(till: str, month: str, short: str | None) -> TaskResult[int, TaskError]:
    """One is short: a retry cannot help, the staff has to count."""
    await asyncio.sleep(about(1.2))
    if till == short:
        return failed("TILL_SHORT", f"{till} has 50.00 less than the receipts of {month} say", till=till, cents=-5_000)
    return TaskResult(ok=sum(map(ord, till + month)) * 100)


@app.task("sum_up", queue_name="default")
async def sum_up(month: str, tills: TaskResult[list[int], TaskError]) -> TaskResult[int, TaskError]:
    return TaskResult(ok=sum(tills.unwrap()))


@app.task("mail_accountant", queue_name="mail")
async def mail_accountant(month: str, cents: TaskResult[int, TaskError]) -> TaskResult[None, TaskError]:
    await asyncio.sleep(about(0.3))
    return TaskResult(ok=None)


@app.workflow_builder(cases=[{"month": "2026-10", "tills": 12, "short": None}])
def month_end_workflow(month: str, tills: int, short: str | None) -> WorkflowSpec[Any]:
    """An error pauses it: after counting, the operator completes the node and resumes."""
    listed = TaskNode(list_tills, {"month": month, "count": tills}, node_id="tills")
    closed = TaskNode.map(close_till, over=listed, max_items=100, month=month, short=short)
    closed.node_id = "close"
    total = TaskNode(sum_up, {"month": month}, waits_for=[closed], args_from={"tills": closed}, node_id="total")
    mail = TaskNode(mail_accountant, {"month": month}, waits_for=[total], args_from={"cents": total}, node_id="mail")
    nodes: list[AnyNode] = [listed, closed, total, mail]
    key = "horsies.demo.month_end"
    return app.workflow("month_end", nodes, on_error=OnError.PAUSE, output=total, definition_key=key)
