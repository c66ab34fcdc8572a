"""The record of paused partitions, in words and as JSON."""

from __future__ import annotations

from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.inspect.explain import meaning_of
from headgate.log.batch import Record
from headgate.records import Pause, PausedTopicPartitions, PausedTopicPartitionsTombstone, encode

G = GroupId("billing")
ID = TopicId(bytes(16))


def test_paused_partitions_are_put_in_words() -> None:
    """How many there are, since when and by whom; each pause with its reason and the partitions it has."""
    first, later = (
        Pause(Millis(1_750_000_000_000), "alice", "poison"),
        Pause(Millis(1_750_000_001_000), "bob"),
    )
    record = PausedTopicPartitions(group_id=G, partitions={ID: {3: first, 1: first, 2: later}})
    meaning = meaning_of(Record(*encode(record)))
    expected = 'group "billing" has 3 paused partitions, since 2025-06-15T15:06:40.000Z by alice'
    assert meaning["words"] == expected
    assert [*meaning["topics"].values()] == [[1, 2, 3]]
    assert meaning["pauses"] == [
        {"since": 1_750_000_000_000, "caller": "alice", "reason": "poison", "count": 2},
        {"since": 1_750_000_001_000, "caller": "bob", "reason": "", "count": 1},
    ]


def test_the_end_of_all_pauses_is_put_in_words() -> None:
    """A tombstone."""
    meaning = meaning_of(Record(*encode(PausedTopicPartitionsTombstone(G))))
    assert meaning["words"] == 'tombstone: group "billing" has no paused partitions any more'
