"""An application whose tasks take and return values with classes, for repairs by hand."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

from pydantic import BaseModel

from horsies import (
    AppConfig,
    Horsies,
    MapNode,
    PostgresConfig,
    SubWorkflowNode,
    TaskError,
    TaskNode,
    TaskResult,
    WorkflowDefinition,
    WorkflowSpec,
)

app = Horsies(AppConfig(broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"])))


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    number: int
    price: Decimal = Decimal(1)


@dataclass
class Parcel:
    weight: float
    due: date
    orders: list[Order]


@app.task("pack")
def pack(order: Order, when: datetime | None = None, colour: Colour = Colour.RED) -> TaskResult[Parcel, TaskError]:
    raise NotImplementedError


@app.task("ship")
def ship(parcel: TaskResult[Parcel, TaskError]) -> TaskResult[UUID, TaskError]:
    raise NotImplementedError


@app.task("ship_all")
def ship_all(parcels: TaskResult[list[Parcel], TaskError]) -> TaskResult[int, TaskError]:
    raise NotImplementedError


class Packing(WorkflowDefinition[Parcel]):
    name = "packing"
    definition_key = "repair.packing"
    packed = TaskNode(pack, kwargs={"order": Order(number=1)})

    class Meta:
        output = "packed"


def flow() -> WorkflowSpec[UUID]:
    """A node of each kind, and one after it that takes its value."""
    one = TaskNode(pack, kwargs={"order": Order(number=1)}, node_id="one")
    each = MapNode(pack, over=[Order(number=1)], node_id="each")
    below = SubWorkflowNode(Packing, node_id="below")
    return app.workflow(
        "repair",
        [
            one,
            each,
            below,
            TaskNode(ship, waits_for=[one], args_from={"parcel": one}, node_id="after_one"),
            TaskNode(ship_all, waits_for=[each], args_from={"parcels": each}, node_id="after_each"),
            TaskNode(ship, waits_for=[below], args_from={"parcel": below}, node_id="after_below"),
        ],
        definition_key="repair.flow",
    )


flow.__horsies_no_check__ = True  # type: ignore[attr-defined]
