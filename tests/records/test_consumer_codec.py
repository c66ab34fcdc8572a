"""The records of consumer groups: bytes written by Apache Kafka 4.3.1, round trips, truncation."""

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
    """Return a key composed by hand: a type of two bytes, then strings after their two-byte lengths."""
    packed = [struct.pack(">h", len(text.encode())) + text.encode() for text in texts]
    return struct.pack(">h", key_type) + b"".join(packed)


def member(**changes: Any) -> ConsumerGroupMemberMetadata:
    """Return a member with minimal fields, except for the changes."""
    values: dict[str, Any] = {"group_id": G, "member_id": M, "client_id": "c", "client_host": "/h"}
    return ConsumerGroupMemberMetadata(**(values | changes))


def current(**changes: Any) -> ConsumerGroupCurrentAssignment:
    """Return a member's current assignment with default fields, except for the changes."""
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


# Kafka's own classes wrote these values.
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
def test_kafkas_bytes_are_read_and_written(record_key: bytes, value: str, record: ConsumerRecord) -> None:
    """Every record type and every optional field is decoded from Kafka's bytes and encoded to them."""
    assert decode(record_key, bytes.fromhex(value)) == record
    assert encode(record) == (record_key, bytes.fromhex(value))


def test_missing_assignment_epochs_are_the_members_epoch() -> None:
    """Brokers before Kafka 4.3 wrote no assignment epochs (R1.6)."""
    epochs = "010009030000000300000005"
    without = KAFKA_WROTE[-2][1].replace(epochs, "00")
    read = decode(KAFKA_WROTE[-2][0], bytes.fromhex(without))
    assert read == current(assigned={T: {0: 5, 2: 5}})


def test_epochs_that_differ_in_number_from_the_partitions_are_ignored() -> None:
    """All partitions get the member's epoch, as if the epochs were missing (R1.6)."""
    one_short = KAFKA_WROTE[-2][1].replace("010009030000000300000005", "0100050200000003")
    read = decode(KAFKA_WROTE[-2][0], bytes.fromhex(one_short))
    assert read == current(assigned={T: {0: 5, 2: 5}})


def test_epochs_of_a_static_member_that_left_temporarily_are_zero() -> None:
    """Its member epoch is -2, and an assignment epoch is never negative. Kafka wrote this value (R1.8)."""
    value = "0000fffffffe000000040002000102030405060708090a0b0c0d0e0f030000000000000002000100"
    read = decode(key(8, "g", "m"), bytes.fromhex(value))
    assert read == current(
        member_epoch=-2, state=MemberState.STABLE, assigned={T: {0: 0, 2: 0}}, pending_revocation={}
    )


def test_a_state_of_another_version_is_unknown() -> None:
    """Any number that is not one of Kafka's states."""
    value = bytearray.fromhex(KAFKA_WROTE[-2][1])
    value[10] = 9
    assert decode(KAFKA_WROTE[-2][0], bytes(value)) == current(state=MemberState.UNKNOWN)


def test_the_tagged_fields_of_a_group_survive_a_round_trip() -> None:
    """The time at which it became empty (R0.4) and the epoch of its last removal. Kafka skips both."""
    group = ConsumerGroupMetadata(
        group_id=G, epoch=7, metadata_hash=1, empty_since=Millis(1000), last_removal_epoch=5
    )
    record_key, value = encode(group)
    assert decode(record_key, value) == group
    assert value is not None
    assert value[:6] == bytes.fromhex("000000000007")


@pytest.mark.parametrize("record_type", ConsumerRecordType)
def test_a_tombstone_of_each_type_is_read_and_written(record_type: ConsumerRecordType) -> None:
    """A key without a value. Record types of which a group has several have a name in the key."""
    names = () if record_type in (3, 4, 6) else ("m",)
    tombstone = ConsumerGroupTombstone(record_type, G, *names)
    assert encode(tombstone) == (key(record_type, "g", *names), None)
    assert decode(key(record_type, "g", *names), None) == tombstone


@pytest.mark.parametrize(("record_key", "value", "record"), KAFKA_WROTE)
def test_a_value_that_ends_too_early_is_malformed(
    record_key: bytes, value: str, record: ConsumerRecord
) -> None:
    """Every prefix of every value is refused, and so is a value with an extra byte."""
    whole = bytes.fromhex(value)
    for size in range(len(whole)):
        with pytest.raises(MalformedRecord):
            decode(record_key, whole[:size])
    with pytest.raises(MalformedRecord):
        decode(record_key, whole + b"\x00")


@pytest.mark.parametrize("record_type", ConsumerRecordType)
def test_a_value_of_a_later_version_is_refused(record_type: ConsumerRecordType) -> None:
    """The format of later versions is unknown."""
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
def test_every_assignment_survives_a_round_trip(
    assigned: Any, pending: Any, epoch: int, state: MemberState, name: str
) -> None:
    """Partitions, epochs and state are decoded unchanged."""
    record = current(
        member_id=MemberId(name),
        member_epoch=epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
    )
    assert decode(*encode(record)) == record


@given(partitions=_targets)
def test_every_target_survives_a_round_trip(partitions: Any) -> None:
    """Also with so many partitions that their count takes two bytes."""
    record = ConsumerGroupTargetMember(group_id=G, member_id=M, partitions=partitions)
    assert decode(*encode(record)) == record


@given(
    names=st.lists(_texts.map(TopicName), max_size=5),
    regex=st.none() | _texts,
    instance_id=st.none() | _texts.map(InstanceId),
    protocols=st.none() | st.lists(st.tuples(_texts, st.binary(max_size=300)), max_size=3),
)
def test_every_member_survives_a_round_trip(names: Any, regex: Any, instance_id: Any, protocols: Any) -> None:
    """Null and empty values are distinguished."""
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
