"""Commands for committed offsets, and their results."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headgate.core.contract import Producer, TransactionEnd
from headgate.core.offsets.authors import Author
from headgate.core.offsets.rows import Version
from headgate.core.offsets.stored import StoredOffset
from headgate.core.offsets.wide_rows import WideRow
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName
from headgate.records import ColumnShape, RecordShape
from headgate.records.columns import Int64s
from headgate.records.model import NO_EXPIRY, NO_TIMESTAMP

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
    """One text for all partitions, or one text for each."""

    def each(self) -> list[OffsetToCommit]:
        """Return one object for each partition."""
        columns = zip(
            self.partitions.tolist(),
            self.offsets.tolist(),
            self.leader_epochs.tolist(),
            self.texts(),
            strict=True,
        )
        return [OffsetToCommit(*row) for row in columns]

    def texts(self) -> Sequence[str]:
        """Return the metadata of each partition."""
        return [self.metadata] * len(self.partitions) if isinstance(self.metadata, str) else self.metadata

    def at(self, places: Int64s) -> OffsetColumns:
        """Return the partitions at these positions."""
        metadata = self.metadata
        if not isinstance(metadata, str):
            metadata = [metadata[place] for place in places.tolist()]
        return OffsetColumns(
            self.partitions[places], self.offsets[places], self.leader_epochs[places], metadata
        )


ToCommit = Sequence[OffsetToCommit] | OffsetColumns
"""The partitions of one topic in a commit."""


def in_columns(partitions: ToCommit) -> OffsetColumns:
    """Return the partitions as columns."""
    if isinstance(partitions, OffsetColumns):
        return partitions
    return OffsetColumns(
        np.array([one.partition for one in partitions], np.int64),
        np.array([one.offset for one in partitions], np.int64),
        np.array([one.leader_epoch for one in partitions], np.int64),
        [one.metadata for one in partitions],
    )


def partition_count(partitions: ToCommit) -> int:
    """Return the number of partitions of one topic in a commit."""
    return len(partitions.partitions if isinstance(partitions, OffsetColumns) else partitions)


CommitIndex = tuple[int, int]
"""Position of a partition in a commit: the index of its topic, and its index among the topic's partitions."""


class ExpectedOffsets(NamedTuple):
    """Conditions as columns: int64 arrays of one length."""

    indexes: Int64s
    """Indexes of partitions within their topic; ascending."""
    offsets: Int64s


def expected_offsets(by_index: Mapping[int, int]) -> ExpectedOffsets:
    """Return the conditions, given by the index of a partition within its topic, as columns."""
    rows = np.array(sorted(by_index.items()), np.int64).reshape(-1, 2)
    return ExpectedOffsets(rows[:, 0], rows[:, 1])


NOTHING_COMMITTED = -1
"""The offset of a partition without a committed offset."""


@dataclass(slots=True)
class CommitOffsets:
    """Commit offsets. Reply: `CommitResult`.

    Without conditions, only partitions whose metadata is too long are left out. With conditions, any error
    refuses the whole commit. The class is not frozen because every commit creates an instance.
    """

    group_id: GroupId
    topics: Sequence[tuple[TopicName, ToCommit]]
    member_id: MemberId = _NOBODY
    generation: int = -1
    instance_id: InstanceId | None = None
    retention_ms: int = NO_RETENTION
    """Up to v4: the retention of these offsets in ms; -1 for the broker's setting."""
    knows_group_not_found: bool = True
    """True from v9: the error of an unknown group is GROUP_ID_NOT_FOUND, before v9 ILLEGAL_GENERATION."""
    expected: Sequence[ExpectedOffsets] | None = None
    """For each topic, the committed offsets that the commit requires (R3.16)."""
    is_transactional: bool = False
    """True for the commit of a `CommitTransactionalOffsets`: other checks of members apply."""
    author: Author | None = None
    """The client, to be recorded with an administrative change; None for all others."""
    parts: Sequence[Part] | None = field(default=None, compare=False, repr=False)
    """The parts of the commit's shape, from its decision on; see `headgate.core.offsets.commit.shape_of`."""


Part = list[RecordShape] | ColumnShape | tuple[tuple[GroupId, TopicName], OffsetColumns]
"""Consecutive partitions of a commit: single, in columns, or in columns with metadata for each partition."""


class CommitShape:
    """A commit without its offsets: who commits, and the recorded names, leader epochs and metadata."""

    __slots__ = ("asked", "parts", "records")

    def __init__(self, asked: CommitOffsets, parts: Sequence[Part]) -> None:
        self.asked = asked
        """The command that is checked each time; its offsets are not used."""
        self.parts = parts
        self.records: list[RecordShape] | None = None
        """The only part, if it is a list of partitions, which is the usual case."""
        if len(parts) == 1 and isinstance(parts[0], list):
            self.records = parts[0]


class Commits(NamedTuple):
    """Commits of any groups, by known shapes. Reply: a `CommitResult` for each.

    Accepted commits become one value if their shapes are lists of partitions. Only for commits without
    conditions and without their own retention, whose metadata was accepted before.
    """

    commits: Sequence[CommitShape]
    offsets: Sequence[Sequence[int] | Int64s]
    """For each commit, one offset for each partition, in order."""


