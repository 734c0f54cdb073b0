"""The application of the demo: an ordinary shop with ordinary failures.

`horsies worker horsies.demo.shop:app` runs it on the database of HORSIES_DATABASE_URL, else on the embedded one.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import signal
import time
from typing import Any, Final

from horsies import (
    AnyNode,
    AppConfig,
    CustomQueueConfig,
    DailySchedule,
    Horsies,
    IntervalSchedule,
    OnError,
    PostgresConfig,
    QueueMode,
    RecoveryConfig,
    RetryPolicy,
    ScheduleConfig,
    SubWorkflowNode,
    TaskError,
    TaskNode,
    TaskResult,
    TaskSchedule,
    Weekday,
    WeeklySchedule,
    WorkflowDefinition,
    WorkflowSpec,
    progress,
    track,
)
from horsies.store.embedded import default_place

DECLINED: Final = "card_declined"
SLOW_BANK: Final = "card_slow_bank"
STOLEN: Final = "card_stolen"
"""The bank checks it for a moment before it declines."""
GOOD: Final = "card_good"
SPARE_GATEWAY: Final = "pay-eu-2"
"""Payments through it meet an outage."""
PAUSED_SCHEDULE: Final = "newsletter"
"""An operator pauses it."""

app = Horsies(
    AppConfig(
        broker=PostgresConfig(
            database_url=os.environ.get("HORSIES_DATABASE_URL") or f"embedded://{default_place().root}", pool_size=4
        ),
        queue_mode=QueueMode.CUSTOM,
        custom_queues=[
            CustomQueueConfig(name="pay", priority=1, max_concurrency=8),
            CustomQueueConfig(name="mail", priority=10, max_concurrency=20),
            CustomQueueConfig(name="default", priority=50, max_concurrency=20),
            CustomQueueConfig(name="bulk", priority=100, max_concurrency=6),
        ],
        prefetch_buffer=4,
        claim_lease_ms=60_000,
        # A tenth of the usual thresholds, so that a dead worker's tasks are found within a minute or two of the demo.
        recovery=RecoveryConfig(
            runner_heartbeat_interval_ms=5_000,
            claimer_heartbeat_interval_ms=5_000,
            claimed_stale_threshold_ms=40_000,
            running_stale_threshold_ms=60_000,
            finalizing_stale_threshold_ms=60_000,
            crashed_worker_recovery_grace_ms=60_000,
            check_interval_ms=20_000,
            heartbeat_retention_hours=1,
            worker_state_retention_hours=1,
            terminal_record_retention_hours=1,
        ),
        schedule=ScheduleConfig(
            schedules=[
                TaskSchedule(name="count_stock", task_name="count_stock", pattern=IntervalSchedule(seconds=20)),
                TaskSchedule(name="purge_carts", task_name="purge_carts", pattern="*/2 * * * *"),
                TaskSchedule(
                    name="daily_sales",
                    task_name="build_report",
                    pattern=DailySchedule(time=datetime.time(6, 30)),
                    timezone="Europe/Berlin",
                    kwargs={"day": "yesterday", "shop": "shop-eu"},
                ),
                TaskSchedule(
                    name=PAUSED_SCHEDULE,
                    task_name="send_newsletter",
                    pattern=WeeklySchedule(days=(Weekday.TUESDAY, Weekday.THURSDAY), time=datetime.time(9)),
                    timezone="America/New_York",
                    kwargs={"to": "everybody@mail.example", "subject": "News"},
                ),
            ]
        ),
    )
)


def failed(code: str, message: str, **data: Any) -> TaskResult[Any, TaskError]:
    return TaskResult(err=TaskError(error_code=code, message=message, data=data))


def about(seconds: float) -> float:
    """Return a duration that is mostly about this long, and sometimes much longer."""
    return seconds * random.lognormvariate(0, 0.4)


def happens(probability: float) -> bool:
    return random.random() < probability  # noqa: S311 - mishaps of a shop that does not exist


@app.task(
    "charge_card",
    queue_name="pay",
    timeout_ms=6_000,
    retry_policy=RetryPolicy.fixed([2, 6, 15], auto_retry_for=["RATE_LIMITED", "GATEWAY_DOWN"]),
)
async def charge_card(order: int, cents: int, card: str, gateway: str) -> TaskResult[str, TaskError]:
    await asyncio.sleep(about({SLOW_BANK: 2.5, STOLEN: 2.0}.get(card, 0.4)))
    if card in (DECLINED, STOLEN):
        return failed("CARD_DECLINED", "the bank says no", order=order, cents=cents)
    if gateway == SPARE_GATEWAY and happens(0.75):
        return failed("GATEWAY_DOWN", f"{gateway} answers 503 Service Unavailable", order=order)
    if card == SLOW_BANK and happens(0.6):
        return failed("RATE_LIMITED", "429 Too Many Requests, come back later", order=order, limit_per_minute=60)
    return TaskResult(ok=f"receipt-{order}")


@app.task(
    "send_confirmation",
    queue_name="mail",
    retry_policy=RetryPolicy.fixed([5, 20, 60], auto_retry_for=["SMTP_TIMEOUT"]),
    exception_mapper={TimeoutError: "SMTP_TIMEOUT"},
)
async def send_confirmation(order: int, to: str) -> TaskResult[None, TaskError]:
    await asyncio.sleep(about(0.3))
    if to.endswith("@slow.example") and happens(0.7):
        raise TimeoutError(f"mx.slow.example did not answer EHLO for order {order}")
    return TaskResult(ok=None)


@app.task("send_newsletter", queue_name="mail")
async def send_newsletter(to: str, subject: str) -> TaskResult[None, TaskError]:
    await asyncio.sleep(about(0.2))
    return TaskResult(ok=None)


@app.task("ask_for_review", queue_name="mail")
async def ask_for_review(order: int, to: str) -> TaskResult[None, TaskError]:
    await asyncio.sleep(about(0.3))
    return TaskResult(ok=None)


@app.task(
    "render_invoice",
    queue_name="default",
    timeout_ms=4_000,
    retry_policy=RetryPolicy.fixed([3, 10], auto_retry_for=["TASK_TIMEOUT"]),
)
def render_invoice(order: int, customer: dict[str, Any], lines: list[dict[str, Any]]) -> TaskResult[str, TaskError]:
    """Fail with an exception and its traceback for a customer without a country: a bug."""
    total = sum(line["cents"] * line["count"] for line in lines)
    vat = {"NL": 21, "DE": 19, "FR": 20}[customer["country"]]
    time.sleep(30 if len(lines) > 8 and happens(0.5) else about(0.5))
    return TaskResult(ok=f"invoice-{order}.pdf: {total * (100 + vat) // 100} cents")


@app.task(
    "sync_inventory",
    queue_name="default",
    retry_policy=RetryPolicy.exponential(4, max_retries=4, auto_retry_for=["WAREHOUSE_BUSY"]),
)
async def sync_inventory(sku: str, sold: int) -> TaskResult[int, TaskError]:
    await asyncio.sleep(about(0.6))
    if sku.endswith("7") and happens(0.6):
        return failed("WAREHOUSE_BUSY", "the stock table is locked by a count", sku=sku)
    return TaskResult(ok=random.randrange(500))  # noqa: S311 - stock of a shop that does not exist


@app.task("count_stock", queue_name="default")
async def count_stock() -> TaskResult[int, TaskError]:
    await asyncio.sleep(about(1.5))
    if happens(0.2):
        return failed("SHELVES_OPEN", "the shelves are being filled, so nothing can be counted")
    return TaskResult(ok=random.randrange(90_000))  # noqa: S311 - stock of a shop that does not exist


@app.task("purge_carts", queue_name="default")
async def purge_carts() -> TaskResult[int, TaskError]:
    await asyncio.sleep(about(0.4))
    return TaskResult(ok=random.randrange(200))  # noqa: S311 - carts of a shop that does not exist


@app.task(
    "resize_photo",
    queue_name="default",
    retry_policy=RetryPolicy.fixed([8], auto_retry_for=["WORKER_CRASHED"]),
)
def resize_photo(photo: str, megapixels: int) -> TaskResult[str, TaskError]:
    """End this process by the signal that the kernel sends if it takes too much memory."""
    time.sleep(about(0.8))
    if megapixels > 500:
        os.kill(os.getpid(), signal.SIGKILL)
    return TaskResult(ok=f"thumbs/{photo}")


@app.task("build_report", queue_name="bulk")
def build_report(day: str, shop: str) -> TaskResult[dict[str, int], TaskError]:
    """Build a report. Not repeatable: the accountants get a mail for each. An interrupted one needs an operator."""
    orders = random.randrange(200, 2_000)  # noqa: S311 - sales of a shop that does not exist
    pause_s = about(10) / orders
    for _ in track(range(orders), unit="orders"):
        time.sleep(pause_s)
    return TaskResult(ok={"orders": orders, "refunds": random.randrange(40)})  # noqa: S311 - as above


@app.task("import_catalog", queue_name="bulk", requeue_on_interrupt=True)
def import_catalog(supplier: str, products: list[dict[str, Any]]) -> TaskResult[int, TaskError]:
    for _ in track(products, unit="products"):
        time.sleep(about(8) / len(products))
    return TaskResult(ok=len(products))


@app.task("nightly_import", queue_name="bulk")
def nightly_import(path: str) -> TaskResult[None, TaskError]:
    """Wait for a lock that is never released: RUNNING, beating, and never done until an operator ends it."""
    progress(3_400, 10_000, "rows")
    while True:
        time.sleep(1)


_CASE = {
    "order": 1,
    "customer": {"name": "ada", "email": "ada@mail.example", "country": "NL"},
    "lines": [{"sku": "mug-01", "count": 1, "cents": 900}],
    "card": "card_good",
    "gateway": "pay-eu-1",
}


@app.task("reserve_stock", queue_name="default")
async def reserve_stock(order: int, skus: list[str]) -> TaskResult[list[str], TaskError]:
    """Find the shelf of kettle-13 empty, whatever the database says."""
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
    """Build a web order. A declined card or a bug in the invoice ends it: the nodes after that are skipped."""
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
    """Fail for the till that is short: a retry cannot help, the staff has to count."""
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
    """Build a month end. An error pauses it: after counting, the operator completes the node and resumes."""
    listed = TaskNode(list_tills, {"month": month, "count": tills}, node_id="tills")
    closed = TaskNode.map(close_till, over=listed, max_items=100, month=month, short=short)
    closed.node_id = "close"
    total = TaskNode(sum_up, {"month": month}, waits_for=[closed], args_from={"tills": closed}, node_id="total")
    mail = TaskNode(mail_accountant, {"month": month}, waits_for=[total], args_from={"cents": total}, node_id="mail")
    nodes: list[AnyNode] = [listed, closed, total, mail]
    key = "horsies.demo.month_end"
    return app.workflow("month_end", nodes, on_error=OnError.PAUSE, output=total, definition_key=key)
