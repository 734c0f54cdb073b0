"""The routes."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from bookshop.database import AsyncSessions, Sessions, async_engine, engine
from bookshop.jobs import app as jobs
from bookshop.models import Base, Line, Order
from bookshop.tasks import Currency, Payment, charge, import_catalogue, mail
from bookshop.workflows import delivery
from horsies import RetrievalCode, SendFailedError, TaskHandle, WorkflowHandle, is_err


@asynccontextmanager
async def lifespan(_web: FastAPI) -> AsyncIterator[None]:
    async with async_engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    if os.environ.get("WORKER_INSIDE"):
        async with jobs.run_worker(processes=1, scheduler=True):
            yield
    else:
        yield
    await async_engine.dispose()
    engine.dispose()


web = FastAPI(lifespan=lifespan)


async def async_session() -> AsyncIterator[AsyncSession]:
    async with AsyncSessions() as session:
        yield session


def sync_session() -> Iterator[Session]:
    with Sessions() as session:
        yield session


Database = Annotated[AsyncSession, Depends(async_session)]
SyncDatabase = Annotated[Session, Depends(sync_session)]


class LineIn(BaseModel):
    item: str
    count: int = 1
    price: Decimal


class OrderIn(BaseModel):
    customer: str
    lines: list[LineIn]
    currency: Currency = Currency.EUR
    fail: bool = False


class OrderOut(BaseModel):
    id: UUID
    task: str


def new_order(order: OrderIn) -> Order:
    total = sum((line.count * line.price for line in order.lines), Decimal(0))
    lines = [Line(item=line.item, count=line.count, price=line.price) for line in order.lines]
    return Order(id=uuid4(), customer=order.customer, total=total, lines=lines)


@web.post("/orders", status_code=202)
async def place(order: OrderIn, session: Database) -> OrderOut:
    """The order and its charge in one transaction."""
    row = new_order(order)
    async with session.begin():
        session.add(row)
        await session.flush()
        payment = Payment(order=row.id, amount=row.total, currency=order.currency)
        handle = await charge.with_options(connection=session).send_or_raise_async(payment)
        if order.fail:
            raise HTTPException(409, "something else went wrong in the route")
    return OrderOut(id=row.id, task=handle.task_id)


@web.post("/orders-sync", status_code=202)
def place_sync(order: OrderIn, session: SyncDatabase) -> OrderOut:
    """The same with a Session, in one of FastAPI's threads."""
    row = new_order(order)
    with session.begin():
        session.add(row)
        session.flush()
        payment = Payment(order=row.id, amount=row.total, currency=order.currency)
        handle = charge.with_options(connection=session).send_or_raise(payment)
        if order.fail:
            raise HTTPException(409, "something else went wrong in the route")
    return OrderOut(id=row.id, task=handle.task_id)


@web.post("/orders-wrong", status_code=202)
async def place_wrong(order: OrderIn, session: Database) -> OrderOut:
    """A send that cannot be stored, and a route that does not look at the result."""
    row = new_order(order)
    async with session.begin():
        session.add(row)
        await session.flush()
        await charge.with_options(connection=session).send_async({"order": "none"})  # type: ignore[arg-type]
    return OrderOut(id=row.id, task="?")


@web.get("/orders/{order_id}")
async def show(order_id: UUID, session: Database) -> dict[str, Any]:
    row = await session.get(Order, order_id)
    if row is None:
        raise HTTPException(404)
    return {"state": row.state, "total": row.total, "receipt": row.receipt}


@web.get("/charges/{task_id}")
async def charged(task_id: str) -> dict[str, Any]:
    """The receipt, or how far it is."""
    result = await charge.handle(task_id).get_async(timeout_ms=0)
    if result.is_ok():
        return {"state": "paid", "receipt": result.unwrap()}
    error = result.unwrap_err()
    match error.error_code:
        case RetrievalCode.WAIT_TIMEOUT:
            return {"state": "waiting"}
        case RetrievalCode.TASK_NOT_FOUND:
            raise HTTPException(404, "no such charge")
        case code:
            return {"state": "failed", "code": code, "message": error.message}


class MailIn(BaseModel):
    to: str
    subject: str
    key: str | None = None
    delay: float | None = None


@web.post("/mails", status_code=202)
async def send_mail(letter: MailIn) -> dict[str, Any]:
    sent = await mail.with_options(unique_key=letter.key, delay=letter.delay).send_async(letter.to, letter.subject)
    if is_err(sent):
        raise HTTPException(503 if sent.err_value.retryable else 422, sent.err_value.message)
    handle = sent.ok_value
    return {"task": handle.task_id, "duplicate": handle.duplicate}


@web.post("/imports", status_code=202)
async def start_import(items: int) -> dict[str, str]:
    try:
        handle = await import_catalogue.send_or_raise_async(items)
    except SendFailedError as error:
        raise HTTPException(503, str(error)) from error
    return {"task": handle.task_id}


@web.get("/tasks/{task_id}")
async def task_state(task_id: str) -> dict[str, Any]:
    info = (await TaskHandle[Any](task_id, jobs.get_broker()).info_async(include_attempts=True)).unwrap()
    if info is None:
        raise HTTPException(404)
    return {"status": info.status, "retries": info.retry_count, "progress": info.progress}


@web.post("/orders/{order_id}/delivery", status_code=202)
async def deliver(order_id: UUID, session: Database) -> dict[str, str]:
    async with session.begin():
        order = await session.get_one(Order, order_id)
        spec = delivery(order_id, order.customer)
        started = await spec.start_async(workflow_id=str(order_id), connection=session)
        handle = started.unwrap()
    return {"workflow": handle.workflow_id}


@web.get("/deliveries/{workflow_id}")
async def delivered(workflow_id: str) -> dict[str, Any]:
    handle = WorkflowHandle[str](workflow_id, jobs.get_broker())
    status = (await handle.status_async()).unwrap()
    if not status.is_terminal:
        return {"status": status}
    result = await handle.get_async(timeout_ms=0)
    nodes = (await handle.tasks_async()).unwrap()
    return {
        "status": status,
        "result": result.unwrap() if result.is_ok() else None,
        "error": result.unwrap_err().message if result.is_err() else None,
        "nodes": {node.node_id: node.status for node in nodes},
    }
