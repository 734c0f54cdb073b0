"""A FastAPI and SQLAlchemy application over HTTP: uvicorn, a worker and a scheduler as processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from forked_commands import Command

SHOP = Path(__file__).parents[1] / "fastapi_shop"
ANN = "ann@example.org"


@dataclass
class Running:
    """The three processes, a client of the web application, and a connection to look at the tables."""

    web: httpx.Client
    worker: Command[str]
    tables: psycopg.Connection[Any]
    logs: Path

    def post(self, path: str, body: object = None, status: int = 202) -> dict[str, Any]:
        answer = self.web.post(path, json=body)
        assert answer.status_code == status, (answer.text, self.log("web"))
        return answer.json() if status < 500 else {}

    def until(self, path: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while not holds(found := self.web.get(path).json()):
            assert time.monotonic() < deadline, (found, self.log("worker"))
            time.sleep(0.05)
        return found  # type: ignore[no-any-return]

    def place(self, *items: tuple[str, str], path: str = "/orders", **more: Any) -> dict[str, Any]:
        lines = [{"item": item, "price": price} for item, price in items]
        return self.post(path, {"customer": ANN, "lines": lines} | more, more.pop("status", 202))

    def count(self, sql: str) -> int:
        row = self.tables.execute(sql).fetchone()
        assert row is not None
        return int(row[0])

    def wait_for(self, sql: str) -> Any:
        """The first value that the statement finds."""
        deadline = time.monotonic() + 60
        while (row := self.tables.execute(sql).fetchone()) is None:
            assert time.monotonic() < deadline, (self.log("scheduler"), self.log("worker"))
            time.sleep(0.1)
        return row[0]

    def log(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text()


@pytest.fixture
def shop(database: str, tmp_path: Path) -> Iterator[Running]:
    environ = os.environ | {"HORSIES_DATABASE_URL": database}
    uvicorn = [sys.executable, "-m", "uvicorn", "bookshop.web:web", "--port", "0"]
    with ExitStack() as stack:

        def options(name: str) -> dict[str, Any]:
            log = stack.enter_context((tmp_path / f"{name}.log").open("w"))
            return {"cwd": SHOP, "env": environ, "stdout": log, "stderr": subprocess.STDOUT, "text": True}

        web = subprocess.Popen(uvicorn, **options("web"))
        stack.callback(stop, web)
        worker: Command[str] = Command(["worker", "bookshop.jobs:app"], **options("worker"))
        stack.callback(stop, worker)
        stack.callback(stop, Command(["scheduler", "bookshop.jobs:app"], **options("scheduler")))
        deadline = time.monotonic() + 60
        while (found := re.search(r"running on (http://\S+)", (tmp_path / "web.log").read_text())) is None:
            assert time.monotonic() < deadline, (tmp_path / "web.log").read_text()
            time.sleep(0.05)
        # A connection for each request: uvicorn closes that of a route that raised.
        limits = httpx.Limits(max_keepalive_connections=0)
        client = stack.enter_context(httpx.Client(base_url=found[1], timeout=30, limits=limits))
        tables = stack.enter_context(psycopg.connect(database, autocommit=True))
        yield Running(client, worker, tables, tmp_path)
    for name in ("worker", "scheduler"):
        assert "stopped" in (tmp_path / f"{name}.log").read_text().splitlines()[-1]


def stop(process: subprocess.Popen[Any]) -> None:
    """As by ctrl+c."""
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, 130)


@pytest.mark.chaos  # three seconds of processor time; .ci/run runs it
def test_the_main_flows_of_a_shop(shop: Running) -> None:
    for path in ("/orders", "/orders-sync"):
        placed = shop.place(("mug", "9.50"), ("lamp", "0.45"), path=path)
        paid = shop.until(f"/charges/{placed['task']}", lambda found: found["state"] != "waiting")
        receipt = {"number": placed["id"], "paid": "9.95", "currency": "EUR", "tries": 1}
        assert paid == {"state": "paid", "receipt": receipt}
        assert shop.web.get(f"/orders/{placed['id']}").json()["state"] == "paid"

        # What the route raises after the send takes the order and its task back.
        shop.place(("bed", "1"), path=path, fail=True, status=409)
    # A send that fails without being looked at makes the commit fail, with its reason.
    shop.place(("bed", "1"), path="/orders-wrong", status=500)
    assert shop.count("SELECT count(*) FROM orders") == 2
    assert shop.count("SELECT count(*) FROM horsies_tasks WHERE task_name = 'charge'") == 2

    refused = shop.place(("umbrella", "13"))
    found = shop.until(f"/charges/{refused['task']}", lambda found: found["state"] != "waiting")
    assert found == {"state": "failed", "code": "CARD_REFUSED", "message": "CardRefusedError: the bank refuses 13"}
    assert "reported CARD_REFUSED: CardRefusedError" in shop.log("worker")

    letters = [shop.post("/mails", {"to": ANN, "subject": "hi", "key": "k", "delay": 60}) for _ in range(2)]
    assert [letter["duplicate"] for letter in letters] == [False, True]
    assert letters[0]["task"] == letters[1]["task"]

    delivery = shop.post(f"/orders/{placed['id']}/delivery")["workflow"]
    assert shop.post(f"/orders/{placed['id']}/delivery")["workflow"] == delivery
    done = shop.until(f"/deliveries/{delivery}", lambda found: found["status"] in {"COMPLETED", "FAILED"})
    assert done["result"] == f"{placed['id']} weighs 700 g"

    dragon = shop.place(("dragon", "2"), ("lamp", "2"))["id"]
    lost = shop.until(
        f"/deliveries/{shop.post(f'/orders/{dragon}/delivery')['workflow']}", lambda found: "nodes" in found
    )
    assert lost["nodes"] == {"items": "COMPLETED", "parcels": "FAILED", "label": "SKIPPED", "mail": "SKIPPED"}
    assert lost["error"] == ("1 of 2 items of the map of 'pack' failed, the first: TOO_LARGE: no parcel takes a dragon")

    imported = shop.post("/imports?items=150")["task"]
    shop.until(f"/tasks/{imported}", lambda found: found["progress"] is not None)
    last = shop.until(f"/tasks/{imported}", lambda found: found["status"] == "COMPLETED")
    assert (last["progress"]["total"], last["progress"]["unit"]) == (150, "items")
    restocked = shop.wait_for("SELECT id FROM horsies_tasks WHERE task_name = 'restock' AND status = 'COMPLETED'")
    shop.until(f"/tasks/{restocked}", lambda found: found["status"] == "COMPLETED")
    # uvicorn writes its traceback after the answer.
    assert "not committed, because task 'charge' was not sent: the arguments do not fit" in shop.log("web")
