"""The binary format of the records: bytes composed by hand from Kafka's schemas, round trips, truncation."""

from __future__ import annotations

import struct
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicId, TopicName
from headgate.records import (
    GroupMember,
    GroupMetadata,
    GroupTombstone,
    MalformedRecord,
    OffsetCommit,
    OffsetTombstone,
    Record,
    UnknownRecord,
    decode,
    encode,
)

TOPIC_ID = TopicId(bytes(range(16)))


def short(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def text(value: str) -> bytes:
    return short(len(value.encode())) + value.encode()


def compact(value: bytes) -> bytes:
    return bytes([len(value) + 1]) + value


OFFSET_KEY = short(1) + text("g") + text("t") + int32(7)
LEGACY_OFFSET_KEY = short(0) + text("g") + text("t") + int32(7)
GROUP_KEY = short(2) + text("g")


def offset(**changes: object) -> OffsetCommit:
    values: dict[str, object] = {
        "group_id": "g",
        "topic": "t",
        "partition": 7,
        "offset": 42,
        "leader_epoch": -1,
        "metadata": "note",
        "commit_timestamp": 1000,
    }
    return OffsetCommit(**(values | changes))  # type: ignore[arg-type]


OFFSET_VALUES = [
    (short(0) + int64(42) + text("note") + int64(1000), offset()),
    (short(1) + int64(42) + text("note") + int64(1000) + int64(2000), offset(expire_timestamp=2000)),
    (short(2) + int64(42) + text("note") + int64(1000), offset()),
    (short(3) + int64(42) + int32(5) + text("note") + int64(1000), offset(leader_epoch=5)),
    (short(4) + int64(42) + int32(5) + compact(b"note") + int64(1000) + b"\x00", offset(leader_epoch=5)),
    (
        short(4) + int64(42) + int32(5) + compact(b"note") + int64(1000) + b"\x01\x00\x10" + TOPIC_ID,
        offset(leader_epoch=5, topic_id=TOPIC_ID),
    ),
    (
        short(4) + int64(42) + int32(5) + compact(b"note") + int64(1000) + b"\x01\x63\x02ab",
        offset(leader_epoch=5),
    ),
]


def member(**changes: object) -> GroupMember:
    values: dict[str, object] = {
        "member_id": "m",
        "instance_id": "i",
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout_ms": 300,
        "session_timeout_ms": 100,
        "subscription": b"sub",
        "assignment": b"as",
    }
    return GroupMember(**(values | changes))  # type: ignore[arg-type]


def group(state_timestamp: int, one: GroupMember) -> GroupMetadata:
    return GroupMetadata(
        group_id=GroupId("g"),
        protocol_type="consumer",
        generation=3,
        protocol_name="range",
        leader=MemberId("m"),
        state_timestamp=Millis(state_timestamp),
        members=(one,),
    )


def group_value(version: int) -> bytes:
    """Return the value of a group with one member, field by field, in a version that is not flexible."""
    value = short(version) + text("consumer") + int32(3) + text("range") + text("m")
    if version >= 2:
        value += int64(77)
    value += int32(1) + text("m")
    if version >= 3:
        value += text("i")
    value += text("c") + text("/h")
    if version >= 1:
        value += int32(300)
    return value + int32(100) + int32(3) + b"sub" + int32(2) + b"as"


FLEXIBLE_GROUP_VALUE = (
    short(4) + compact(b"consumer") + int32(3) + compact(b"range") + compact(b"m") + int64(77)
    + b"\x02" + compact(b"m") + compact(b"i") + compact(b"c") + compact(b"/h") + int32(300) + int32(100)
    + compact(b"sub") + compact(b"as") + b"\x00" + b"\x00"
)  # fmt: skip

GROUP_VALUES = [
    (group_value(0), group(-1, member(instance_id=None, rebalance_timeout_ms=100))),
    (group_value(1), group(-1, member(instance_id=None))),
    (group_value(2), group(77, member(instance_id=None))),
    (group_value(3), group(77, member())),
    (FLEXIBLE_GROUP_VALUE, group(77, member())),
]


@pytest.mark.parametrize(("value", "expected"), OFFSET_VALUES)
@pytest.mark.parametrize("key", [OFFSET_KEY, LEGACY_OFFSET_KEY])
def test_an_offset_is_read_in_every_version_of_kafka(
    key: bytes, value: bytes, expected: OffsetCommit
) -> None:
    """Values of versions 0 to 4, with known and unknown tagged fields, with both key types (R0.2)."""
    assert decode(key, value) == expected


@pytest.mark.parametrize(("value", "expected"), GROUP_VALUES)
def test_a_group_is_read_in_every_version_of_kafka(value: bytes, expected: GroupMetadata) -> None:
    """Values of versions 0 to 4. A field that a version does not have gets Kafka's default (R0.3)."""
    assert decode(GROUP_KEY, value) == expected


def test_an_offset_is_written_as_version_3() -> None:
    """Tools that read the topic support version 3."""
    value = short(3) + int64(42) + int32(5) + text("note") + int64(1000)
    assert encode(offset(leader_epoch=5)) == (OFFSET_KEY, value)


def test_an_offset_without_metadata_is_written_as_version_3() -> None:
    """This frequent case has code of its own; the bytes are the same."""
    value = short(3) + int64(42) + int32(-1) + text("") + int64(1000)
    assert encode(offset(metadata="")) == (OFFSET_KEY, value)


def test_an_offset_with_an_expiry_is_written_as_version_1() -> None:
    """Only version 1 has a field for the expiry (R0.2)."""
    value = short(1) + int64(42) + text("note") + int64(1000) + int64(2000)
    assert encode(offset(expire_timestamp=2000)) == (OFFSET_KEY, value)


def test_a_group_is_written_as_version_3() -> None:
    """Kafka writes version 3 as well (R0.3)."""
    assert encode(group(77, member())) == (GROUP_KEY, group_value(3))


def test_tombstones_have_a_key_and_no_value() -> None:
    """A tombstone has the key of the record that it removes."""
    gone_offset = OffsetTombstone(GroupId("g"), TopicName("t"), 7)
    gone_group = GroupTombstone(GroupId("g"))
    assert encode(gone_offset) == (OFFSET_KEY, None)
    assert encode(gone_group) == (GROUP_KEY, None)
    assert decode(OFFSET_KEY, None) == gone_offset
    assert decode(LEGACY_OFFSET_KEY, None) == gone_offset
    assert decode(GROUP_KEY, None) == gone_group


@pytest.mark.parametrize("value", [b"anything", b"", None])
def test_a_record_of_an_unknown_type_is_kept_unchanged(value: bytes | None) -> None:
    """A record that a newer version wrote is kept byte for byte."""
    key = short(2000) + b"whatever follows"
    record = decode(key, value)
    assert record == UnknownRecord(2000, key, value)
    assert encode(record) == (key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [(OFFSET_KEY, value) for value, _ in OFFSET_VALUES] + [(GROUP_KEY, value) for value, _ in GROUP_VALUES],
)
def test_every_truncation_is_malformed(key: bytes, value: bytes) -> None:
    """A key or a value that ends early is refused, whatever its length, and so is one with extra bytes."""
    for size in range(len(value)):
        with pytest.raises(MalformedRecord):
            decode(key, value[:size])
    for size in range(len(key)):
        with pytest.raises(MalformedRecord):
            decode(key[:size], value)
    with pytest.raises(MalformedRecord):
        decode(key, value + b"\x00")
    with pytest.raises(MalformedRecord):
        decode(key + b"\x00", value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (OFFSET_KEY, short(5) + int64(42) + text("") + int64(0)),
        (OFFSET_KEY, short(-1) + int64(42) + text("") + int64(0)),
        (OFFSET_KEY, short(3) + int64(42) + int32(5) + short(-1) + int64(1000)),
        (OFFSET_KEY, short(3) + int64(42) + int32(5) + short(2) + b"\xff\xff" + int64(1000)),
        (OFFSET_KEY, short(4) + int64(42) + int32(5) + compact(b"") + int64(1000) + b"\x01\x00\x02ab"),
        (GROUP_KEY, short(5) + text("consumer")),
        (GROUP_KEY, short(0) + text("c") + int32(3) + text("r") + text("m") + int32(2**31 - 1)),
        (GROUP_KEY, short(4) + b"\xff\xff\xff\xff\xff\xff"),
    ],
)
def test_invalid_fields_are_malformed(key: bytes | None, value: bytes) -> None:
    """Unknown versions, nulls in fields that are not nullable, invalid UTF-8, counts beyond the end."""
    with pytest.raises(MalformedRecord):
        decode(key, value)


