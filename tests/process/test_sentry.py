"""The integration of docs/hooks.md with the real sentry-sdk: one event for each failure, with the scope of its task."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from database_server import DatabaseServer
from test_worker import HERE, Served, Worker, serving


@pytest.fixture(scope="module")
def told_to(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sentry") / "events"


@pytest.fixture(scope="module")
def shared_worker(server: DatabaseServer, told_to: Path) -> Iterator[tuple[str, Worker]]:
    with serving(server, app="sentry_app:app", TEST_TOLD=str(told_to)) as served:
        yield served


def all_events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def events(file: Path, task_id: str) -> list[dict[str, Any]]:
    return [line for line in all_events(file) if line.get("tags", {}).get("task_id") == task_id]


def crumbs(event: dict[str, Any]) -> list[str]:
    found = event.get("breadcrumbs", {}).get("values", [])
    return [crumb["message"] for crumb in found if crumb["category"] == "shop"]


@pytest.mark.chaos  # its worker takes two seconds of processor time; .ci/run runs it
async def test_a_failed_task_is_one_event_with_its_own_tags_and_breadcrumbs(served: Served, told_to: Path) -> None:
    await served.done(await served.send("quiet", "of another task"))
    task_id = await served.send("raises", "of this one", retry_count=2)
    await served.done(task_id)
    (event,) = events(told_to, task_id)
    assert event["tags"] == {"task": "raises", "task_id": task_id, "attempt": 3}
    (exception,) = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("ValueError", "of this one")
    assert exception["stacktrace"]["frames"][-1]["function"] == "raises"
    assert crumbs(event) == ["of this one"]


@pytest.mark.chaos
async def test_async_tasks_side_by_side_do_not_mix_their_breadcrumbs(served: Served, told_to: Path) -> None:
    ids = {name: await served.send("raises_async", name) for name in ("a", "b")}
    for name, task_id in ids.items():
        await served.done(task_id)
        (event,) = events(told_to, task_id)
        assert event["exception"]["values"][0]["value"] == name
        assert crumbs(event) == [f"before {name}", f"after {name}"]


@pytest.mark.chaos
async def test_a_returned_error_is_a_message_and_a_logged_one_is_told_by_the_child_alone(
    served: Served, told_to: Path
) -> None:
    refused, logged = await served.send("refuse"), await served.send("logs_an_error")
    await served.done(refused)
    await served.done(logged)
    (event,) = events(told_to, refused)
    assert (event["message"], event["level"]) == ("refuse: CARD_DECLINED: no", "error")
    await asyncio.to_thread(served.worker.wait_for, "log", message="out of stock")
    (child,) = served.worker.children()
    lines = all_events(told_to)
    assert [line["pid"] for line in lines if "out of stock" in json.dumps(line.get("logentry"))] == [child.pid]


def test_the_page_shows_what_is_tested_here() -> None:
    source = (HERE / "sentry_app.py").read_text()
    shown = source[source.index("ignore_logger(") :].partition("# to here")[0].replace("\n\n\n", "\n\n").strip()
    page = (HERE.parents[1] / "docs" / "hooks.md").read_text().replace("\n\n\n", "\n\n")
    assert shown in page
