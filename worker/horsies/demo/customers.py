"""The shop's web server as its customers keep it busy: a few tasks a second, for hours."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from horsies import Ok
from horsies.demo.shop import (
    DECLINED,
    GOOD,
    SLOW_BANK,
    SPARE_GATEWAY,
    app,
    ask_for_review,
    charge_card,
    order_workflow,
    render_invoice,
    resize_photo,
    send_confirmation,
    sync_inventory,
)

if TYPE_CHECKING:
    from horsies.task import TaskCall

_ORDERS_PER_S: Final = 0.9
_BY_WEB: Final = 0.35
"""Share of orders that are workflows; orders by telephone are single tasks."""
_WAVE_S: Final = 180.0
_NAMES: Final = ("ada", "björn", "chiara", "dmitri", "émile", "fatima", "grace", "hana", "ivo", "jun")
_COUNTRIES: Final = ("NL", "DE", "FR")
_GOODS: Final = ("mug", "lamp", "chair", "kettle", "blanket", "clock")


class Customers:
    """`gateway` is what payments go through; `changed_minds` are orders whose review mail is not sent yet."""

    def __init__(self) -> None:
        self.gateway = "pay-eu-1"
        self.changed_minds: deque[tuple[int, str]] = deque(maxlen=20)
        self._orders = itertools.count(random.randrange(4_000, 9_000))  # noqa: S311 - numbers of imaginary orders
        self._dice = random.Random()  # noqa: S311 - as above
        self._opened = time.monotonic()

    async def rush(self, orders: int) -> None:
        """Send the night's orders at once, so that the shop is not empty at first. One card is declined."""
        by_phone = round(orders * (1 - _BY_WEB))
        calls = [call for _ in range(by_phone) for call in self._calls(next(self._orders))]
        await app.send_many_async(calls)
        for number in range(orders - by_phone):
            await self.order_by_web(None if number else DECLINED)

    async def shop(self) -> None:
        """Order in waves, busier and quieter. Orders that cannot be stored while the database is down are lost."""
        while True:
            wave = 1 + 0.6 * math.sin(2 * math.pi * (time.monotonic() - self._opened) / _WAVE_S)
            await asyncio.sleep(self._dice.expovariate(_ORDERS_PER_S * wave))
            if self._dice.random() < _BY_WEB:
                await self.order_by_web()
                continue
            order = next(self._orders)
            await app.send_many_async(self._calls(order))
            if self._dice.random() < 0.15:
                await self._ask_later(order)

    async def order_by_web(self, card: str | None = None) -> str | None:
        """Return the id of its workflow; None where it could not be stored."""
        order, lines = next(self._orders), self._lines()
        started = await order_workflow(order, self._customer(), lines, card or self._card(), self.gateway).start_async()
        return started.ok_value.workflow_id if isinstance(started, Ok) else None

    def use_spare_gateway(self) -> None:
        self.gateway = SPARE_GATEWAY

    def use_usual_gateway(self) -> None:
        self.gateway = "pay-eu-1"

    def _calls(self, order: int) -> list[TaskCall]:
        dice = self._dice
        customer = self._customer()
        lines = self._lines()
        cents = sum(line["cents"] * line["count"] for line in lines)
        invoice = render_invoice.with_options(priority=5) if dice.random() < 0.05 else render_invoice
        calls = [
            charge_card.to_send(order, cents, self._card(), self.gateway),
            send_confirmation.to_send(order, to=customer["email"]),
            invoice.to_send(order, customer=customer, lines=lines),
            sync_inventory.to_send(sku=lines[0]["sku"], sold=lines[0]["count"]),
        ]
        if dice.random() < 0.1:
            calls.append(resize_photo.to_send(f"{order}.jpg", megapixels=dice.choice([12, 24, 50, 108])))
        return calls

    def _customer(self) -> dict[str, Any]:
        dice = self._dice
        name = dice.choice(_NAMES)
        host = "slow.example" if dice.random() < 0.1 else "mail.example"
        customer = {"name": name, "email": f"{name}@{host}", "country": dice.choice(_COUNTRIES)}
        if dice.random() < 0.04:
            del customer["country"]
        return customer

    def _card(self) -> str:
        return self._dice.choices([GOOD, DECLINED, SLOW_BANK], [84, 7, 9])[0]

    def _lines(self) -> list[dict[str, Any]]:
        dice = self._dice
        count = 12 if dice.random() < 0.03 else dice.randint(1, 4)
        return [
            {
                "sku": f"{dice.choice(_GOODS)}-{dice.randrange(100):02}",
                "count": dice.randint(1, 3),
                "cents": dice.randrange(500, 20_000),
            }
            for _ in range(count)
        ]

    async def _ask_later(self, order: int) -> None:
        sent = await ask_for_review.schedule_async(self._dice.randint(20, 120), order, to="customer@mail.example")
        if isinstance(sent, Ok):
            self.changed_minds.append((order, sent.ok_value.task_id))
