"""Task ids are UUIDs of version 7 that sort by their time of creation."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import RFC_4122, UUID

import pytest

from horsies.domain.ids import new_task_id


def test_an_id_is_a_version_7_uuid_that_tells_its_time() -> None:
    before = time.time_ns() // 1_000_000
    task_id = new_task_id()
    after = time.time_ns() // 1_000_000
    parsed = UUID(task_id)
    assert str(parsed) == task_id
    assert (parsed.version, parsed.variant) == (7, RFC_4122)
    assert before <= parsed.int >> 80 <= after


def test_ids_sort_in_the_order_in_which_they_were_made() -> None:
    made = [new_task_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


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


def test_a_forked_child_makes_ids_of_its_own() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, "\n".join(new_task_id() for _ in range(200)).encode())
        os._exit(0)
    ours = [new_task_id() for _ in range(200)]
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = pipe.read().split("\n")
    assert len({*ours, *theirs}) == 400
