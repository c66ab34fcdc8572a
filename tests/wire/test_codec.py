"""Properties of the codec other than agreement with kio."""

from __future__ import annotations

import pytest

from headgate.domain.errors import ErrorCode
from headgate.wire import codec
from headgate.wire.codec import decode, encode, encode_into, reader_for, register, writer_for
from headgate.wire.errors import UnwritableMessage
from headgate.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from headgate.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.wire.messages.join_group import JoinGroupResponse
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.wire.writing import LONGEST_ERROR_MESSAGE, compile_writer


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the registry after a test."""
    monkeypatch.setattr(codec, "_readers", {})
    monkeypatch.setattr(codec, "_writers", {})


def test_fields_the_version_does_not_have_are_dropped_and_read_as_their_defaults() -> None:
    """One class describes all versions: a field that the version does not have is lost in a round trip."""
    partition = OffsetCommitRequestPartition(committed_offset=5, committed_leader_epoch=3)
    request = OffsetCommitRequest(
        group_id="g",
        group_instance_id="instance",
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    arrived = decode(OffsetCommitRequest, 5, encode(request, 5))
    assert arrived.group_instance_id is None
    assert arrived.topics[0].partitions[0].committed_leader_epoch == -1
    assert arrived.topics[0].partitions[0].committed_offset == 5


def test_a_tagged_struct_is_none_unless_it_was_sent() -> None:
    """The current leader of a partition is present if the response has it, in versions with the field."""
    partition = PartitionData(partition_index=1, current_leader=LeaderIdAndEpoch(leader_id=2))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    newer = decode(FetchResponse, 12, encode(response, 12)).responses[0].partitions[0]
    older = decode(FetchResponse, 11, encode(response, 11)).responses[0].partitions[0]
    assert newer.current_leader == LeaderIdAndEpoch(leader_id=2, leader_epoch=-1)
    assert newer.snapshot_id is None
    assert older.current_leader is None


def test_a_tagged_field_with_its_default_is_not_sent() -> None:
    """Most fetches do not set the high watermark, which then takes no bytes."""
    unknown = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition()])])
    known = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(high_watermark=7)])])
    assert len(encode(known, 18)) == len(encode(unknown, 18)) + 10
    assert decode(FetchRequest, 18, encode(known, 18)) == known


def test_error_codes_are_written_by_name_and_read_as_integers() -> None:
    """Handlers write members of the enum. Readers accept codes that the enum does not have."""
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert decode(HeartbeatResponse, 4, encode(response, 4)).error_code == 27
    assert decode(HeartbeatResponse, 4, b"\x00\x00\x00\x00\x03\xe7\x00").error_code == 999


@pytest.mark.parametrize("version", [3, 13])
def test_records_may_be_written_from_a_view_and_are_read_as_bytes(version: int) -> None:
    """The log returns views. Records that were read do not keep the frame in memory."""
    records = memoryview(b"before-records-behind")[7:14]
    partition = PartitionProduceData(records=records)  # type: ignore[arg-type]
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[partition])])
    arrived = decode(ProduceRequest, version, encode(request, version))
    assert arrived.topic_data[0].partition_data[0].records == b"records"
    assert type(arrived.topic_data[0].partition_data[0].records) is bytes


def test_a_message_is_appended_to_the_buffer() -> None:
    """A frame is built in one buffer: first the header, then the message."""
    out = bytearray(b"header")
    encode_into(out, HeartbeatRequest(group_id="g"), 4)
    assert out.startswith(b"header\x02g")


@pytest.mark.parametrize("version", [2, 7])
def test_an_error_message_is_truncated(version: int) -> None:
    """An error message can quote a request, and a string has at most 32,767 bytes."""
    long = CreatableTopicResult(name="t", error_code=17, error_message="é" * 40_000)
    short = CreatableTopicResult(name="u", error_code=17, error_message="é" * LONGEST_ERROR_MESSAGE)
    answer = encode(CreateTopicsResponse(topics=[long, short]), version)
    first, second = decode(CreateTopicsResponse, version, answer).topics
    assert first.error_message == "é" * (LONGEST_ERROR_MESSAGE - 3) + "..."
    assert second.error_message == short.error_message


def test_an_unwritable_message_names_the_field_and_leaves_the_buffer_unchanged() -> None:
    """An invalid null in the middle of a message damages neither the frame nor the next message."""
    response = JoinGroupResponse(leader="leader", protocol_name=None)
    out = bytearray(b"header")
    with pytest.raises(UnwritableMessage, match="JoinGroupResponse v6: protocol_name cannot be written"):
        encode_into(out, response, 6)
    assert out == b"header"
    assert decode(JoinGroupResponse, 7, encode(response, 7)).protocol_name is None


@pytest.mark.parametrize(
    "request_",
    [
        HeartbeatRequest(generation_id=1 << 31),
        HeartbeatRequest(group_id="x" * 40_000),
        HeartbeatRequest(group_id="\ud800"),
        HeartbeatRequest(group_id=b"bytes"),  # type: ignore[arg-type]
    ],
    ids=["too big a number", "too long a text", "half a surrogate pair", "no text"],
)
def test_a_value_that_does_not_fit_is_unwritable(request_: HeartbeatRequest) -> None:
    """The sender gets an error; wrong bytes are never written."""
    with pytest.raises(UnwritableMessage, match="HeartbeatRequest v3"):
        encode(request_, 3)


@pytest.mark.parametrize("version", [1, 11])
def test_an_unknown_version_is_an_error_of_the_caller(version: int) -> None:
    """Versions are checked against the advertised ones before a message is read."""
    with pytest.raises(ValueError, match=f"the versions 2 to 10, not {version}"):
        decode(OffsetCommitRequest, version, b"")
    with pytest.raises(ValueError, match=f"the versions 2 to 10, not {version}"):
        encode(OffsetCommitRequest(), version)


@pytest.mark.usefixtures("own_registry")
def test_a_registered_reader_and_writer_replace_the_compiled_ones() -> None:
    """All functions use a hand-written codec for its version, and for no other version."""

    def read(data: bytes, at: int) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=f"by hand from {at}")

    def write(out: bytearray, message: HeartbeatRequest) -> None:
        out += b"by hand"

    compiled = encode(HeartbeatRequest(group_id="g"), 4)
    register(HeartbeatRequest, 4, reader=read, writer=write)
    assert decode(HeartbeatRequest, 4, b"", 3).group_id == "by hand from 3"
    assert encode(HeartbeatRequest(), 4) == b"by hand"
    assert reader_for(HeartbeatRequest, 4) is read
    assert writer_for(HeartbeatRequest, 4) is write
    assert encode(HeartbeatRequest(), 3) != b"by hand"
    register(HeartbeatRequest, 4, writer=compile_writer(HeartbeatRequest, 4))
    assert encode(HeartbeatRequest(group_id="g"), 4) == compiled
    assert reader_for(HeartbeatRequest, 4) is read
