"""The last output of a running task, bounded, with the lines that had no room counted."""

from __future__ import annotations

from datetime import UTC, datetime

from horsies.lifecycle.claim_token import Token
from horsies.run.pool.output_rings import RING_BYTES, OutputRing, OutputRings


def token(number: int) -> Token:
    return Token(f"task-{number}", "worker", datetime(2026, 1, 1, tzinfo=UTC))


def texts(ring: OutputRing, after: int = 0, most: int = 1_000_000) -> list[str]:
    return [line[-1] for line in ring.since(after, most)["lines"]]


def test_a_follower_gets_each_line_once() -> None:
    ring = OutputRing()
    ring.add("stdout", "one")
    ring.add("stderr", "two")
    assert texts(ring) == ["one", "two"]
    ring.add("stdout", "three")
    assert texts(ring, after=2) == ["three"]
    assert ring.since(3, 1_000) == {"lines": [], "last": 3, "left_out": 0}


def test_what_has_no_room_is_counted() -> None:
    ring = OutputRing()
    for number in range(10_000):
        ring.add("stdout", f"{number:0400}")
    found = ring.since(0, 1_000_000)
    assert sum(len(line[-1]) for line in found["lines"]) < RING_BYTES
    assert found["left_out"] + len(found["lines"]) == found["last"] == 10_000
    cut = ring.since(9_990, 1_200)
    assert [line[0] for line in cut["lines"]] == [9_999, 10_000]
    assert cut["left_out"] == 8


def test_the_tail_is_made_of_whole_lines() -> None:
    ring = OutputRing()
    for number in range(5):
        ring.add("stdout", f"line {number}")
    assert ring.tail(14) == "line 3\nline 4"
    assert ring.tail(13) == "line 4"
    assert ring.tail(0) == ""


def test_tasks_that_have_ended_keep_their_last_lines_for_a_while() -> None:
    rings = OutputRings()
    for number in range(20):
        rings.add(token(number), "stdout", "x")
        rings.ended(token(number))
    rings.ended(token(99))  # it has written nothing
    kept = [number for number in range(20) if rings.of(token(number)) is not None]
    assert kept == list(range(4, 20))
    assert rings.of(token(99)) is None
