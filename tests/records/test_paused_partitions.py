"""The record of paused partitions: the document's bytes, with tagged fields of ours behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.records import (
    MalformedRecord,
    Pause,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
    decode,
    encode,
)

G = GroupId("g")
T = TopicId(bytes(range(16)))
PAUSES = st.builds(Pause, st.integers(-1, 1 << 50).map(Millis), st.text(max_size=5), st.text(max_size=5))
PARTITIONS = st.dictionaries(
    st.binary(min_size=16, max_size=16).map(TopicId),
    st.dictionaries(st.integers(0, 1 << 20), PAUSES, min_size=1, max_size=5),
    max_size=4,
)


@given(PARTITIONS)
def test_a_record_comes_back_as_it_went(partitions: dict[TopicId, dict[int, Pause]]) -> None:
    """Whichever pauses the partitions share."""
    record = PausedTopicPartitions(group_id=G, partitions=partitions)
    assert decode(*encode(record)) == record


def test_the_bytes_are_those_of_the_document() -> None:
    """Without ours nothing is added: key type 1000 and the group; version 0, topics with their partitions."""
    key, value = encode(PausedTopicPartitions(group_id=G, partitions={T: {2: Pause(), 1: Pause()}}))
    assert key == bytes.fromhex("03e8 0001 67")
    assert value == bytes.fromhex("0000 02") + T + bytes.fromhex("03 00000001 00000002 00 00")


def test_a_record_of_another_coordinator_says_nothing_of_its_pauses() -> None:
    """Tagged fields that are not ours are skipped."""
    key, value = bytes.fromhex("03e8 0001 67"), bytes.fromhex("0000 02") + T
    value += bytes.fromhex("02 00000007 01 05 01 ff 01 07 02 aabb")
    assert decode(key, value) == PausedTopicPartitions(group_id=G, partitions={T: {7: Pause()}})


def test_a_tombstone_has_the_same_key() -> None:
    """And no value."""
    tombstone = PausedTopicPartitionsTombstone(G)
    key, value = encode(tombstone)
    assert value is None
    assert key == encode(PausedTopicPartitions(group_id=G, partitions={}))[0]
    assert decode(key, value) == tombstone


def test_bytes_that_are_cut_or_wrong_are_malformed() -> None:
    """Wherever they end, and where they name a pause that is not listed."""
    pauses = {1: Pause(Millis(5), "a", "b"), 2: Pause(Millis(6), "c", "d")}
    key, value = encode(PausedTopicPartitions(group_id=G, partitions={T: pauses}))
    assert value is not None
    for size in range(len(value)):
        with pytest.raises(MalformedRecord):
            decode(key, value[:size])
    with pytest.raises(MalformedRecord):
        decode(key, value + b"\0")
    (at,) = [n for n in range(len(value)) if value[n : n + 8] == bytes.fromhex("0000000000000001")]
    with pytest.raises(MalformedRecord, match="not listed"):
        decode(key, value[: at + 7] + b"\2" + value[at + 8 :])
    with pytest.raises(MalformedRecord):
        decode(key, b"\0\1" + value[2:])
