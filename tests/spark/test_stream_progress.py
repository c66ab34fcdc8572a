"""What follows from the end of a batch and the group's offsets, as values."""

from __future__ import annotations

from headgate.client.membership import MemberView
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import MemberId, TopicId, TopicName, TopicPartition
from headgate.spark.stream.positions import Position, StreamOffsets, metadata_of
from headgate.spark.stream.progress import commits_of_moved, next_step

TOPIC = TopicName("t")
OLD, NEW = TopicId(b"o" * 16), TopicId(b"n" * 16)
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def view_of(epoch: int, topic_id: TopicId, *assigned: TopicPartition) -> MemberView:
    """Return a member with these partitions."""
    return MemberView(MemberId("m"), epoch, frozenset(assigned), frozenset(), 0, {TOPIC: topic_id})


def test_a_partition_that_a_new_topic_gets_later_is_read_from_its_start() -> None:
    """The topic was deleted and created again with fewer partitions, then enlarged."""
    start = StreamOffsets("s", {TOPIC: OLD}, {FIRST: Position(80, 100, 3), SECOND: Position(80, 100, 3)})
    known = {where: CommittedOffset(100, metadata=metadata_of(3, 0)) for where in start.positions}
    step = next_step(start, view_of(7, NEW, FIRST), {}, known, {FIRST: 0})
    assert step.lost == {FIRST, SECOND}
    assert step.positions == {FIRST: Position(0, 0, 7), SECOND: Position(0, 0, 7)}
    assert step.commits.keys() == {FIRST}
    start = StreamOffsets("s", {TOPIC: NEW}, step.positions)
    enlarged = next_step(start, view_of(8, NEW, FIRST, SECOND), step.commits, {**known, **step.commits}, {})
    assert enlarged.lost == frozenset()
    assert enlarged.positions[SECOND] == Position(0, 0, 7)
    assert enlarged.commits == {SECOND: CommittedOffset(0, metadata=metadata_of(7, 0))}


def test_a_checkpoint_from_before_a_rewind_that_was_just_taken_leaves_out_no_record() -> None:
    """Its own offset tells it from a stream that was killed in the rewind, which begins at the offset."""
    view = view_of(7, OLD, FIRST)

    def begins_at(end: int, now: CommittedOffset) -> Position:
        start = StreamOffsets("s", {TOPIC: OLD}, {FIRST: Position(end, end, 3)})
        return next_step(start, view, {FIRST: now}, {}, {}).positions[FIRST]

    start = StreamOffsets("s", {TOPIC: OLD}, {FIRST: Position(80, 100, 3)})
    known = {FIRST: CommittedOffset(100, metadata=metadata_of(3, 0))}
    taken = next_step(start, view, {FIRST: CommittedOffset(50)}, known, {}).commits[FIRST]
    assert begins_at(100, taken) == Position(50, 50, 7), "it was killed"
    assert begins_at(10, taken) == Position(10, 10, 7), "it is older, and from before the offset"
    assert begins_at(70, taken) == Position(50, 50, 7), "it is older, and from behind the offset"
    moved = commits_of_moved({FIRST: Position(60, 60, 7)}, {FIRST: Position(100, 100, 3)}, known)[FIRST]
    assert begins_at(100, moved) == Position(60, 60, 7), "the same of an end that moved back"
    assert begins_at(10, moved) == Position(10, 10, 7)
