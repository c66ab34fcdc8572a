"""Frames are cut from a stream however it arrives; headers follow the rules of their version."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.kio_oracle import CASES, Case

from headgate.wire.codec import decode
from headgate.wire.errors import MalformedFrame, MalformedMessage, OversizedFrame
from headgate.wire.framing import (
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

LIMIT = 1000


def framed(content: bytes) -> bytes:
    """The content with its length before it."""
    return struct.pack(">i", len(content)) + content


@given(
    contents=st.lists(st.binary(min_size=1, max_size=300), max_size=6),
    rest=st.binary(max_size=3),
    cuts=st.lists(st.integers(1, 60), max_size=30),
)
def test_frames_come_out_whole_however_the_stream_is_cut(
    contents: list[bytes], rest: bytes, cuts: list[int]
) -> None:
    """Where a network splits or joins the bytes does not show; what is incomplete waits."""
    stream = b"".join(map(framed, contents)) + rest
    reader, frames, at = FrameReader(LIMIT), [], 0
    for cut in [*cuts, len(stream)]:
        frames += reader.feed(stream[at : at + cut])
        at += cut
    assert frames == contents
    assert reader.pending_bytes == len(rest)


def test_frames_come_out_byte_by_byte() -> None:
    """A frame is handed out with its last byte, not before."""
    reader = FrameReader(LIMIT)
    stream = framed(b"first") + framed(b"second")
    arrived = [(at, frame) for at in range(len(stream)) for frame in reader.feed(stream[at : at + 1])]
    assert arrived == [(8, b"first"), (18, b"second")]


def test_a_frame_is_bytes_of_its_own() -> None:
    """Frames may be kept: they are no views of a buffer that goes on."""
    reader = FrameReader(LIMIT)
    assert reader.feed(framed(b"first")[:6]) == []
    (frame,) = reader.feed(framed(b"first")[6:] + framed(b"second")[:7])
    assert type(frame) is bytes
    assert frame == b"first"
    assert reader.feed(framed(b"second")[7:]) == [b"second"]


@pytest.mark.parametrize("length", [0, -1, -(1 << 31)])
def test_a_length_no_frame_can_have_is_malformed(length: int) -> None:
    """Zero and negative lengths end the conversation, even before the rest of the frame is there."""
    with pytest.raises(MalformedFrame, match=f"the length {length}"):
        FrameReader(LIMIT).feed(struct.pack(">i", length))


def test_a_frame_above_the_limit_is_refused_before_it_is_collected() -> None:
    """Four bytes are enough to refuse; the limit itself is allowed."""
    with pytest.raises(OversizedFrame, match="1001 bytes; the limit is 1000"):
        FrameReader(LIMIT).feed(struct.pack(">i", LIMIT + 1))
    assert FrameReader(LIMIT).feed(framed(bytes(LIMIT))) == [bytes(LIMIT)]


def test_text_sent_to_the_port_is_refused_as_a_frame() -> None:
    """A browser or a TLS client on the wrong port is told apart from a big request."""
    says = {b"GET / HTTP/1.1\r\n\r\n": "it looks like HTTP", b"\x16\x03\x01\x02\x00\x01": "it looks like TLS"}
    for hello, protocol in says.items():
        with pytest.raises(OversizedFrame, match=protocol):
            FrameReader(100 * 1024 * 1024).feed(hello)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_message_survives_its_frame(case: Case) -> None:
    """Header and message of every version are found again, and flexibility is what kio says it is."""
    assert is_flexible(case.api_key, case.version) == case.is_flexible
    tree = case.typical()
    message, content = case.ours(tree), case.kio_bytes(tree)
    if case.side == "request":
        frame = request_frame(message, case.version, 7, "client")[4:]
        header = read_request_header(frame)
        assert header[:4] == (case.api_key, case.version, 7, "client")
        at = header.body_at
    else:
        frame = response_frame(7, case.api_key, case.version, message)[4:]
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
    """A flexible request's header adds tagged fields and changes nothing else."""
    frame = request_frame(HeartbeatRequest(), version, 7, client_id)[4:]
    assert frame.startswith(header)
    assert read_request_header(frame) == (12, version, 7, client_id, len(header))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    """Nobody knows them yet; the message begins behind them."""
    tagged = b"\x02\x00\x01x\x8f\x4e\x03abc"
    request = b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xff" + tagged + b"body"
    assert request[read_request_header(request).body_at :] == b"body"
    response = b"\x00\x00\x00\x07" + tagged + b"body"
    correlation_id, at = read_response_header(response, 12, 4)
    assert (correlation_id, response[at:]) == (7, b"body")


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_response_to_api_versions_has_the_oldest_header_always(version: int) -> None:
    """A client reads this answer before it knows what the server speaks."""
    frame = response_frame(7, 18, version, ApiVersionsResponse(error_code=35))[4:]
    assert frame[:6] == b"\x00\x00\x00\x07\x00\x23"
    assert read_response_header(frame, 18, version) == (7, 4)
    assert read_response_header(response_frame(7, 12, 4, HeartbeatResponse())[4:], 12, 4) == (7, 5)


def test_an_unknown_api_or_version_still_has_a_header() -> None:
    """Who asks something unknown can be answered, or at least named in the log."""
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
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x01c\x01\x00\x09", "has a tagged field 0 that ends behind"),
    ],
)
def test_a_header_that_is_no_header_is_malformed(frame: bytes, reason: str) -> None:
    """The reason stands in the error."""
    with pytest.raises(MalformedMessage, match=f"^request header:? {reason}"):
        read_request_header(frame)


@given(frame=st.binary(max_size=60), api_key=st.sampled_from([*APIS, 9999]), version=st.integers(-1, 20))
def test_noise_is_a_header_or_malformed(frame: bytes, api_key: int, version: int) -> None:
    """Headers of nonsense raise MalformedMessage and nothing else."""
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


def test_a_request_and_its_response_pass_each_other() -> None:
    """One round trip as both ends see it."""
    (request,) = FrameReader(LIMIT).feed(request_frame(ApiVersionsRequest(), 3, 1, None))
    header = read_request_header(request)
    assert decode(ApiVersionsRequest, header.api_version, request, header.body_at) == ApiVersionsRequest()
    answer = response_frame(header.correlation_id, header.api_key, header.api_version, ApiVersionsResponse())
    (response,) = FrameReader(LIMIT).feed(answer)
    assert decode(ApiVersionsResponse, 3, response, 4) == ApiVersionsResponse()
