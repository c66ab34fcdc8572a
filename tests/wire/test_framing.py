"""Frames are split from a stream independently of its chunks; headers follow the rules of their version."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.kio_oracle import CASES, Case

from headgate.wire.codec import decode
from headgate.wire.errors import MalformedFrame, MalformedMessage, OversizedFrame
from headgate.wire.framing import (
    MOST_HEADER_FIELDS,
    FrameReader,
    RequestHeader,
    is_flexible,
    read_request_header,
    read_response_header,
    request_frame,
    response_frame,
)
from headgate.wire.messages import APIS
from headgate.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.wire.primitives import write_varint

LIMIT = 1000


def framed(content: bytes) -> bytes:
    """Return the content after its length."""
    return struct.pack(">i", len(content)) + content


@given(
    contents=st.lists(st.binary(min_size=1, max_size=300), max_size=6),
    rest=st.binary(max_size=3),
    cuts=st.lists(st.integers(1, 60), max_size=30),
)
def test_frames_are_independent_of_the_chunks_of_the_stream(
    contents: list[bytes], rest: bytes, cuts: list[int]
) -> None:
    """The network may split and join the bytes anywhere. An incomplete frame is kept."""
    stream = b"".join(map(framed, contents)) + rest
    reader, frames, at = FrameReader(LIMIT), [], 0
    for cut in [*cuts, len(stream)]:
        frames += reader.feed(stream[at : at + cut])
        at += cut
    assert frames == contents
    assert reader.pending_bytes == len(rest)


def test_frames_are_returned_with_their_last_byte() -> None:
    """If a stream arrives byte by byte, each frame is returned after its last byte, not before."""
    reader = FrameReader(LIMIT)
    stream = framed(b"first") + framed(b"second")
    arrived = [(at, frame) for at in range(len(stream)) for frame in reader.feed(stream[at : at + 1])]
    assert arrived == [(8, b"first"), (18, b"second")]


def test_a_frame_is_a_copy() -> None:
    """Frames can be kept: they are not views of a buffer that changes."""
    reader = FrameReader(LIMIT)
    assert reader.feed(framed(b"first")[:6]) == []
    (frame,) = reader.feed(framed(b"first")[6:] + framed(b"second")[:7])
    assert type(frame) is bytes
    assert frame == b"first"
    assert reader.feed(framed(b"second")[7:]) == [b"second"]


@pytest.mark.parametrize("length", [0, -1, -(1 << 31)])
def test_an_invalid_length_is_malformed(length: int) -> None:
    """A length of zero or less is refused before the rest of the frame arrives."""
    with pytest.raises(MalformedFrame, match=f"the length {length}"):
        FrameReader(LIMIT).feed(struct.pack(">i", length))


def test_a_frame_above_the_limit_is_refused_before_it_arrives() -> None:
    """The length is sufficient to refuse the frame. A frame of the limit's size is allowed."""
    with pytest.raises(OversizedFrame, match="1001 bytes; the limit is 1000"):
        FrameReader(LIMIT).feed(struct.pack(">i", LIMIT + 1))
    assert FrameReader(LIMIT).feed(framed(bytes(LIMIT))) == [bytes(LIMIT)]


def test_other_protocols_are_recognized() -> None:
    """The error for a browser or a TLS client differs from that for a large request."""
    says = {b"GET / HTTP/1.1\r\n\r\n": "it looks like HTTP", b"\x16\x03\x01\x02\x00\x01": "it looks like TLS"}
    for hello, protocol in says.items():
        with pytest.raises(OversizedFrame, match=protocol):
            FrameReader(100 * 1024 * 1024).feed(hello)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_message_survives_a_round_trip_in_a_frame(case: Case) -> None:
    """Header and message of every version are read back. Flexible versions are the same as kio's."""
    assert is_flexible(case.api_key, case.version) == case.is_flexible
    tree = case.typical()
    message, content = case.ours(tree), case.kio_bytes(tree)
    if case.side == "request":
        frame = request_frame(message, case.version, 7, "client")[4:]
        header = read_request_header(frame)
        assert header[:4] == (case.api_key, case.version, 7, "client")
        at = header.body_at
    else:
        frame = bytes(response_frame(7, case.api_key, case.version, message))[4:]
        correlation_id, at = read_response_header(frame, case.api_key, case.version)
        assert correlation_id == 7
    assert frame[at:] == content


