"""Fingerprints, slot ids and lock keys: the documented vectors, and what each must not depend on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from horsies.domain.ids import canonical_time, enqueue_sha, scheduled_task_id

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


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("task_name", "demo.sub"),
        ("queue_name", "slow"),
        ("priority", 1),
        ("args_json", None),
        ("kwargs_json", "{}"),
        ("sent_at", datetime(2026, 1, 2, 3, 4, 5, 679, UTC)),
        ("good_until", datetime(2026, 1, 2, tzinfo=UTC)),
        ("enqueue_delay_seconds", 0),
        ("task_options", None),
    ],
)
def test_every_part_of_a_send_counts(field: str, other: object) -> None:
    assert enqueue_sha(**{**SEND, field: other}) != enqueue_sha(**SEND)


def test_the_zone_of_a_moment_does_not_count() -> None:
    elsewhere = SEND["sent_at"].astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert enqueue_sha(**{**SEND, "sent_at": elsewhere}) == enqueue_sha(**SEND)


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
