"""An invalid request affects only the connection of its client."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.raw import RawConnection

from headgate.broker import Broker
from headgate.domain.errors import ErrorCode
from headgate.wire.framing import request_frame
from headgate.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headgate.wire.messages.metadata import MetadataRequest, MetadataResponse
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

Connect = Callable[[], RawConnection]

HEADER_OF = struct.Struct(">hhih")


def header(key: int, version: int) -> bytes:
    return HEADER_OF.pack(key, version, 1, -1)


def commit_of_a_long_group() -> bytes:
    """Return a commit in a flexible version, whose group id has a byte more than a client can write."""
    partitions = [OffsetCommitRequestPartition(committed_offset=5)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    group_id = b"g" * 0x7FFF
    frame = request_frame(OffsetCommitRequest(group_id=group_id.decode(), topics=topics), 8, 1, "raw")
    body = frame[4:].replace(b"\x80\x80\x02" + group_id, b"\x81\x80\x02g" + group_id)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("an unknown API key", struct.pack(">i", 10) + header(999, 0)),
        ("an unsupported version", struct.pack(">i", 10) + header(3, 99)),
        ("a frame of no bytes", struct.pack(">i", 0)),
        ("a frame of negative length", struct.pack(">i", -5)),
        ("a frame larger than allowed", struct.pack(">i", 2_000_000_000)),
        ("a frame too short for a header", struct.pack(">i", 3) + b"abc"),
        ("a body that ends early", struct.pack(">i", 12) + header(11, 0) + b"\x00\x09"),
        ("an array of two billion", struct.pack(">i", 14) + header(3, 1) + struct.pack(">i", 2_000_000_000)),
        ("a group id longer than any record holds", commit_of_a_long_group()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ],
)
def test_nonsense_closes_that_connection_alone(
    broker: Broker, connect: Connect, name: str, sent: bytes
) -> None:
    """The server logs a line and closes this connection; another connection continues."""
    neighbour, sender = connect(), connect()
    neighbour.api_versions()
    sender.send(sent)
    assert sender.is_closed_by_server(), name
    assert neighbour.api_versions().error_code == ErrorCode.NONE
    assert "connection closed" in broker.log_path.read_text()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(connect: Connect) -> None:
    """The client learns the supported versions and continues on the same connection."""
    client = connect()
    client.send_frame(header(18, 99) + b"\x00")
    answer = client.read_frame()
    correlation_id, error, count, key, low, high = struct.unpack_from(">ihihhh", answer)
    assert (correlation_id, error, count, key, low) == (1, ErrorCode.UNSUPPORTED_VERSION, 1, 18, 0)
    assert high >= 4
    assert client.api_versions().error_code == ErrorCode.NONE


def test_every_advertised_api_is_registered_once(connect: Connect) -> None:
    """The response lists each key once, sorted, with its versions; ApiVersions is one of them."""
    keys = [api.api_key for api in connect().api_versions().api_keys]
    assert keys == sorted(set(keys))
    assert {0, 1, 3, 8, 9, 18} <= set(keys)


def test_produce_is_advertised_from_version_0_and_spoken_from_3(connect: Connect) -> None:
    """librdkafka compresses only if a broker advertises version 0, and then uses the newest version."""
    (produce,) = (api for api in connect().api_versions().api_keys if api.api_key == 0)
    assert (produce.min_version, produce.max_version >= 9) == (0, True)
    client = connect()
    client.send_frame(header(0, 2) + b"\x00" * 10)
    assert client.is_closed_by_server()


def test_a_client_without_a_proper_name_gets_an_error(connect: Connect) -> None:
    """Version 3 holds the client's software name; an invalid name gets INVALID_REQUEST."""
    request = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    assert connect().request(request, 3, ApiVersionsResponse).error_code == ErrorCode.INVALID_REQUEST


def test_bytes_may_come_one_by_one(connect: Connect) -> None:
    """The network may split a frame anywhere."""
    client = connect()
    frame = header(18, 0)
    for byte in struct.pack(">i", len(frame)) + frame:
        client.send(bytes([byte]))
    assert client.read_frame()[:4] == struct.pack(">i", 1)


def test_bytes_after_the_message_are_ignored(connect: Connect) -> None:
    """Like Kafka, the server ignores bytes after the message in a frame."""
    client = connect()
    client.send_frame(header(18, 0) + b"more than was asked for")
    assert client.read_frame()[:4] == struct.pack(">i", 1)


def test_responses_leave_in_the_order_of_the_requests(connect: Connect) -> None:
    """Pipelined requests are answered in order."""
    client = connect()
    for correlation_id in range(50):
        client.send_frame(HEADER_OF.pack(18 if correlation_id % 2 else 3, 0, correlation_id, -1) + bytes(4))
    answers = [struct.unpack_from(">i", client.read_frame())[0] for _ in range(50)]
    assert answers == list(range(50))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.integers(0, 80),
    version=st.integers(0, 14),
    body=st.binary(max_size=64),
)
def test_no_frame_brings_the_server_down(connect: Connect, key: int, version: int, body: bytes) -> None:
    """After any bytes behind a plausible header, a new connection is served."""
    client = connect()
    client.send_frame(header(key, version) + body)
    client.socket.close()
    fresh = connect()
    response = fresh.request(MetadataRequest(topics=[]), 1, MetadataResponse)
    assert response.controller_id >= 0
    fresh.socket.close()
