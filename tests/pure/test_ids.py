"""Task ids sort by their time of creation; fingerprints, slot ids and lock keys equal the documented vectors."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given, strategies as st

from horsies.domain.ids import canonical_time, enqueue_sha, new_task_id, scheduled_task_id


def test_an_id_is_a_version_7_uuid_that_tells_its_time() -> None:
    before = time.time_ns() // 1_000_000
    task_id = new_task_id()
    after = time.time_ns() // 1_000_000
    parsed = UUID(task_id)
    assert str(parsed) == task_id
    assert (parsed.version, parsed.variant) == (7, RFC_4122)
    assert before <= parsed.int >> 80 <= after


def test_ids_of_many_threads_differ_and_sort_within_each() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: [new_task_id() for _ in range(2_000)], range(8)))
    assert all(ids == sorted(ids) for ids in made)
    assert len({task_id[:18] for ids in made for task_id in ids}) == 16_000


def test_a_clock_that_is_set_back_does_not_bring_old_ids_back(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = new_task_id()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    following = [new_task_id() for _ in range(5_000)]
    assert [latest, *following] == sorted([latest, *following])
    assert {UUID(task_id).version for task_id in following} == {7}


SEND: dict[str, Any] = {
    "task_name": "demo.add",
    "queue_name": "default",
    "priority": 100,
    "args_json": "[1,2]",
    "kwargs_json": None,
    "sent_at": datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
    "good_until": None,
    "enqueue_delay_seconds": None,
    "task_options": '{"retry_policy":null,"good_until":null}',
}


def test_the_enqueue_fingerprint_of_the_contract() -> None:
    assert enqueue_sha(**SEND) == "b521547d30ae8182cc435ac9da57f62946dd24256340ba3926c7ad09e79036c5"


def test_the_slot_id_of_the_contract() -> None:
    slot = datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert scheduled_task_id("nightly", slot) == "784f255b-b917-5a7a-b181-c14986886c08"


@given(st.text(), st.datetimes(timezones=st.just(UTC)))
def test_a_slot_id_is_a_uuid_that_depends_on_name_and_slot(name: str, slot: datetime) -> None:
    task_id = scheduled_task_id(name, slot)
    assert UUID(task_id).version == 5
    assert task_id == scheduled_task_id(name, slot)
    assert task_id != scheduled_task_id(name + "x", slot)


def test_canonical_time_is_utc_with_six_decimals_and_four_digits_of_year() -> None:
    berlin = timezone(timedelta(hours=1))
    assert canonical_time(datetime(2026, 1, 2, 3, tzinfo=berlin)) == "2026-01-02T02:00:00.000000+00:00"
    assert canonical_time(datetime(800, 1, 2, 3, tzinfo=UTC)) == "0800-01-02T03:00:00.000000+00:00"


def test_a_moment_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        canonical_time(datetime(2026, 1, 2))  # noqa: DTZ001
