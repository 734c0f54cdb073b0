"""The text that is scraped, read by Prometheus's own parser."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, strategies as st
from prometheus_client.parser import text_string_to_metric_families

from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import ClaimedTask
from horsies.lifecycle.finishing import Outcome, OutcomeKind
from horsies.run.events import TaskEnd
from horsies.run.metrics.exposition import OTHER, Histogram, Metric, MetricsPage
from horsies.run.metrics.of_cluster import METRICS as OF_CLUSTER
from horsies.run.metrics.of_worker import METRICS as OF_WORKER, MOST_SERIES, WorkerMetrics
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
