"""Commands about committed offsets, and their results."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headgate.core.offsets.rows import Version
from headgate.core.offsets.stored import StoredOffset
from headgate.core.offsets.wide_rows import WideRow
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName
from headgate.records import ColumnShape, RecordShape
from headgate.records.columns import Int64s

NO_RETENTION = -1
_NOBODY = MemberId("")


class OffsetToCommit(NamedTuple):
    """One partition of a commit."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class OffsetColumns(NamedTuple):
    """Many partitions of a commit: int64 arrays of one length."""

    partitions: Int64s
    offsets: Int64s
    leader_epochs: Int64s
    metadata: str | Sequence[str]
    """What all of them have, or each of them."""

    def each(self) -> list[OffsetToCommit]:
        """The same, one by one."""
        columns = zip(
            self.partitions.tolist(),
            self.offsets.tolist(),
            self.leader_epochs.tolist(),
            self.texts(),
            strict=True,
        )
        return [OffsetToCommit(*row) for row in columns]

    def texts(self) -> Sequence[str]:
        """The metadata of each."""
        return [self.metadata] * len(self.partitions) if isinstance(self.metadata, str) else self.metadata

    def at(self, places: Int64s) -> OffsetColumns:
        """The partitions at these places."""
        metadata = self.metadata
        if not isinstance(metadata, str):
            metadata = [metadata[place] for place in places.tolist()]
        return OffsetColumns(
            self.partitions[places], self.offsets[places], self.leader_epochs[places], metadata
        )


ToCommit = Sequence[OffsetToCommit] | OffsetColumns
"""What is committed of a topic."""


def in_columns(partitions: ToCommit) -> OffsetColumns:
    """The same in columns."""
    if isinstance(partitions, OffsetColumns):
        return partitions
    return OffsetColumns(
        np.array([one.partition for one in partitions], np.int64),
        np.array([one.offset for one in partitions], np.int64),
        np.array([one.leader_epoch for one in partitions], np.int64),
        [one.metadata for one in partitions],
    )


def partition_count(partitions: ToCommit) -> int:
    """How many partitions of a topic are committed."""
    return len(partitions.partitions if isinstance(partitions, OffsetColumns) else partitions)


Place = tuple[int, int]
"""Where a partition stands in a commit: the topic's number, and the partition's among those of the topic."""


class ExpectedOffsets(NamedTuple):
    """Conditions in columns: int64 arrays of one length."""

    indexes: Int64s
    """A partition's number among those of its topic; ascending."""
    offsets: Int64s


def expected_offsets(by_index: Mapping[int, int]) -> ExpectedOffsets:
    """Conditions by a partition's number among those of its topic."""
    rows = np.array(sorted(by_index.items()), np.int64).reshape(-1, 2)
    return ExpectedOffsets(rows[:, 0], rows[:, 1])


NOTHING_COMMITTED = -1
"""The offset of a partition that has none."""


@dataclass(slots=True)
class CommitOffsets:
    """Commit offsets, all or none but those whose metadata is too long. Reply: `CommitResult`.

    With conditions it is all or none whatever the reason. Not frozen because one is made for every commit.
    """

    group_id: GroupId
    topics: Sequence[tuple[TopicName, ToCommit]]
    member_id: MemberId = _NOBODY
    generation: int = -1
    instance_id: InstanceId | None = None
    retention_ms: int = NO_RETENTION
    """To v4: how long these offsets are to be kept; -1: as the broker's settings say."""
    knows_group_not_found: bool = True
    """From v9: a group that is not there is GROUP_ID_NOT_FOUND, before that ILLEGAL_GENERATION. Members of
    consumer groups need it."""
    expected: Sequence[ExpectedOffsets] | None = None
    """For each topic, offsets that must be the committed ones for the commit to take place (R3.16)."""


Part = list[RecordShape] | ColumnShape | tuple[tuple[GroupId, TopicName], OffsetColumns]
"""Consecutive partitions of a commit: one by one, in columns, or in columns with metadata of their own."""


class CommitShape:
    """A commit but for its offsets: who commits, and what is recorded of it."""

    __slots__ = ("asked", "parts", "records")

    def __init__(self, asked: CommitOffsets, parts: Sequence[Part]) -> None:
        self.asked = asked
        """What is judged each time; the offsets in it are of no interest."""
        self.parts = parts
        self.records: list[RecordShape] | None = None
        """The only part, if that is a list: mostly."""
        if len(parts) == 1 and isinstance(parts[0], list):
            self.records = parts[0]


