"""What runs in workers."""

import asyncio
import os
import time
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import func, select

from bookshop.database import AsyncSessions, Sessions
from bookshop.jobs import app
from bookshop.models import Order, OrderState
from horsies import RetryPolicy, RunFailed, TaskError, TaskResult, current_task, track


class Currency(StrEnum):
    EUR = "EUR"
    USD = "USD"


class Payment(BaseModel):
    order: UUID
    amount: Decimal
    currency: Currency = Currency.EUR
    patience: timedelta = timedelta(seconds=30)


class Receipt(BaseModel):
    number: UUID
    paid: Decimal
    currency: Currency
    tries: int = 1


class GatewayDownError(Exception):
    pass


class CardRefusedError(Exception):
    pass


@app.task(
    "charge",
    exception_mapper={GatewayDownError: "GATEWAY_DOWN", CardRefusedError: "CARD_REFUSED"},
    retry_policy=RetryPolicy.fixed([1, 1], auto_retry_for=["GATEWAY_DOWN", "WORKER_CRASHED"], jitter=False),
    timeout_ms=10_000,
)
async def charge(payment: Payment) -> TaskResult[Receipt, TaskError]:
    """Charge the order and note its receipt; an order of 13 is refused, one of 500 finds the gateway down once."""
    current_task().logger.info("charging %s %s", payment.amount, payment.currency)
    async with AsyncSessions.begin() as session:
        order = await session.get_one(Order, payment.order, with_for_update=True)
        if payment.amount == 13:
            order.state = OrderState.REFUSED
            await session.commit()
            raise CardRefusedError(f"the bank refuses {payment.amount}")
        if payment.amount == 500 and order.receipt is None:
            order.receipt = "asked"
            await session.commit()
            raise GatewayDownError("no answer from the gateway")
        receipt = Receipt(number=order.id, paid=payment.amount, currency=payment.currency)
        order.state, order.receipt = OrderState.PAID, str(receipt.number)
    return TaskResult(ok=receipt)


@app.task("mail", queue_name="mail")
def mail(to: str, subject: str, about: UUID | None = None) -> TaskResult[None, TaskError]:
    print(f"mail to {to}: {subject}")
    return TaskResult(ok=None)


@app.task("restock")
def restock(item: str, count: int = 1) -> TaskResult[int, TaskError]:
    return TaskResult(ok=count)


@app.task("takings", queue_name="reports")
def takings() -> TaskResult[dict[str, Decimal], TaskError]:
    with Sessions() as session:
        rows = session.execute(select(Order.customer, func.sum(Order.total)).group_by(Order.customer)).all()
    return TaskResult(ok={row[0]: row[1] for row in rows})


@app.task("import_catalogue", queue_name="reports", timeout_ms=60_000)
def import_catalogue(items: int, pause: float = 0.01) -> TaskResult[int, TaskError]:
    for _item in track(range(items), unit="items"):
        time.sleep(pause)
    return TaskResult(ok=items)


@app.task("slow", timeout_ms=500)
async def slow(seconds: float) -> TaskResult[None, TaskError]:
    await asyncio.sleep(seconds)
    return TaskResult(ok=None)


@app.task("crash")
def crash() -> TaskResult[None, TaskError]:
    os.abort()


@app.on("run_failed")
def report(event: RunFailed) -> None:
    """Where Sentry would be told, in the child process and with the exception."""
    kind = "no exception" if event.exception is None else type(event.exception).__name__
    event.task.logger.warning("reported %s: %s", event.error_code, kind)
