"""The dashboard, the alerts of the page about metrics and its queries use only metrics and labels that are exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horsies.run.metrics.of_cluster import METRICS as OF_CLUSTER
from horsies.run.metrics.of_worker import METRICS as OF_WORKER

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