class Commits(NamedTuple):
    """Commits of any groups, by shapes that are known. Reply: a `CommitResult` for each.

    Those that are not refused are recorded together, as one value if they are lists of partitions. Only for
    commits without conditions, without a retention of their own, and whose metadata was accepted.
    """

    commits: Sequence[CommitShape]
    offsets: Sequence[Sequence[int] | Int64s]
    """For each commit an offset for each partition, in order."""


@dataclass(slots=True, frozen=True, eq=False)
class Moved:
    """Where something else is committed than was expected: int64 arrays of one length."""

    indexes: Int64s
    """A partition's number among those of its topic; ascending."""
    offsets: Int64s
    """What is committed; NOTHING_COMMITTED for nothing."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Moved)
            and np.array_equal(self.indexes, other.indexes)
            and np.array_equal(self.offsets, other.offsets)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True, frozen=True)
class CommitResult:
    """The outcome of a commit: what holds for all its partitions, and where that is not the truth."""

    error: ErrorCode
    too_large: frozenset[Place] = frozenset()
    """Partitions whose metadata is too long."""
    moved: Sequence[Moved] = ()
    """For each topic what is committed where something else was expected."""
    is_attempted: bool = True
    """False: nothing is committed, because one of the others could not be or a condition failed."""

    @property
    def current(self) -> Mapping[Place, int]:
        """What is committed where something else was expected, place by place."""
        return {
            (number, index): offset
            for number, moved in enumerate(self.moved)
            for index, offset in zip(moved.indexes.tolist(), moved.offsets.tolist(), strict=True)
        }


@dataclass(slots=True, frozen=True)
class FetchOffsets:
    """Read committed offsets. Reply: `FetchedOffsets`, `FetchedInSteps` or an `ErrorCode`."""

    group_id: GroupId
    topics: Sequence[tuple[TopicName, Sequence[int] | Int64s]] | None
    """None: all there are."""
    member_id: MemberId | None = None
    """From v9: the member of a consumer group that asks; None: nobody in particular."""
    member_epoch: int = -1


class RepeatedFetch:
    """A fetch of named partitions that comes again."""

    __slots__ = ("asked", "found", "found_in", "partition_count", "rows", "rows_as_of", "wide_rows")

    def __init__(self, asked: FetchOffsets) -> None:
        self.asked = asked
        self.partition_count = sum(len(partitions) for _, partitions in asked.topics or ())
        self.rows: list[int] = []
        """Where the offset table has the partitions, as of `rows_as_of`; both are the table's."""
        self.wide_rows: list[WideRow] = []
        """The same where they are many: an item for each topic."""
        self.rows_as_of: Version | None = None
        self.found: FetchedNumbers | FetchedOffsets | None = None
        """What the table had in `found_in`; both are the table's."""
        self.found_in: Version | None = None


class FetchesAgain(NamedTuple):
    """Fetches of named partitions, of any groups, that come again. Reply: the result of each.

    That is `FetchedNumbers`, or `FetchedOffsets` if there is more to tell than numbers, or an `ErrorCode`. As
    long as no offset changes, it is the very object that the same command got before.
    """

    fetches: Sequence[RepeatedFetch]


class FetchedNumbers(NamedTuple):
    """Offset and leader epoch of each partition in the order they were asked for; -1 and -1 for none."""

    offsets: Sequence[int] | Int64s
    leader_epochs: Sequence[int] | Int64s


class FetchedColumns(NamedTuple):
    """Many partitions: int64 arrays of one length, -1 and -1 for one without an offset."""

    partitions: Int64s
    offsets: Int64s
    leader_epochs: Int64s
    metadata: Sequence[str] = ()
    """Of each partition; empty if none of them has any."""


FetchedPartitions = Sequence[tuple[int, StoredOffset | None]]


@dataclass(slots=True, frozen=True)
class FetchedOffsets:
    """Topics as they were asked for, each partition with its offset or None."""

    topics: Sequence[tuple[TopicName, FetchedPartitions | FetchedColumns]]
    topic_ids: Mapping[TopicName, TopicId] = field(default_factory=dict)
    """If all there are were asked for: the ids of the topics among them that there still are."""


class FetchedInSteps(NamedTuple):
    """Offsets of many topics, as they were when they were asked for: it takes steps to tell them."""

    steps: Generator[None, None, FetchedOffsets]
    """Between two of them others may have their turn; to be driven to the end or given up."""


@dataclass(slots=True, frozen=True)
class DeleteOffsets:
    """Delete committed offsets of topics the group does not read. Reply: `DeleteOffsetsResult`."""

    group_id: GroupId
    topics: Sequence[tuple[TopicName, Sequence[int]]]


@dataclass(slots=True, frozen=True)
class DeleteOffsetsResult:
    """The outcome of a deletion: for the group, or for each topic as it was asked for."""

    error: ErrorCode
    topics: Sequence[tuple[TopicName, ErrorCode]] = ()
