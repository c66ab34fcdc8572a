"""Repeated commits of partitions of any groups, as one value.

Two commits of a partition differ only in offset and time. What stays the same is computed once and kept in a
`StandingCommit`.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.model import OffsetCommit
from headgate.records.offset_commit import pack_int64


class StandingCommit:
    """The constant part of a partition's commits without metadata and expiry: all but offset and time.

    Instances are compared by identity, so that caches find them quickly.
    """

    __slots__ = ("group_id", "leader_epoch", "partition", "topic")

    def __init__(self, group_id: GroupId, topic: TopicName, partition: int, leader_epoch: int) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch

    def at(self, offset: int, commit_timestamp: Millis) -> OffsetCommit:
        """Return the record of one commit."""
        return OffsetCommit(
            self.group_id, self.topic, self.partition, offset, self.leader_epoch, "", commit_timestamp
        )


class StandingCommits:
    """An offset for each of some `StandingCommit`s, all committed at the same time."""

    __slots__ = ("commit_timestamp", "commits", "offsets")

    def __init__(self, commits: list[StandingCommit], offsets: list[int], commit_timestamp: Millis) -> None:
        self.commits = commits
        self.offsets = offsets
        self.commit_timestamp = commit_timestamp

    def __len__(self) -> int:
        return len(self.commits)

    def each(self) -> Iterator[OffsetCommit]:
        """Yield the single records, in order."""
        for commit, offset in zip(self.commits, self.offsets, strict=True):
            yield commit.at(offset, self.commit_timestamp)

    def offset_bytes(self) -> list[bytes]:
        """Return the offsets as in the records' values."""
        pack = pack_int64
        return [pack(offset) for offset in self.offsets]

    def timestamp_bytes(self) -> bytes:
        """Return the commit timestamp as at the end of the records' values."""
        return pack_int64(self.commit_timestamp)
