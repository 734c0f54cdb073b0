"""The text that is scraped, read by Prometheus's own parser."""

from __future__ import annotations

import math

from hypothesis import given, strategies as st
from prometheus_client.parser import text_string_to_metric_families

from horsies.run.metrics.exposition import OTHER, Histogram, Metric, Page
from horsies.run.metrics.of_cluster import METRICS as OF_CLUSTER
from horsies.run.metrics.of_worker import METRICS as OF_WORKER, MOST_SERIES

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
    page, histogram = Page(), Histogram((0.5, 1.0, 10.0))
    for labels, number in rows.items():
        page.add(SENT, number, *labels)
    page.add(DEPTH, depth)
    for value in took:
        histogram.observe(value)
    page.add_histogram(TOOK, histogram, 'a "b" \\ c\n')
    families = {family.name: family for family in text_string_to_metric_families(page.encoded().decode())}
    if rows:
        found = {(one.labels["task"], one.labels["queue"]): one.value for one in families["shop_sent"].samples}
        assert found == {labels: float(number) for labels, number in rows.items()}
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
    page = Page()
    page.add(SENT, 1, "\ud800", "q")
    (family,) = text_string_to_metric_families(page.encoded().decode())
    assert family.samples[0].labels["task"] == "?"


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
