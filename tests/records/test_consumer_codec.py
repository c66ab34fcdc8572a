"""The records of consumer groups: bytes that Apache Kafka 4.3.1 wrote, round trips, truncation."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicId, TopicName
from headgate.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerGroupTombstone,
    ConsumerRecord,
    ConsumerRecordType,
    MalformedRecord,
    MemberState,
    decode,
    encode,
)
from headgate.records.consumer_model import PartitionRacks, SubscribedTopic

T = TopicId(bytes(range(16)))
G = GroupId("g")
M = MemberId("m")


def key(key_type: int, *texts: str) -> bytes:
    """A key by hand: two bytes of type, then strings with two bytes of length."""
    packed = [struct.pack(">h", len(text.encode())) + text.encode() for text in texts]
    return struct.pack(">h", key_type) + b"".join(packed)


def member(**changes: Any) -> ConsumerGroupMemberMetadata:
    """A member that says as little as it can, but for the changes."""
    values: dict[str, Any] = {"group_id": G, "member_id": M, "client_id": "c", "client_host": "/h"}
    return ConsumerGroupMemberMetadata(**(values | changes))


def current(**changes: Any) -> ConsumerGroupCurrentAssignment:
    """A member's assignment, but for the changes."""
    values: dict[str, Any] = {
        "group_id": G,
        "member_id": M,
        "member_epoch": 5,
        "previous_member_epoch": 4,
        "state": MemberState.UNREVOKED_PARTITIONS,
        "assigned": {T: {0: 3, 2: 5}},
        "pending_revocation": {T: {1: 2}},
    }
    return ConsumerGroupCurrentAssignment(**(values | changes))


# The values were written by Kafka's own classes.
KAFKA_WROTE: list[tuple[bytes, str, ConsumerRecord]] = [
    (key(3, "g"), "00000000000700", ConsumerGroupMetadata(group_id=G, epoch=7)),
    (
        key(3, "g"),
        "000000000007010008fffffffffffffffb",
        ConsumerGroupMetadata(group_id=G, epoch=7, metadata_hash=-5),
    ),
    (
        key(4, "g"),
        "000002000102030405060708090a0b0c0d0e0f02740000000302000000010302610262000000",
        ConsumerGroupPartitionMetadata(
            group_id=G,
            topics=(
                SubscribedTopic(
                    topic_id=T,
                    name=TopicName("t"),
                    partition_count=3,
                    racks=(PartitionRacks(partition=1, racks=("a", "b")),),
                ),
            ),
        ),
    ),
    (
        key(5, "g", "m"),
        "0000026902720263032f68030274027504782e2a0000012c0672616e676500",
        member(
            instance_id=InstanceId("i"),
            rack_id="r",
            subscribed_topic_names=(TopicName("t"), TopicName("u")),
            subscribed_topic_regex="x.*",
            rebalance_timeout_ms=300,
            server_assignor="range",
        ),
    ),
    (key(5, "g", "m"), "000000000263032f680100ffffffff0000", member()),
    (
        key(5, "g", "m"),
        "000000000263032f6802027400ffffffff00010011010000000a020672616e67650301020000",
        member(
            subscribed_topic_names=(TopicName("t"),),
            classic=ClassicMemberMetadata(session_timeout_ms=10, protocols=(("range", b"\x01\x02"),)),
        ),
    ),
    (
        key(6, "g"),
        "0000000000040100080000000000000063",
        ConsumerGroupTargetMetadata(group_id=G, assignment_epoch=4, assignment_timestamp=Millis(99)),
    ),
    (key(6, "g"), "00000000000400", ConsumerGroupTargetMetadata(group_id=G, assignment_epoch=4)),
    (
        key(7, "g", "m"),
        "000002000102030405060708090a0b0c0d0e0f0300000000000000020000",
        ConsumerGroupTargetMember(group_id=G, member_id=M, partitions={T: (0, 2)}),
    ),
    (
        key(8, "g", "m"),
        "000000000005000000040102000102030405060708090a0b0c0d0e0f030000000000000002010009030000000300000005"
        "02000102030405060708090a0b0c0d0e0f0200000001010005020000000200",
        current(),
    ),
    (
        key(16, "g", "t|u"),
        "00000202740000000000000008000000000000000900",
        ConsumerGroupRegularExpression(
            group_id=G, regular_expression="t|u", topics=(TopicName("t"),), version=8, timestamp=Millis(9)
        ),
    ),
]


@pytest.mark.parametrize(("record_key", "value", "record"), KAFKA_WROTE)
def test_kafkas_bytes_are_read_and_written_alike(
    record_key: bytes, value: str, record: ConsumerRecord
) -> None:
    """Key and value both ways, for every record type and every field that may be left out."""
    assert decode(record_key, bytes.fromhex(value)) == record
    assert encode(record) == (record_key, bytes.fromhex(value))


def test_without_assignment_epochs_all_are_the_members_epoch() -> None:
    """Brokers before Kafka 4.3 wrote none (R1.6)."""
    epochs = "010009030000000300000005"
    without = KAFKA_WROTE[-2][1].replace(epochs, "00")
    read = decode(KAFKA_WROTE[-2][0], bytes.fromhex(without))
    assert read == current(assigned={T: {0: 5, 2: 5}})