@dataclass(slots=True, frozen=True, eq=False)
class Moved:
    """The partitions whose condition failed: int64 arrays of one length."""

    indexes: Int64s
    """Indexes of partitions within their topic; ascending."""
    offsets: Int64s
    """Their committed offsets; NOTHING_COMMITTED for none."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Moved)
            and np.array_equal(self.indexes, other.indexes)
            and np.array_equal(self.offsets, other.offsets)
        )


@dataclass(slots=True, frozen=True)
class CommitTransactionalOffsets:
    """Commit offsets in the open transaction of a producer. Reply: `CommitResult`.

    The offsets wait until the transaction ends. Whoever submits this has made sure that the transaction is
    open and includes the group.
    """

    asked: CommitOffsets
    """The commit, without conditions and without its own retention; `is_transactional` is true."""
    producer: Producer


@dataclass(slots=True, frozen=True)
class EndTransaction:
    """Commit or abort the offsets of a producer's transaction, and write the marker. Reply: `ErrorCode`.

    The marker is also written for a producer without pending offsets, as in Kafka. A marker with an older
    epoch than the pending offsets is refused with INVALID_PRODUCER_EPOCH.
    """

    end: TransactionEnd


@dataclass(slots=True, frozen=True)
class CommitResult:
    """The result of a commit: the error of all partitions, and the exceptions."""

    error: ErrorCode
    too_large: frozenset[CommitIndex] = frozenset()
    """Partitions whose metadata is too long."""
    moved: Sequence[Moved] = ()
    """For each topic, the committed offsets of the partitions whose condition failed."""
    is_attempted: bool = True
    """False: nothing is committed, because a condition failed or another partition has an error."""

    @property
    def current(self) -> Mapping[CommitIndex, int]:
        """The committed offset of each partition whose condition failed."""
        return {
            (number, index): offset
            for number, moved in enumerate(self.moved)
            for index, offset in zip(moved.indexes.tolist(), moved.offsets.tolist(), strict=True)
        }


@dataclass(slots=True)
class FetchOffsets:
    """Read committed offsets. Reply: `FetchedOffsets`, `FetchedInSteps` or an `ErrorCode`.

    This class and its reply are never changed; they are not frozen because every fetch creates both.
    """

    group_id: GroupId
    topics: Sequence[tuple[TopicName, Sequence[int] | Int64s]] | None
    """None: all partitions with a committed offset."""
    member_id: MemberId | None = None
    """From v9: the member of a consumer group that sends the request; None if it names no member."""
    member_epoch: int = -1
    require_stable: bool = False
    """From v7: no offset of a partition with a pending offset (KIP-447)."""


class RepeatedFetch:
    """A repeated fetch of named partitions."""

    __slots__ = ("asked", "found", "found_in", "partition_count", "rows", "rows_as_of", "wide_rows")

    def __init__(self, asked: FetchOffsets) -> None:
        self.asked = asked
        self.partition_count = sum(len(partitions) for _, partitions in asked.topics or ())
        self.rows: list[int] = []
        """The rows of the partitions in the offset table, valid for `rows_as_of`. The table sets both."""
        self.wide_rows: Sequence[WideRow] = ()
        """The rows of a wide fetch: one item for each topic."""
        self.rows_as_of: Version | None = None
        self.found: FetchedNumbers | FetchedOffsets | None = None
        """The offsets found in state `found_in`. The table sets both."""
        self.found_in: Version | None = None


class FetchesAgain(NamedTuple):
    """Repeated fetches of named partitions, of any groups. Reply: the result of each.

    A result is `FetchedNumbers`, or `FetchedOffsets` if an offset has metadata, or an `ErrorCode`. Until an
    offset changes, the same command gets the identical object.
    """

    fetches: Sequence[RepeatedFetch]


class FetchedNumbers(NamedTuple):
    """Offset and leader epoch of each partition, in the order of the request; -1 and -1 for none."""

    offsets: Sequence[int] | Int64s
    leader_epochs: Sequence[int] | Int64s


class FetchedColumns(NamedTuple):
    """Many partitions: int64 arrays of one length; -1 and -1 for a partition without an offset."""

    partitions: Int64s
    offsets: Int64s
    leader_epochs: Int64s
    metadata: Sequence[str] = ()
    """The metadata of each partition; empty if none has metadata."""

    def each(self) -> list[tuple[int, StoredOffset]]:
        """Return each partition with its offset, without times. One without has -1 and -1, as it is told to
        clients: -1 may be committed too, with a leader epoch and metadata.
        """
        numbers = self.partitions.tolist(), self.offsets.tolist(), self.leader_epochs.tolist()
        texts = self.metadata or [""] * len(self.partitions)
        return [
            (partition, StoredOffset(offset, epoch, text, NO_TIMESTAMP, NO_EXPIRY))
            for partition, offset, epoch, text in zip(*numbers, texts, strict=True)
        ]


FetchedPartitions = Sequence[tuple[int, StoredOffset | None]]


@dataclass(slots=True)
class FetchedOffsets:
    """Topics in the order of the request, each partition with its offset or None."""

    topics: Sequence[tuple[TopicName, FetchedPartitions | FetchedColumns]]
    topic_ids: Mapping[TopicName, TopicId] = field(default_factory=dict)
    """For a fetch of all partitions: the ids of its topics that still exist."""
    unstable: Mapping[TopicName, Set[int]] = field(default_factory=dict)
    """For a fetch of stable offsets: the group's partitions with a pending offset."""


class FetchedInSteps(NamedTuple):
    """Offsets of many topics as of one moment; the reply is built in steps."""

    steps: Generator[None, None, FetchedOffsets]
    """Other work may run between two steps. Run it to the end or close it."""


@dataclass(slots=True, frozen=True)
class DeleteOffsets:
    """Delete committed offsets of topics that the group does not read. Reply: `DeleteOffsetsResult`."""

    group_id: GroupId
    topics: Sequence[tuple[TopicName, Sequence[int]]]
    author: Author | None = None
    """The client, to be recorded."""


@dataclass(slots=True, frozen=True)
class DeleteOffsetsResult:
    """The result of a deletion: for the group, or for each topic of the request."""

    error: ErrorCode
    topics: Sequence[tuple[TopicName, ErrorCode]] = ()
