"""The records of share groups in Kafka's bytes."""

from __future__ import annotations

import pytest

from headgate.domain.ids import GroupId, MemberId, Millis, TopicId, TopicName
from headgate.inspect.explain import meaning_of
from headgate.log.batch import Record as LogRecord
from headgate.records import MalformedRecord, decode, encode
from headgate.records.share_group_model import (
    ShareGroupCurrentAssignment,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareGroupStatePartitions,
    ShareGroupTargetMember,
    ShareGroupTargetMetadata,
    ShareGroupTombstone,
    TopicPartitions,
)

G, M, T = GroupId("g1"), MemberId("m"), TopicId(bytes(range(16)))
ID = "000102030405060708090a0b0c0d0e0f"
GROUP_KEY, MEMBER_KEY = "00026731", "0002673100016d"
PARTITIONS = {T: (0, 5)}
ENCODED: list[tuple[ShareGroupRecord, str, str, str]] = [
    (
        ShareGroupMemberMetadata(
            group_id=G,
            member_id=M,
            rack_id=None,
            client_id="c",
            client_host="/h",
            subscribed_topic_names=(TopicName("t"),),
        ),
        "000a" + MEMBER_KEY,
        "0000000263032f6802027400",
        'share group "g1" has member m, subscribed to t',
    ),
    (
        ShareGroupMetadata(group_id=G, epoch=3, metadata_hash=-2),
        "000b" + GROUP_KEY,
        "000000000003fffffffffffffffe00",
        'share group "g1" is in epoch 3',
    ),
    (
        ShareGroupTargetMetadata(group_id=G, assignment_epoch=3, assignment_timestamp=Millis(7)),
        "000c" + GROUP_KEY,
        "0000000000030100080000000000000007",
        'share group "g1" has a target assignment for epoch 3',
    ),
    (
        ShareGroupTargetMetadata(group_id=G, assignment_epoch=3),
        "000c" + GROUP_KEY,
        "00000000000300",
        'share group "g1" has a target assignment for epoch 3',
    ),
    (
        ShareGroupTargetMember(group_id=G, member_id=M, partitions=PARTITIONS),
        "000d" + MEMBER_KEY,
        "000002" + ID + "0300000000000000050000",
        'share group "g1" has a target assignment of 2 partitions for m',
    ),
    (
        ShareGroupCurrentAssignment(
            group_id=G, member_id=M, member_epoch=3, previous_member_epoch=2, assigned=PARTITIONS
        ),
        "000e" + MEMBER_KEY,
        "000000000003000000020002" + ID + "0300000000000000050000",
        'share group "g1" has m in epoch 3 with 2 partitions',
    ),
    (
        ShareGroupStatePartitions(
            group_id=G,
            initializing={T: TopicPartitions(TopicName("t"), (1,))},
            initialized={T: TopicPartitions(TopicName("t"), (0,))},
            deleting={T: TopicName("t")},
        ),
        "000f" + GROUP_KEY,
        "000002" + ID + "027402000000010002" + ID + "027402000000000002" + ID + "02740000",
        'share group "g1" has 1 share-partition, 1 to initialize, states of 1 topic to delete',
    ),
]


@pytest.mark.parametrize(("record", "key", "value", "words"), ENCODED)
def test_records_have_kafkas_bytes(record: ShareGroupRecord, key: str, value: str, words: str) -> None:
    """By the schemas of key types 10 to 15; they are read as they were written, and explained in words."""
    encoded = encode(record)
    assert (encoded[0].hex(), (encoded[1] or b"").hex()) == (key, value)
    assert decode(*encoded) == record
    assert meaning_of(LogRecord(*encoded))["words"] == words
    for size in range(len(value) // 2):
        with pytest.raises(MalformedRecord):
            decode(encoded[0], (encoded[1] or b"")[:size])
    with pytest.raises(MalformedRecord):
        decode(encoded[0], b"\x00\x01" + (encoded[1] or b"")[2:])


@pytest.mark.parametrize("record_type", ShareGroupRecordType)
def test_tombstones_have_the_keys_of_their_records(record_type: ShareGroupRecordType) -> None:
    """With the member id where a group has several such records."""
    (key,) = {one[1] for one in ENCODED if int(one[1][:4], 16) == record_type}
    name = "m" if key.endswith("6d") else ""
    tombstone = ShareGroupTombstone(record_type, G, name)
    assert encode(tombstone) == (bytes.fromhex(key), None)
    assert decode(bytes.fromhex(key), None) == tombstone
    assert meaning_of(LogRecord(bytes.fromhex(key), None))["words"].startswith('tombstone: share group "g1"')