def test_epochs_that_are_not_as_many_as_the_partitions_are_not_believed() -> None:
    """All partitions get the member's epoch then, as if there were none (R1.6)."""
    one_short = KAFKA_WROTE[-2][1].replace("010009030000000300000005", "0100050200000003")
    read = decode(KAFKA_WROTE[-2][0], bytes.fromhex(one_short))
    assert read == current(assigned={T: {0: 5, 2: 5}})


def test_epochs_of_a_static_member_that_is_away_are_zero() -> None:
    """Its epoch is -2, at which nothing is ever assigned; Kafka wrote this value (R1.8)."""
    value = "0000fffffffe000000040002000102030405060708090a0b0c0d0e0f030000000000000002000100"
    read = decode(key(8, "g", "m"), bytes.fromhex(value))
    assert read == current(
        member_epoch=-2, state=MemberState.STABLE, assigned={T: {0: 0, 2: 0}}, pending_revocation={}
    )


def test_a_state_of_another_version_is_unknown() -> None:
    """Any number that is none of Kafka's states."""
    value = bytearray.fromhex(KAFKA_WROTE[-2][1])
    value[10] = 9
    assert decode(KAFKA_WROTE[-2][0], bytes(value)) == current(state=MemberState.UNKNOWN)


def test_what_kafka_does_not_know_of_a_group_survives_its_bytes() -> None:
    """When it became empty (R0.4) and lost a member last stands in tagged fields, which Kafka skips."""
    group = ConsumerGroupMetadata(
        group_id=G, epoch=7, metadata_hash=1, empty_since=Millis(1000), last_removal_epoch=5
    )
    record_key, value = encode(group)
    assert decode(record_key, value) == group
    assert value is not None
    assert value[:6] == bytes.fromhex("000000000007")


@pytest.mark.parametrize("record_type", ConsumerRecordType)
def test_a_tombstone_of_each_type_is_read_and_written(record_type: ConsumerRecordType) -> None:
    """A key without a value; the key of what a group has several of has a name."""
    names = () if record_type in (3, 4, 6) else ("m",)
    tombstone = ConsumerGroupTombstone(record_type, G, *names)
    assert encode(tombstone) == (key(record_type, "g", *names), None)
    assert decode(key(record_type, "g", *names), None) == tombstone


@pytest.mark.parametrize(("record_key", "value", "record"), KAFKA_WROTE)
def test_a_value_that_ends_too_early_is_malformed(
    record_key: bytes, value: str, record: ConsumerRecord
) -> None:
    """Every prefix of every value is refused, and so is a byte too many."""
    whole = bytes.fromhex(value)
    for size in range(len(whole)):
        with pytest.raises(MalformedRecord):
            decode(record_key, whole[:size])
    with pytest.raises(MalformedRecord):
        decode(record_key, whole + b"\x00")


@pytest.mark.parametrize("record_type", ConsumerRecordType)
def test_a_value_of_a_later_version_is_refused(record_type: ConsumerRecordType) -> None:
    """What it would mean is not known."""
    names = () if record_type in (3, 4, 6) else ("m",)
    with pytest.raises(MalformedRecord, match="version 1"):
        decode(key(record_type, "g", *names), b"\x00\x01" + bytes(20))


_texts = st.text(max_size=20)
_topic_ids = st.binary(min_size=16, max_size=16).map(TopicId)
_int32s = st.integers(0, 2**31 - 1)
_owned = st.dictionaries(_topic_ids, st.dictionaries(_int32s, _int32s, max_size=4), max_size=3)
_targets = st.dictionaries(
    _topic_ids, st.sets(_int32s, max_size=200).map(lambda ones: tuple(sorted(ones))), max_size=3
)


@given(assigned=_owned, pending=_owned, epoch=_int32s, state=st.sampled_from(MemberState), name=_texts)
def test_every_assignment_survives_its_bytes(
    assigned: Any, pending: Any, epoch: int, state: MemberState, name: str
) -> None:
    """Partitions, epochs and state come back as they were."""
    record = current(
        member_id=MemberId(name),
        member_epoch=epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
    )
    assert decode(*encode(record)) == record


@given(partitions=_targets)
def test_every_target_survives_its_bytes(partitions: Any) -> None:
    """Also with more partitions than one byte of length can say."""
    record = ConsumerGroupTargetMember(group_id=G, member_id=M, partitions=partitions)
    assert decode(*encode(record)) == record


@given(
    names=st.lists(_texts.map(TopicName), max_size=5),
    regex=st.none() | _texts,
    instance_id=st.none() | _texts.map(InstanceId),
    protocols=st.none() | st.lists(st.tuples(_texts, st.binary(max_size=300)), max_size=3),
)
def test_every_member_survives_its_bytes(names: Any, regex: Any, instance_id: Any, protocols: Any) -> None:
    """Null and empty stay apart."""
    classic = None
    if protocols is not None:
        classic = ClassicMemberMetadata(session_timeout_ms=10, protocols=tuple(protocols))
    record = member(
        subscribed_topic_names=tuple(names),
        subscribed_topic_regex=regex,
        instance_id=instance_id,
        classic=classic,
    )
    assert decode(*encode(record)) == record
