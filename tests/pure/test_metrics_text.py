"""The text that is scraped, read by Prometheus's own parser; its HTTP side; the dashboard that uses it."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from prometheus_client.parser import text_string_to_metric_families

from horsies.domain.errors import ConfigurationError
from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import ClaimedTask
from horsies.lifecycle.finishing import Outcome, OutcomeKind
from horsies.run.events import TaskEnd
from horsies.run.metrics import http
from horsies.run.metrics.exporter import METRICS as OF_CLUSTER
from horsies.run.metrics.exposition import OTHER, Histogram, Metric, MetricsPage
from horsies.run.metrics.http import Address, HttpServer, Reply
from horsies.run.metrics.worker_metrics import METRICS as OF_WORKER, MOST_SERIES, WorkerMetrics
from horsies.run.worker.in_flight import InFlightTask

SENT = Metric("shop_sent_total", "counter", 'How many; "quoted", a \\ and\na second line.', ("task", "queue"))
DEPTH = Metric("shop_depth", "gauge", "Of the queue.")
TOOK = Metric("shop_took_seconds", "histogram", "How long.", ("task",))

label_values = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(
    rows=st.dictionaries(st.tuples(label_values, label_values), st.integers(0, 2**60), max_size=5),
    depth=st.floats(-1e300, 1e300),
    took=st.lists(st.floats(0, 1e6), max_size=20),
)
def test_any_text_and_any_number_come_back_from_the_parser(
    rows: dict[tuple[str, str], int], depth: float, took: list[float]
) -> None:
    page, histogram = MetricsPage(), Histogram((0.5, 1.0, 10.0))
    for labels, number in rows.items():
        page.add(SENT, number, *labels)
    page.add(DEPTH, depth)
    for value in took:
        histogram.observe(value)
    page.add_histogram(TOOK, histogram, 'a "b" \\ c\n')
    families = {family.name: family for family in text_string_to_metric_families(page.encoded().decode())}
    if rows:
        found = {(one.labels["task"], one.labels["queue"]): one.value for one in families["shop_sent"].samples}
        assert found == rows
        assert families["shop_sent"].type == "counter"
        assert families["shop_sent"].documentation == SENT.help
    (sample,) = families["shop_depth"].samples
    assert sample.value == depth
    buckets = {
        float(one.labels["le"]): one.value for one in families["shop_took_seconds"].samples if "le" in one.labels
    }
    assert buckets == {bound: sum(value <= bound for value in took) for bound in (0.5, 1.0, 10.0, math.inf)}
    total = {one.name: one.value for one in families["shop_took_seconds"].samples if "le" not in one.labels}
    assert total["shop_took_seconds_count"] == len(took)
    assert math.isclose(total["shop_took_seconds_sum"], sum(took))


def test_a_text_that_is_no_text_is_shown_all_the_same() -> None:
    page = MetricsPage()
    page.add(SENT, 1, "\ud800", "q")
    (family,) = text_string_to_metric_families(page.encoded().decode())
    assert family.samples[0].labels["task"] == "?"


def test_names_beyond_the_bound_and_unknown_ones_are_counted_together() -> None:
    names = [f"shop.task_{number}" for number in range(MOST_SERIES + 20)]
    metrics = WorkerMetrics(names)
    for name in [*names, names[0], "from.the.table"]:
        entry = held(name)
        outcome = Outcome(entry.task.token, OutcomeKind.FAILED, error_code="TASK_TIMEOUT")
        metrics.task_ended(TaskEnd(entry, "failed", outcome, 1.0, None))
        metrics.claim_lost(held(name), "beat")
    found = shown(metrics)
    timeouts = [one for one in found["horsies_task_runs"].samples if one.labels["kind"] == "timeout"]
    counts = {one.labels["task"]: one.value for one in timeouts}
    assert len(counts) == MOST_SERIES + 1
    assert (counts[names[0]], counts["other"], sum(counts.values())) == (2, 21, MOST_SERIES + 22)
    assert sum(one.value for one in found["horsies_claims_lost"].samples) == MOST_SERIES + 22


def held(name: str, due_at: float | None = None) -> InFlightTask:
    now = datetime.now(UTC)
    due_at = now.timestamp() if due_at is None else due_at
    task = ClaimedTask(Token("t", "w", now), due_at, name, "q", 1, None, None, False, None, 0, 0, False)
    return InFlightTask(task, is_async=False, timeout_ms=None, requeue_on_interrupt=False)


def shown(metrics: WorkerMetrics) -> dict[str, Any]:
    text = metrics.page().encoded().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_a_wait_that_no_task_can_have_does_not_spoil_the_sum() -> None:
    metrics = WorkerMetrics(["add"])
    for due_at in (float("-inf"), time.time() - 5, time.time() + 60):
        metrics.task_started(held("add", due_at))
    samples = {one.name: one.value for one in shown(metrics)["horsies_task_wait_seconds"].samples}
    assert samples["horsies_task_wait_seconds_count"] == 3
    assert 31_536_000 <= samples["horsies_task_wait_seconds_sum"] < 31_536_100


def test_names_follow_the_conventions_of_the_ecosystem() -> None:
    metrics = {metric.name: metric for metric in (*OF_WORKER, *OF_CLUSTER)}
    assert len(metrics) > 40
    for metric in metrics.values():
        assert metric.name.startswith(("horsies_", "process_"))
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert metric.kind != "histogram" or metric.name.endswith("_seconds"), metric.name
        assert metric.help.endswith(".")
        assert not {"le", "job", "instance"} & set(metric.labels)
    assert (OTHER, MOST_SERIES) == ("other", 100)


LARGE = b"x" * 40_000_000
"""More than the buffers of a connection hold."""


async def hello() -> Reply:
    return Reply.of(200, "hello")


async def large() -> Reply:
    return Reply(200, LARGE)


async def broken() -> Reply:
    raise ValueError("a secret")


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    server = HttpServer(
        Address("127.0.0.1", 0, "--metrics-port 0"), {"/hello": hello, "/large": large, "/broken": broken}
    )
    await server.start()
    yield server
    await server.close()


async def connect(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))


async def ask(server: HttpServer, request: bytes) -> tuple[str, bytes]:
    """The status line and the body; the server closes the connection."""
    reader, writer = await connect(server)
    writer.write(request)
    async with asyncio.timeout(30):
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    return head.split(b"\r\n")[0].decode(), body


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /hello HTTP/1.1", "200 OK", b"hello\n"),
        (b"GET /hello?probe=1 HTTP/1.0", "200 OK", b"hello\n"),
        (b"HEAD /hello HTTP/1.1", "200 OK", b""),
        (b"GET /other HTTP/1.1", "404 Not Found", b"there are /hello, /large, /broken\n"),
        (b"POST /hello HTTP/1.1", "405 Method Not Allowed", b"only GET and HEAD\n"),
        (b"GET /broken HTTP/1.1", "500 Internal Server Error", b"ValueError; see the log\n"),
        (b"\x16\x03\x01 what", "400 Bad Request", b"this is not an HTTP request\n"),
    ],
)
async def test_a_request_is_answered(server: HttpServer, request_line: bytes, status: str, body: bytes) -> None:
    assert await ask(server, request_line + b"\r\nHost: me\r\n\r\n") == (f"HTTP/1.1 {status}", body)


async def test_a_request_that_is_too_large_is_refused(server: HttpServer) -> None:
    status, _ = await ask(server, b"GET /hello HTTP/1.1\r\nX: " + b"y" * 9_000)
    assert status == "HTTP/1.1 431 Request Header Fields Too Large"


async def test_a_request_that_comes_in_pieces_is_answered(server: HttpServer) -> None:
    reader, writer = await connect(server)
    for byte in b"GET /hello HTTP/1.1\r\n\r\n":
        writer.write(bytes([byte]))
        await writer.drain()
    async with asyncio.timeout(30):
        assert (await reader.read(-1)).endswith(b"\r\n\r\nhello\n")
    writer.close()


async def test_slow_clients_are_cut_and_hold_no_other_up(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_LONGEST_EXCHANGE_S", 0.2)
    silent, unread = await connect(server), await connect(server)
    unread[1].write(b"GET /large HTTP/1.1\r\n\r\n")  # and never reads the answer
    assert (await ask(server, b"GET /hello HTTP/1.1\r\n\r\n"))[1] == b"hello\n"
    async with asyncio.timeout(30):
        assert await silent[0].read(-1) == b""
        assert len(await unread[0].read(-1)) < len(LARGE)
    for _, writer in (silent, unread):
        writer.close()


async def test_of_too_many_connections_the_oldest_is_cut(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_CONNECTIONS", 3)
    idle = [await connect(server) for _ in range(3)]
    assert (await ask(server, b"GET /hello HTTP/1.1\r\n\r\n"))[1] == b"hello\n"
    async with asyncio.timeout(30):
        assert await idle[0][0].read(-1) == b""
    for _, writer in idle:
        writer.close()


@pytest.mark.parametrize(
    ("host", "reason"),
    [("192.0.2.1", "Cannot assign requested address|could not bind"), ("no.invalid", "cannot be resolved")],
)
async def test_an_address_of_another_machine_is_one_error(host: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        await HttpServer(Address(host, 0, "--metrics-port 0"), {}).start()


DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = json.loads((DOCS / "grafana.json").read_text("utf-8"))
PAGE = (DOCS / "metrics.md").read_text("utf-8")

METRICS = {metric.name: metric for metric in (*OF_WORKER, *OF_CLUSTER)}
LABELS = {
    name + suffix: {*metric.labels, "instance", "job"} | ({"le"} if suffix == "_bucket" else set())
    for name, metric in METRICS.items()
    for suffix in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}
VALUES = {
    ("horsies_task_runs_total", "outcome"): {"completed", "failed", "retried", "requeued"},
    ("horsies_workers", "state"): {"alive", "late", "lost", "died", "draining", "stopped"},
    ("horsies_queue_tasks", "status"): {"due", "later", "claimed", "running"},
    ("horsies_child_exits_total", "how"): {"crashed", "replaced"},
    ("horsies_sweep_age_seconds", "rule"): {"runs", "claims", "recovery", "retention"},
    ("horsies_loop_duration_seconds_bucket", "loop"): {"claim", "start", "finish", "beat", "advance"},
}


def expressions(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, branch in tree.items():
            if key in ("expr", "query") and isinstance(branch, str) and "horsies_" in branch:
                yield branch
            else:
                yield from expressions(branch)
    elif isinstance(tree, list):
        for branch in tree:
            yield from expressions(branch)


ALERTS = [one or two for one, two in re.findall(r"""expr: (?:"([^"]+)"|'([^']+)')""", PAGE)]
QUERIES = [*expressions(DASHBOARD), *ALERTS]


def test_there_are_queries() -> None:
    assert len(ALERTS) == 6
    assert len(QUERIES) > 30


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_what_is_exported(query: str) -> None:
    named = re.findall(r"\b(horsies_\w+)(?:\{([^}]*)\})?", query)
    assert named
    for name, selector in named:
        assert name in LABELS, name
        for label, wanted in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            assert label in LABELS[name], f"{name} has no label {label}"
            if not wanted.startswith("$"):
                assert set(wanted.split("|")) <= VALUES[name, label], wanted
    allowed = set.intersection(*(LABELS[name] for name, _ in named))
    for group in re.findall(r"by \(([^)]*)\)", query):
        assert set(group.split(", ")) <= allowed, group
    for label in re.findall(r"label_values\(\w+, (\w+)\)", query):
        assert label in allowed


def test_every_legend_names_a_label_that_its_query_leaves() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            left = {label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(", ")}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= left, panel["title"]


def test_the_page_names_only_metrics_that_there_are() -> None:
    assert set(re.findall(r"\bhorsies_\w+", PAGE)) <= {*LABELS, *METRICS}