@pytest.mark.parametrize(
    ("version", "client_id", "header"),
    [
        (3, "ab", b"\x00\x0c\x00\x03\x00\x00\x00\x07\x00\x02ab"),
        (3, None, b"\x00\x0c\x00\x03\x00\x00\x00\x07\xff\xff"),
        (4, "ab", b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x02ab\x00"),
        (4, None, b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xff\x00"),
        (4, "", b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x00\x00"),
    ],
)
def test_the_client_id_is_a_legacy_string_in_every_version(
    version: int, client_id: str | None, header: bytes
) -> None:
    """The header of a flexible request differs only in its tagged fields."""
    frame = request_frame(HeartbeatRequest(), version, 7, client_id)[4:]
    assert frame.startswith(header)
    assert read_request_header(frame) == (12, version, 7, client_id, len(header))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    """The message starts after the tagged fields of the header, all of which are unknown."""
    tagged = b"\x02\x00\x01x\x8f\x4e\x03abc"
    request = b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xff" + tagged + b"body"
    assert request[read_request_header(request).body_at :] == b"body"
    response = b"\x00\x00\x00\x07" + tagged + b"body"
    correlation_id, at = read_response_header(response, 12, 4)
    assert (correlation_id, response[at:]) == (7, b"body")


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_response_to_api_versions_always_has_the_oldest_header(version: int) -> None:
    """A client reads this response before it knows the server's versions."""
    frame = bytes(response_frame(7, 18, version, ApiVersionsResponse(error_code=35)))[4:]
    assert frame[:6] == b"\x00\x00\x00\x07\x00\x23"
    assert read_response_header(frame, 18, version) == (7, 4)
    assert read_response_header(bytes(response_frame(7, 12, 4, HeartbeatResponse()))[4:], 12, 4) == (7, 5)


def test_the_header_of_an_unknown_api_or_version_is_read() -> None:
    """The server needs the header to respond, or to log the client."""
    assert read_request_header(b"\x7f\xff\x00\x00\x00\x00\x00\x07\x00\x01c") == (0x7FFF, 0, 7, "c", 11)
    newer = read_request_header(b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x01c\x00")
    assert newer == (18, 99, 7, "c", 12)
    assert not is_flexible(0x7FFF, 9)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "truncated at 0 bytes"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00", "truncated at 9 bytes"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x05ab", "client_id is truncated at 12 bytes"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xfe", "client_id has the negative length -2"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x01\xff\x00", "client_id is not UTF-8"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x01c", "truncated at 11 bytes"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x01c\x01\x00\x09", "has a tagged field 0 that ends after"),
    ],
)
def test_an_invalid_header_is_malformed(frame: bytes, reason: str) -> None:
    """The error has the reason."""
    with pytest.raises(MalformedMessage, match=f"^request header:? {reason}"):
        read_request_header(frame)


@given(frame=st.binary(max_size=60), api_key=st.sampled_from([*APIS, 9999]), version=st.integers(-1, 20))
def test_any_bytes_are_a_header_or_malformed(frame: bytes, api_key: int, version: int) -> None:
    """Random bytes raise no error other than MalformedMessage."""
    key_and_version = struct.pack(">hh", api_key, version)
    outcomes: list[object] = []
    for read in (
        lambda: read_request_header(frame),
        lambda: read_request_header(key_and_version + frame),
        lambda: read_response_header(frame, api_key, version),
    ):
        try:
            outcomes.append(read())
        except MalformedMessage as refusal:
            outcomes.append(refusal)
    asked, asked_by_key, answered = outcomes
    assert isinstance(asked, RequestHeader | MalformedMessage)
    assert isinstance(asked_by_key, RequestHeader | MalformedMessage)
    assert isinstance(answered, tuple | MalformedMessage)


def test_a_request_and_its_response() -> None:
    """One exchange, from both sides."""
    (request,) = FrameReader(LIMIT).feed(request_frame(ApiVersionsRequest(), 3, 1, None))
    header = read_request_header(request)
    assert decode(ApiVersionsRequest, header.api_version, request, header.body_at) == ApiVersionsRequest()
    answer = response_frame(header.correlation_id, header.api_key, header.api_version, ApiVersionsResponse())
    (response,) = FrameReader(LIMIT).feed(bytes(answer))
    assert decode(ApiVersionsResponse, 3, response, 4) == ApiVersionsResponse()


@pytest.mark.parametrize("count", [0, 1, MOST_HEADER_FIELDS, MOST_HEADER_FIELDS + 1, 50_000_000])
def test_few_tagged_fields_of_a_header_are_skipped(count: int) -> None:
    """Headers are read on the event loop, and a frame has room for very many fields."""
    start = request_frame(HeartbeatRequest(), 4, 7, "me")[4:16]
    fields = b"\x05\0" * min(count, MOST_HEADER_FIELDS + 1)
    frame = start + write_varint(count) + fields + b"body"
    if count > MOST_HEADER_FIELDS:
        with pytest.raises(MalformedMessage, match=f"{count} tagged fields"):
            read_request_header(frame)
    else:
        assert frame[read_request_header(frame).body_at :] == b"body"
