"""Frames in pieces: the same bytes on the wire, and no copy of long records."""

from __future__ import annotations

import pytest

from headgate.wire.codec import encode
from headgate.wire.framing import response_frame
from headgate.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headgate.wire.pieces import LONG_BYTES, FrameBuffer, Frames, LongFrame, joined

SHORT, LONG = b"s" * (LONG_BYTES - 1), b"l" * LONG_BYTES


def fetched(*records: bytes | None) -> FetchResponse:
    partitions = [PartitionData(partition_index=at, records=one) for at, one in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="flights", partitions=partitions)])


@pytest.mark.parametrize("version", [4, 11, 12])
@pytest.mark.parametrize(
    "records", [(LONG,), (LONG, SHORT), (SHORT, LONG, None, LONG), (LONG, LONG), (b"", LONG * 3)]
)
def test_a_frame_in_pieces_has_the_bytes_of_the_message(
    version: int, records: tuple[bytes | None, ...]
) -> None:
    """In flexible versions and others, with long and short records and none."""
    message = fetched(*records)
    frame = response_frame(7, 1, version, message)
    assert isinstance(frame, LongFrame)
    content = bytes(frame)
    header_bytes = 9 if version >= 12 else 8
    assert content[header_bytes:] == encode(message, version)
    assert len(frame) == len(content)
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    assert all(frame.pieces)


def test_long_records_are_not_copied() -> None:
    """The very object that was read from the log is a piece of the frame."""
    frame = response_frame(7, 1, 11, fetched(LONG, SHORT, LONG))
    assert isinstance(frame, LongFrame)
    assert sum(piece is LONG for piece in frame.pieces) == 2


def test_short_records_are_copied_into_one_piece() -> None:
    """A piece of its own costs more than a copy of a few bytes."""
    assert isinstance(response_frame(7, 1, 11, fetched(SHORT, None)), bytes)


def test_frames_are_joined_in_their_order() -> None:
    """Also if only some of them are in pieces, or one is empty because the request expects no response."""
    buffer = FrameBuffer(b"ab")
    buffer.put_apart(LONG)
    frames: list[Frames] = [b"1", buffer.frame(), b"", bytearray(b"2")]
    both = joined(frames)
    assert isinstance(both, LongFrame)
    assert bytes(both) == b"1ab" + LONG + b"2"
    assert all(both.pieces)
    assert joined([b"1", b"", bytearray(b"2")]) == b"12"
