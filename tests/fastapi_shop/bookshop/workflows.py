"""Delivery of an order: reserve, pack each line, ship, say so."""

from uuid import UUID

from sqlalchemy import select

from bookshop.database import Sessions
from bookshop.jobs import app
from bookshop.models import Line
from bookshop.tasks import mail
from horsies import MapNode, TaskError, TaskNode, TaskResult, WorkflowSpec


def items_of(order: UUID) -> list[str]:
    with Sessions() as session:
        return list(session.scalars(select(Line.item).where(Line.order_id == order)))


@app.task("reserve")
def reserve(order: UUID) -> TaskResult[list[str], TaskError]:
    return TaskResult(ok=items_of(order))


@app.task("pack")
def pack(item: str, order: UUID) -> TaskResult[int, TaskError]:
    if item == "dragon":
        error = TaskError(error_code="TOO_LARGE", message="no parcel takes a dragon", data={"item": item})
        return TaskResult(err=error)
    return TaskResult(ok=100 * len(item))


@app.task("ship")
def ship(order: UUID, grams: TaskResult[list[int], TaskError]) -> TaskResult[str, TaskError]:
    if grams.is_err():
        return TaskResult(ok=f"{order} waits: {grams.unwrap_err().error_code}")
    return TaskResult(ok=f"{order} weighs {sum(grams.unwrap())} g")


@app.workflow_builder(cases=[{"order": UUID(int=1), "customer": "ann@example.org"}])
def delivery(order: UUID, customer: str) -> WorkflowSpec[str]:
    items = TaskNode(reserve, {"order": order}, node_id="items")
    parcels = MapNode(pack, over=items, kwargs={"order": order}, node_id="parcels")
    label = TaskNode(ship, {"order": order}, waits_for=[parcels], args_from={"grams": parcels}, node_id="label")
    say = TaskNode(mail, {"to": customer, "subject": "on its way", "about": order}, waits_for=[label], node_id="mail")
    return app.workflow("delivery", [items, parcels, label, say], output=label, definition_key="bookshop.delivery")
