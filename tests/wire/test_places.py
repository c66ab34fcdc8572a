"""Places of numbers: what is written there is what a reader finds in these fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.wire.codec import decode, encode
from headgate.wire.messages.list_offsets import ListOffsetsRequest
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headgate.wire.places import places_of

int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
texts = st.sampled_from([None, "", "note", "ä" * 100])
rows = st.lists(st.lists(st.tuples(int32, int64, int32, texts), max_size=20), max_size=3)
Rows = Sequence[Sequence[tuple[int, int, int, str | None]]]


def commit(topics: Rows, change: Callable[[int], int] = int) -> OffsetCommitRequest:
    """Return a commit of these partitions; `change` is applied to each offset."""
    return OffsetCommitRequest(
        group_id="g" * 200,
        member_id="member",
        retention_time_ms=7,
        group_instance_id="instance",
        topics=[
            OffsetCommitRequestTopic(
                name="t" * number,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=change(offset),
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                        expected_offset=5 if index > 0 else None,
                    )
                    for index, offset, epoch, metadata in partitions
                ],
            )
            for number, partitions in enumerate(topics)
        ],
    )


def fetched(topics: Rows, version: int, change: Callable[[int], int] = int) -> OffsetFetchResponse:
    """Return a response with these partitions; `change` is applied to each offset and leader epoch."""

    def partitions(struct_type: type[Any], of_topic: Sequence[tuple[int, int, int, str | None]]) -> list[Any]:
        return [
            struct_type(
                partition_index=index,
                committed_offset=change(offset),
                committed_leader_epoch=change(epoch),
                metadata=metadata,
            )
            for index, offset, epoch, metadata in of_topic
        ]

    if version < 8:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(name="t", partitions=partitions(OffsetFetchResponsePartition, one))
                for one in topics
            ]
        )
    group = OffsetFetchResponseGroup(
        group_id="g",
        topics=[
            OffsetFetchResponseTopics(name="t", partitions=partitions(OffsetFetchResponsePartitions, one))
            for one in topics
        ],
    )
    return OffsetFetchResponse(groups=[group, group])


def inverted(data: bytes, places: Sequence[tuple[int, int]]) -> bytes:
    """Return the bytes with each of these numbers inverted."""
    changed = bytearray(data)
    for at, size in places:
        for index in range(at, at + size):
            changed[index] ^= 0xFF
    return bytes(changed)


@given(rows, st.sampled_from(range(2, 11)), st.binary(max_size=9))
def test_the_places_of_a_commit_are_its_offsets(topics: Rows, version: int, before: bytes) -> None:
    """In every version, behind a header, for few and for many partitions."""
    data = before + encode(commit(topics), version)
    places = places_of(OffsetCommitRequest, version, ("committed_offset",), data, len(before))
    assert len(places) == sum(map(len, topics))
    expected = encode(commit(topics, lambda offset: ~offset), version)
    assert inverted(data, places) == before + expected


@given(rows, st.sampled_from(range(1, 11)))
def test_the_places_of_two_fields_are_in_their_order(topics: Rows, version: int) -> None:
    """A fetch has offset and leader epoch of each partition; before version 5 only the offset."""
    data = encode(fetched(topics, version), version)
    names = ("committed_offset", "committed_leader_epoch")
    places = places_of(OffsetFetchResponse, version, names, data, 0)
    assert [size for _, size in places[:2]] == ([8, 4] if version >= 5 else [8, 8])[: len(places)]
    assert places == sorted(places)
    expected = encode(fetched(topics, version, lambda number: ~number), version)
    assert inverted(data, places) == expected


def test_a_message_without_the_field_has_no_places() -> None:
    """Other fields do not count."""
    request = commit([[(0, 1, 2, "m")]])
    assert places_of(OffsetCommitRequest, 8, ("no_such_field",), encode(request, 8), 0) == []
    lists = ListOffsetsRequest()
    assert places_of(ListOffsetsRequest, 6, ("timestamp",), encode(lists, 6), 0) == []


def test_unknown_tagged_fields_move_the_places() -> None:
    """The places are those in these bytes, not in what a writer would make of the message."""
    data = encode(commit([[(0, 77, 2, None)]]), 8)
    longer = data[:-1] + b"\x01\x63\x03abc"  # the message ends with its tagged fields
    moved = encode(commit([[(0, ~77, 2, None)]]), 8)[:-1] + b"\x01\x63\x03abc"
    places = places_of(OffsetCommitRequest, 8, ("committed_offset",), longer, 0)
    assert inverted(longer, places) == moved
    assert decode(OffsetCommitRequest, 8, moved).topics[0].partitions[0].committed_offset == ~77
