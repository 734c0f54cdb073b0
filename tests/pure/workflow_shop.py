"""Tasks and workflows as users write them; typed_shop.py has their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from horsies import AppConfig, Horsies, OnError, PostgresConfig, TaskError, TaskResult
from horsies.workflow.context import WorkflowContext, WorkflowMeta
from horsies.workflow.definition import WorkflowDefinition
from horsies.workflow.nodes import SubWorkflowNode, SuccessCase, SuccessPolicy, TaskNode, from_node
from horsies.workflow.spec import WorkflowApp, WorkflowSpec

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@localhost:1/none")))


class Item(BaseModel):
    sku: str
    count: int = 1


@dataclass
class Parcel:
    weight: float


@app.task("price")
def price(sku: str) -> TaskResult[int, TaskError]:
    return TaskResult(ok=len(sku))


@app.task("skus")
async def skus() -> TaskResult[list[str], TaskError]:
    return TaskResult(ok=["a"])


@app.task("pack")
def pack(item: Item, parcel: Parcel | None = None) -> TaskResult[Parcel, TaskError]:
    return TaskResult(ok=parcel or Parcel(item.count))


@app.task("pack_all")
def pack_all(item: Item, sizes: dict[str, list[int]]) -> TaskResult[int, TaskError]:
    return TaskResult(ok=item.count * len(sizes))


@app.task("total")
def total(
    left: TaskResult[int, TaskError],
    right: TaskResult[int, TaskError] | None = None,
    *,
    rate: float = 1.0,
    workflow_ctx: WorkflowContext | None = None,
    workflow_meta: WorkflowMeta | None = None,
) -> TaskResult[float, TaskError]:
    return TaskResult(ok=left.unwrap() * rate)


@app.task("report")
def report(rows: TaskResult[list[Any], TaskError] | None = None) -> TaskResult[str, TaskError]:
    return TaskResult(ok="")


class Order(WorkflowDefinition[float]):
    """The output is named, because an inner class cannot see its siblings."""

    name = "order"
    definition_key = "shop.order"

    one = price.node()(sku="a")
    two = TaskNode(price, kwargs={"sku": "bb"})
    sum = total.node(workflow_ctx_from=[one])(left=from_node(one), right=from_node(two), rate=2)

    class Meta:
        output = "sum"
        on_error = OnError.PAUSE
        success_policy = SuccessPolicy(cases=[SuccessCase(required=["sum"])], optional=["two"])


class Sized(WorkflowDefinition[int]):
    """A workflow with as many nodes as its parameter says."""

    name = "sized"
    definition_key = "shop.sized"

    @classmethod
    def build_with(
        cls, app: WorkflowApp, *, count: int, before: TaskResult[float, TaskError] | None = None
    ) -> WorkflowSpec[int]:
        nodes = [price.node()(sku="a" * length) for length in range(1, count + 1)]
        return app.workflow(cls.name, nodes, output=nodes[-1], definition_key=cls.definition_key)


@app.workflow_builder(cases=[{"count": 1}, {"count": 3}])
def orders(count: int) -> WorkflowSpec[str]:
    order = SubWorkflowNode(Order, node_id="order")
    sized = SubWorkflowNode(Sized, kwargs={"count": count}, waits_for=[order], args_from={"before": order})
    listing = skus.node()()
    prices = TaskNode.map(price, over=listing)
    last = report.node(waits_for=[sized])(rows=from_node(prices))
    return app.workflow("orders", [order, sized, listing, prices, last], output=last, definition_key="shop.orders")
