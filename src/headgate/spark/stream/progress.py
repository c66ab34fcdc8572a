"""The progress of a stream in its group: what it commits, and where it finds that it was rewound.

Rules:

1. `start`, the end of the last batch that Spark has durably finished, is committed under the member epoch
   that was current before the committed offsets were read. So the coordinator refuses the commit if a
   partition was taken away in between.
2. A committed offset that the stream did not commit is a rewind (forwards or backwards): the next batch
   starts there, in a higher epoch. The stream commits the same offset in the new epoch, so that a restart
   does not take it for another rewind.
3. Offsets are never committed backwards, except by rules 2 and 7. A checkpoint older than the group's offset
   reads its records again and commits nothing before it has passed that offset. If it is older than a
   rewind, too, it reads from the rewind's offset, or from its own if that is earlier; partitions that were
   added since are read from their start. No record is left out.
4. An administrator can restore exactly the commit before the stream's last one, offset and metadata. For the
   offsets alone that is a crash between a batch and its commit. So when a stream starts and finds an
   earlier offset in its own epoch, the coordinator's history tells who made the last change. Without a
   history (Kafka), it is a restore if the offset is from before the last batch.
5. A revoked partition is committed a last time, then released. It does not advance until it is assigned
   again.
6. A topic that was deleted and created again starts anew, in a higher epoch: also a partition that the new
   topic gets later.
7. A position that its log does not have any more moves to what is there: forwards in its epoch, or, if the
   end of the log moved back, backwards in a higher one. It is committed before the next batch is fixed. So
   a restart does not take the former offset for a rewind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from headgate.client.membership import MemberView
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import TopicPartition
from headgate.spark.stream.positions import (
    Position,
    StreamOffsets,
    epoch_in,
    first_in,
    left_in,
    metadata_of,
)

Committed = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True)
class Step:
    """What follows from a finished batch: the positions to read on from, and the offsets to commit."""

    positions: Mapping[TopicPartition, Position]
    """All partitions of the stream; also those that are not assigned now."""
    commits: Committed = field(default_factory=dict)
    lost: frozenset[TopicPartition] = frozenset()
    """Partitions whose topic was deleted and created again: they start anew, in a higher epoch."""


def next_step(
    start: StreamOffsets,
    view: MemberView,
    committed: Committed,
    known: Committed,
    first_offsets: Mapping[TopicPartition, int],
    restored: Mapping[TopicPartition, bool] = MappingProxyType({}),
) -> Step:
    """Compare the end of the last finished batch with the group's offsets.

    `known` are the offsets that this process committed or found last, `first_offsets` those at which
    new partitions start (`is_new`) for which nothing is committed; all of these must be among them.
    `restored` tells of partitions for which it is unclear whether an administrator made the last commit
    (`is_unclear`), as far as the history knows.
    """
    positions = {where: position.at_end() for where, position in start.positions.items()}
    commits: dict[TopicPartition, CommittedOffset] = {}
    lost = frozenset(where for where in positions if is_another_topic(start, view, where))
    for where in lost - view.assigned:  # the new topic may have it later: it is then read from its start
        positions[where] = Position(0, 0, max(view.epoch, positions[where].epoch + 1))
    for where in sorted(view.assigned | view.revoked):
        before, now = start.positions.get(where), committed.get(where)
        if where not in view.assigned and is_new(start, view, where):
            continue
        again = left = None
        if where in view.assigned and where not in known and now is not None:
            again = position_to_repeat(None if is_new(start, view, where) else before, now)
        if again is not None:
            positions[where] = again
            continue
        if before is None or is_new(start, view, where):
            first = offset = first_offsets[where] if now is None else now.offset
            epoch = _epoch_of_new(now, view, before)
        elif now is None:
            first, offset, epoch = before.start, before.end, before.epoch
        elif where in view.assigned and restored.get(where, is_rewind(before, now, known.get(where))):
            first = offset = now.offset
            epoch, left = _epoch_after(before, now, view), before.end
        elif before.end > now.offset:
            first, offset, epoch = before.start, before.end, before.epoch
        else:
            continue
        positions[where] = Position(offset, offset, epoch)
        wanted = CommittedOffset(offset, metadata=metadata_of(epoch, _first_of(epoch, now, first), left))
        if now is None or not is_same(now, wanted):
            commits[where] = wanted
    return Step(positions, commits, lost)


def commits_of_moved(
    moved: Mapping[TopicPartition, Position], before: Mapping[TopicPartition, Position], known: Committed
) -> Committed:
    """Return what to commit for the positions that were moved by rule 7, given the former ones and the
    group's offsets.
    """
    commits = {}
    for where, position in moved.items():
        now = known.get(where)
        epoch = None if now is None else epoch_in(now.metadata)
        if now is None or epoch is None or (epoch, now.offset) < (position.epoch, position.start):
            first = _first_of(position.epoch, now, position.start)
            left = before[where].start if first == position.start else None
            metadata = metadata_of(position.epoch, first, left)
            commits[where] = CommittedOffset(position.start, metadata=metadata)
    return commits


def is_new(start: StreamOffsets, view: MemberView, where: TopicPartition) -> bool:
    """Whether the last batch did not have a partition, or one of an earlier topic of the same name."""
    return where not in start.positions or is_another_topic(start, view, where)


def is_another_topic(start: StreamOffsets, view: MemberView, where: TopicPartition) -> bool:
    """Whether the topic of a partition was deleted and created again since the last batch."""
    before, now = start.topic_ids.get(where.topic), view.topic_ids.get(where.topic)
    return before is not None and now is not None and before != now


def is_rewind(before: Position, now: CommittedOffset, known: CommittedOffset | None) -> bool:
    """Whether someone else than the stream committed an offset, or restored an earlier one of its own."""
    epoch = epoch_in(now.metadata)
    if epoch == before.epoch and now.offset == before.end:
        return False
    if known is not None:
        return not is_same(known, now)
    if epoch != before.epoch:
        return True
    return now.offset < before.start


def position_to_repeat(before: Position | None, now: CommittedOffset) -> Position | None:
    """Return where a checkpoint reads again that is older than the last rewind; None if it is not.

    The stream committed where the epoch began, and more since. If there is no more, it may be a crash in the
    rewind: then the checkpoint is where the stream was before. `before` is None for a partition that the
    checkpoint does not have: it was added later.
    """
    epoch, first, left = epoch_in(now.metadata), first_in(now.metadata), left_in(now.metadata)
    if epoch is None or first is None:
        return None
    if before is not None and epoch <= before.epoch:
        return None
    if now.offset <= first and (before is None or left in (None, before.end)):
        return None
    offset = first if before is None else min(before.end, first)
    return Position(offset, offset, epoch)


def is_unclear(before: Position, now: CommittedOffset, known: CommittedOffset | None) -> bool:
    """Whether the offsets do not tell an interrupted commit from an offset that somebody restored."""
    return known is None and epoch_in(now.metadata) == before.epoch and now.offset < before.end


def is_same(one: CommittedOffset, other: CommittedOffset) -> bool:
    """Whether two commits have the same offset and metadata."""
    return (one.offset, one.metadata) == (other.offset, other.metadata)


def _epoch_after(before: Position, now: CommittedOffset, view: MemberView) -> int:
    """Return the epoch after a rewind: that of another stream's commit if it is higher, else a new one."""
    epoch = epoch_in(now.metadata)
    if epoch is not None and epoch > before.epoch:
        return epoch
    return max(view.epoch, before.epoch + 1)


def _epoch_of_new(now: CommittedOffset | None, view: MemberView, before: Position | None) -> int:
    """Return the epoch of a partition that the stream did not have, or that is new under an old name."""
    epoch = None if now is None else epoch_in(now.metadata)
    if epoch is not None:
        return epoch
    return max(view.epoch, 0 if before is None else before.epoch + 1)


def _first_of(epoch: int, now: CommittedOffset | None, first: int) -> int:
    """Return where an epoch began: as the last commit tells it, else `first`."""
    told = first_in(now.metadata) if now is not None and epoch_in(now.metadata) == epoch else None
    return first if told is None else told
