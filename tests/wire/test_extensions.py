"""Headgate's own messages: declared like Kafka's, in a separate table, with keys that Kafka does not use."""

from __future__ import annotations

import importlib

import pytest
from tests.wire.tables import facts_of_messages, facts_of_table

from headgate.wire.codec import decode, encode
from headgate.wire.errors import MalformedMessage
from headgate.wire.extensions import ALL_APIS, EXTENSIONS
from headgate.wire.extensions.describe_offset_history import (
    DescribeOffsetHistoryRequest,
    DescribeOffsetHistoryRequestTopic,
    DescribeOffsetHistoryResponse,
    DescribeOffsetHistoryResponseEntry,
    DescribeOffsetHistoryResponsePartition,
    DescribeOffsetHistoryResponseTopic,
    EncodedOffsetHistory,
)
from headgate.wire.extensions.list_paused_partitions import (
    ListPausedPartitionsRequest,
    ListPausedPartitionsResponse,
    ListPausedPartitionsResponsePartition,
    ListPausedPartitionsResponseTopic,
)
from headgate.wire.extensions.pause_partitions import PausePartitionsRequest, PausePartitionsResponse
from headgate.wire.extensions.paused_topics import (
    ChangedPartition,
    ChangedTopic,
    PartitionToChange,
    TopicToChange,
)
from headgate.wire.extensions.resume_partitions import ResumePartitionsRequest, ResumePartitionsResponse
from headgate.wire.message import Message
from headgate.wire.messages import APIS

REQUEST = DescribeOffsetHistoryRequest(
    group_id="billing",
    topics=[
        DescribeOffsetHistoryRequestTopic(name="flights", partition_indexes=[0, 7]),
        DescribeOffsetHistoryRequestTopic(name="gates", partition_indexes=None),
    ],
    mode=2,
    until_ms=5,
)
RESPONSE = DescribeOffsetHistoryResponse(
    known_since_ms=1_750_000_000_000,
    topics=[
        DescribeOffsetHistoryResponseTopic(
            name="flights",
            topic_id=bytes(range(16)),
            created_ms=1_750_000_000_001,
            partitions=[
                DescribeOffsetHistoryResponsePartition(
                    partition_index=7,
                    earlier=2,
                    former_entries=1,
                    entries=[
                        DescribeOffsetHistoryResponseEntry(
                            committed_offset=1 << 40, metadata="é", log_offset=9
                        ),
                        DescribeOffsetHistoryResponseEntry(kind=1, time_ms=3, written_ms=4),
                    ],
                )
            ],
        )
    ],
)


@pytest.mark.parametrize("api_key", EXTENSIONS)
def test_the_table_agrees_with_the_classes(api_key: int) -> None:
    """API key, versions and flexibility agree. Request and response have the same key, unknown to Kafka."""
    info = EXTENSIONS[api_key]
    module = importlib.import_module(f"headgate.wire.extensions.{info.module}")
    assert facts_of_messages(module, info.name) == [facts_of_table(api_key, info)] * 2
    assert api_key not in APIS
    assert min(EXTENSIONS) > 20_000
    assert ALL_APIS[api_key] == info


@pytest.mark.parametrize("message", [REQUEST, RESPONSE, DescribeOffsetHistoryRequest()], ids=str)
def test_a_message_survives_a_round_trip(message: Message) -> None:
    """Also with nulls and empty arrays. A truncated message is malformed."""
    data = encode(message, 0)
    assert decode(type(message), 0, data) == message
    for size in range(len(data)):
        with pytest.raises(MalformedMessage):
            decode(type(message), 0, data[:size])


def test_the_bytes_of_a_request() -> None:
    """The bytes that a client in another language writes, with compact lengths and tagged fields."""
    request = DescribeOffsetHistoryRequest(
        group_id="g", topics=[], mode=1, until_ms=258, limit=3, max_wait_ms=4
    )
    expected = "0267 01 01 ffffffffffffffff 0000000000000102 00000003 00000004 00"
    assert encode(request, 0) == bytes.fromhex(expected)


PAUSE_TOPICS = [TopicToChange(name="t", partitions=[PartitionToChange(partition_index=1)])]
PAUSED = ChangedTopic(
    name="t", topic_id=bytes(range(16)), partitions=[ChangedPartition(partition_index=1, error_code=3)]
)
PAUSED_WITH_MESSAGE = ChangedTopic(
    name="t", topic_id=bytes(range(16)), partitions=[ChangedPartition(partition_index=1, error_message="no")]
)
ID = bytes(range(16)).hex()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            PausePartitionsRequest(group_id="g", topics=PAUSE_TOPICS, reason="r"),
            "0001 67 00000001 0001 74 00000001 00000001",
        ),
        (
            ResumePartitionsRequest(group_id="g", topics=PAUSE_TOPICS),
            "0001 67 00000001 0001 74 00000001 00000001",
        ),
        (
            PausePartitionsResponse(error_code=69, error_message="x", throttle_time_ms=5, responses=[PAUSED]),
            f"0045 0001 78 00000005 00000001 0001 74 {ID} 00000001 00000001 0003 ffff",
        ),
        (
            ResumePartitionsResponse(responses=[PAUSED_WITH_MESSAGE]),
            f"0000 ffff 00000000 00000001 0001 74 {ID} 00000001 00000001 0000 0002 6e6f",
        ),
        (ListPausedPartitionsRequest(group_id="g"), "0001 67"),
        (
            ListPausedPartitionsResponse(
                error_code=69,
                topics=[
                    ListPausedPartitionsResponseTopic(
                        name="t",
                        topic_id=bytes(range(16)),
                        partitions=[ListPausedPartitionsResponsePartition(partition_index=1, offset=7)],
                    )
                ],
            ),
            "00000001 0001 74 00000001 00000001",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_version_0_of_the_pause_messages_is_the_documents(message: Message, expected: str) -> None:
    """Not flexible; the list has partitions, and neither throttle time nor offsets nor an error (R2.1)."""
    assert encode(message, 0) == bytes.fromhex(expected)
    in_one = encode(message, 1)
    assert decode(type(message), 1, in_one) == message


def test_a_response_can_be_encoded_already() -> None:
    """The bytes of an encoded response are written unchanged."""
    assert encode(EncodedOffsetHistory(body=encode(RESPONSE, 0)), 0) == encode(RESPONSE, 0)