int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=40)
encodable = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

members = st.builds(
    GroupMember,
    member_id=encodable.map(MemberId),
    instance_id=st.none() | encodable.map(InstanceId),
    client_id=encodable,
    client_host=encodable,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),
    session_timeout_ms=int32s,
    subscription=blobs,
    assignment=blobs,
)
_some_commit = partial(
    st.builds,
    OffsetCommit,
    group_id=encodable.map(GroupId),
    topic=encodable.map(TopicName),
    partition=int32s,
    offset=int64s,
    metadata=encodable,
    commit_timestamp=int64s.map(Millis),
)
commits = _some_commit(leader_epoch=int32s)
expiring_commits = _some_commit(
    leader_epoch=st.just(-1), expire_timestamp=st.integers(0, 2**63 - 1).map(Millis)
)
groups = st.builds(
    GroupMetadata,
    group_id=encodable.map(GroupId),
    protocol_type=encodable,
    generation=int32s,
    protocol_name=st.none() | encodable,
    leader=st.none() | encodable.map(MemberId),
    state_timestamp=int64s.map(Millis),
    members=st.lists(members, max_size=4).map(tuple),
)
records = st.one_of(
    commits,
    expiring_commits,
    groups,
    st.builds(OffsetTombstone, encodable.map(GroupId), encodable.map(TopicName), int32s),
    st.builds(GroupTombstone, encodable.map(GroupId)),
)


@given(records)
def test_every_record_survives_a_round_trip(record: Record) -> None:
    """Decoding an encoded record returns an equal record."""
    assert decode(*encode(record)) == record


@given(st.binary(max_size=60), st.none() | st.binary(max_size=80))
def test_garbage_is_a_record_or_malformed(key: bytes, value: bytes | None) -> None:
    """No error other than MalformedRecord is raised."""
    try:
        record = decode(key, value)
    except MalformedRecord:
        return
    assert type(decode(*encode(record))) is type(record)
