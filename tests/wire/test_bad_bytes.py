"""Invalid bytes raise `MalformedMessage` and no other error."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.kio_oracle import CASES, Case

from headgate.wire.codec import decode, encode
from headgate.wire.errors import MalformedMessage
from headgate.wire.message import Message
from headgate.wire.messages.describe_groups import DescribeGroupsRequest
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.list_offsets import ListOffsetsRequest
from headgate.wire.messages.metadata import MetadataRequest, MetadataResponse
from headgate.wire.messages.offset_commit import OffsetCommitRequest
from headgate.wire.messages.offset_fetch import OffsetFetchRequest
from headgate.wire.messages.produce import ProduceRequest
from headgate.wire.reading import MOST_ELEMENTS

MUTATIONS = 40


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_truncated_message_is_malformed(case: Case) -> None:
    """No proper prefix of a message is a valid message."""
    message = encode(case.ours(case.typical()), case.version)
    for size in range(len(message)):
        with pytest.raises(MalformedMessage, match=f"^{case.message_type.__name__} v{case.version}"):
            decode(case.message_type, case.version, message[:size])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mutated_message_is_malformed_or_another_message(case: Case) -> None:
    """With changed, added or missing bytes, the reader raises, or returns a message that can be written."""
    chance = random.Random(str(case))
    original = encode(case.ours(case.typical()), case.version)
    for _ in range(MUTATIONS if original else 0):
        mutated = bytearray(original)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(mutated))
            mutated[at : at + chance.randint(0, 2)] = chance.choice(
                [b"\xff", b"\x00", b"\x80", b"\x7f", b"\xff\xff\xff\xff", chance.randbytes(1)]
            )
        read, read_back = _read_and_read_back(case, bytes(mutated))
        assert read_back == read


@settings(max_examples=300, deadline=None)
@given(case=st.sampled_from(CASES), data=st.binary(max_size=200))
def test_any_bytes_are_malformed_or_a_message(case: Case, data: bytes) -> None:
    """Random bytes never raise an error other than MalformedMessage."""
    read, read_back = _read_and_read_back(case, data)
    assert read_back == read


def _read_and_read_back(case: Case, data: bytes) -> tuple[Message | None, Message | None]:
    """Return the message, and the message after writing and reading it again; None for malformed bytes."""
    try:
        message = decode(case.message_type, case.version, data)
    except MalformedMessage:
        return None, None
    return message, decode(case.message_type, case.version, encode(message, case.version))


NO_TOPICS_LEGACY = b"\x00\x01g" + bytes(4) + b"\x00\x00" + b"\xff\xff"
"""The start of an OffsetCommit v7, before its topics: group g, generation 0, member "", no instance id."""


@pytest.mark.parametrize(
    ("version", "data", "reason"),
    [
        (7, b"\xff\xff", "group_id is null, but is not nullable"),
        (7, b"\xff\xfe", "group_id has the negative length -2"),
        (7, b"\x00\x05g", "group_id has the length 5, but 1 bytes are left"),
        (7, b"\x00\x02\xc3\x28", "group_id is not UTF-8"),
        (7, b"\x00\x03\xed\xa0\x80", "group_id is not UTF-8"),
        (7, b"\x00\x01g\x00", "member_id is truncated"),
        (7, NO_TOPICS_LEGACY + b"\xff\xff\xff\xff", "topics is null, but is not nullable"),
        (7, NO_TOPICS_LEGACY + b"\x7f\xff\xff\xff", "topics has the length 2147483647, but 0 bytes are left"),
        (7, NO_TOPICS_LEGACY + b"\x80\x00\x00\x00", "topics has the negative length -2147483648"),
        (8, b"\x00", "group_id is null, but is not nullable"),
        (8, b"\xff\xff\xff\xff\x0fg", "group_id has the length 4294967294, but 1 bytes are left"),
        (8, b"\xff\xff\xff\xff\xff\xff", "group_id has a length of more than five bytes"),
        (8, b"", "group_id is truncated"),
        (
            8,
            b"\x81\x80\x02" + b"g" * 0x8000,
            "group_id has the length 32768, but no string is longer than 32767",
        ),
    ],
)
def test_an_error_names_the_field_and_the_reason(version: int, data: bytes, reason: str) -> None:
    """The error message is sufficient to find the fault in a captured frame."""
    with pytest.raises(MalformedMessage) as refused:
        decode(OffsetCommitRequest, version, data)
    assert str(refused.value) == f"OffsetCommitRequest v{version}: {reason}"


def test_an_error_names_a_nested_field_by_its_path() -> None:
    """An invalid name inside of an array is reported as topics.name."""
    with pytest.raises(MalformedMessage, match=r"MetadataRequest v1: topics\.name is null"):
        decode(MetadataRequest, 1, b"\x00\x00\x00\x01\xff\xff")


def test_an_array_of_integers_cannot_be_longer_than_the_data() -> None:
    """The count times the size of an entry is checked before the entries are read."""
    broker_and_topic_head = (
        b"\x00\x00\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x00" + b"\x00\x01t" + b"\x00\x00\x00\x01"
    )
    partition_head = b"\x00\x00" + bytes(4) + bytes(4)
    replicas = b"\x00\x00\x00\x03" + bytes(11)
    with pytest.raises(MalformedMessage, match=r"replica_nodes has the length 3, but 11 bytes are left"):
        decode(MetadataResponse, 0, broker_and_topic_head + partition_head + replicas)


def test_a_request_has_a_limited_number_of_elements() -> None:
    """An element of two bytes takes a hundred in memory: a frame of the largest size would take gigabytes."""
    count = MOST_ELEMENTS + 1
    with pytest.raises(MalformedMessage, match="topics has more elements than a request may have"):
        decode(MetadataRequest, 1, struct.pack(">i", count) + bytes(2 * count))


@pytest.mark.parametrize("count", [1_000, 1_001])
def test_a_request_that_is_handled_in_one_step_has_fewer_elements(count: int) -> None:
    """A member has a few protocols; each of them is compared with those of every other member."""
    request = JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name=str(n)) for n in range(count)])
    if count > 1_000:
        with pytest.raises(MalformedMessage, match=r"protocols has more elements .* which is 1000"):
            decode(JoinGroupRequest, 9, encode(request, 9))
    else:
        assert decode(JoinGroupRequest, 9, encode(request, 9)) == request


@pytest.mark.parametrize(
    ("message_type", "version", "weight"),
    [(DescribeGroupsRequest, 0, 5), (ListOffsetsRequest, 1, 10), (OffsetCommitRequest, 5, 10)],
)
def test_elements_that_cost_more_count_more(message_type: type[Any], version: int, weight: int) -> None:
    """Names, and topics with partitions, also without any."""
    start = {0: b"", 1: b"\xff\xff\xff\xff", 5: b"\0\1g" + bytes(4) + b"\0\0"}[version]
    size = {5: 2, 10: 6}[weight]
    most = MOST_ELEMENTS // weight
    for count in (most, most + 1):
        data = start + struct.pack(">i", count) + bytes(size * count)
        if count > most:
            with pytest.raises(MalformedMessage, match="has more elements"):
                decode(message_type, version, data)
        else:
            decode(message_type, version, data)


def test_the_elements_of_all_arrays_of_a_request_are_counted() -> None:
    """Two topics with many partitions each have too many together; a topic counts as ten."""

    def topic(count: int) -> bytes:
        return b"\0\1t" + struct.pack(">i", count) + bytes(4 * count)

    half = MOST_ELEMENTS // 2 - 10
    start = b"\0\1g" + struct.pack(">i", 2)
    whole = decode(OffsetFetchRequest, 2, start + topic(half) + topic(half))
    assert [len(one.partition_indexes) for one in whole.topics or ()] == [half, half]
    with pytest.raises(MalformedMessage, match=r"topics\.partition_indexes has more elements"):
        decode(OffsetFetchRequest, 2, start + topic(half) + topic(half + 1))


def test_a_null_is_read_only_where_the_version_allows_it() -> None:
    """A null list of topics means all topics from version 1 on, and is malformed in version 0."""
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(MalformedMessage, match="topics is null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")


def test_a_known_tagged_field_with_a_wrong_size_is_malformed() -> None:
    """The size and the content of a tagged field must agree; otherwise the next fields are misread."""
    case = Case(1, "response", 12)
    bad = bytearray(case.kio_bytes(case.typical()))
    three_fields_the_first_of_13_bytes = bytes([3, 0, 13])
    bad[bad.index(three_fields_the_first_of_13_bytes) + 2] += 1
    with pytest.raises(MalformedMessage, match=r"diverging_epoch has another size than its tag says"):
        decode(case.message_type, 12, bytes(bad))


def test_records_longer_than_the_frame_are_malformed() -> None:
    """A producer that sends fewer bytes of records than their length is refused."""
    message = encode(Case(0, "request", 9).ours(Case(0, "request", 9).typical()), 9)
    cut = message.replace(b"\x051234", b"\x7f1234", 1)
    assert cut != message
    with pytest.raises(MalformedMessage, match="records has the length 126"):
        decode(ProduceRequest, 9, cut)
