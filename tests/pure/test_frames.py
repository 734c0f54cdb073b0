"""Frames are reassembled however a stream splits them, and invalid data is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from horsies.run.frames import BrokenFrameError, FrameReader, pack

messages = st.lists(st.tuples(st.integers(), st.text(max_size=50), st.none() | st.booleans()), max_size=4)


@given(st.lists(messages, max_size=5), st.data())
def test_messages_survive_every_cut(batches: list[list[tuple[object, ...]]], data: st.DataObject) -> None:
    stream = b"".join(pack(batch) for batch in batches)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader()
    received = [
        message
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for message in reader.feed(stream[begin:end])
    ]
    assert received == [message for batch in batches for message in batch]


@given(st.lists(messages, min_size=1, max_size=3))
def test_messages_survive_one_byte_at_a_time(batches: list[list[tuple[object, ...]]]) -> None:
    reader = FrameReader()
    stream = b"".join(pack(batch) for batch in batches)
    received = [message for byte in stream for message in reader.feed(bytes([byte]))]
    assert received == [message for batch in batches for message in batch]


def test_a_large_message_arrives_in_pieces() -> None:
    text = "x" * 1_000_000
    stream = pack([text])
    reader = FrameReader()
    pieces = [reader.feed(stream[begin : begin + 65_536]) for begin in range(0, len(stream), 65_536)]
    assert pieces == [[]] * (len(pieces) - 1) + [[text]]


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello world",
        b"\x04\x00\x00\x00abcd",
        b"\x00\x00\x00\x00",
        b"\x05\x00\x00\x00i\x05\x00\x00\x00",
        b"\x02\x00\x00\x00i\x01",
    ],
)
def test_bytes_that_are_no_frame_are_refused(garbage: bytes) -> None:
    with pytest.raises(BrokenFrameError):
        FrameReader().feed(garbage)
