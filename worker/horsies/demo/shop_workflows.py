"""The workflows of the shop.

A web order: paid, invoiced, taken from the shelf, shipped, confirmed. And the end of the month: all tills are closed in
parallel, and the books only if every till balances.
"""

from __future__ import annotations

import asyncio
from typing import Any

from horsies import (
    AnyNode,
    Horsies,
    OnError,
    RetryPolicy,
    SubWorkflowNode,
    TaskError,
    TaskNode,
    TaskResult,
    WorkflowDefinition,
    WorkflowSpec,
    track,
)
from horsies.demo.shop import about, app, charge_card, failed, happens, render_invoice, send_confirmation

_CASE = {
    "order": 1,
    "customer": {"name": "ada", "email": "ada@mail.example", "country": "NL"},
    "lines": [{"sku": "mug-01", "count": 1, "cents": 900}],
    "card": "card_good",
    "gateway": "pay-eu-1",
}


@app.task("reserve_stock", queue_name="default")
async def reserve_stock(order: int, skus: list[str]) -> TaskResult[list[str], TaskError]:
    """The shelf of kettle-13 is empty, whatever the database says."""
    await asyncio.sleep(about(0.4))
    if "kettle-13" in skus or happens(0.02):
        return failed("OUT_OF_STOCK", f"nothing left of {skus[0]}", order=order)
    return TaskResult(ok=[f"{sku}@shelf-{sku[-2:]}" for sku in skus])


@app.task("pack_parcel", queue_name="default")
async def pack_parcel(order: int) -> TaskResult[int, TaskError]:
    await asyncio.sleep(about(0.7))
    return TaskResult(ok=order * 7 % 4_000)


@app.task("print_label", queue_name="default")
async def print_label(order: int, grams: TaskResult[int, TaskError]) -> TaskResult[str, TaskError]:
    await asyncio.sleep(about(0.3))
    return TaskResult(ok=f"3SHORS{order:06}, {grams.unwrap()} g")


class Shipping(WorkflowDefinition[str]):
    """A workflow of its own, because returns are shipped the same way."""

    name = "shipping"
    definition_key = "horsies.demo.shipping"

    @classmethod
    def build_with(cls, app: Horsies, *, order: int) -> WorkflowSpec[str]:
        pack = TaskNode(pack_parcel, kwargs={"order": order}, node_id="pack")
        label = TaskNode(
            print_label, kwargs={"order": order}, waits_for=[pack], args_from={"grams": pack}, node_id="label"
        )
        return app.workflow(cls.name, [pack, label], output=label, definition_key=cls.definition_key)


@app.workflow_builder(cases=[_CASE])
def order_workflow(
    order: int, customer: dict[str, Any], lines: list[dict[str, Any]], card: str, gateway: str
) -> WorkflowSpec[Any]:
    """A card that is declined, or a bug in the invoice, ends it: the nodes after that are skipped."""
    cents = sum(line["cents"] * line["count"] for line in lines)
    charge = TaskNode(charge_card, {"order": order, "cents": cents, "card": card, "gateway": gateway}, node_id="charge")
    invoice = TaskNode(
        render_invoice, {"order": order, "customer": customer, "lines": lines}, waits_for=[charge], node_id="invoice"
    )
    reserve = TaskNode(
        reserve_stock, {"order": order, "skus": [line["sku"] for line in lines]}, waits_for=[charge], node_id="reserve"
    )
    ship = SubWorkflowNode(Shipping, kwargs={"order": order}, waits_for=[reserve, invoice], node_id="ship")
    confirm = TaskNode(
        send_confirmation, {"order": order, "to": customer["email"]}, waits_for=[ship], node_id="confirm"
    )
    nodes: list[AnyNode] = [charge, invoice, reserve, ship, confirm]
    return app.workflow("order", nodes, on_error=OnError.FAIL, output=ship, definition_key="horsies.demo.order")


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
    cents = 0
    for till in track(tills.unwrap(), unit="tills"):
        await asyncio.sleep(about(0.3))
        cents += till
    return TaskResult(ok=cents)


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
