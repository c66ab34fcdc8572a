"""Partitions that are committed over and over: many of them, of any groups, as one value.

From one commit of a partition to the next only the offset and the time differ. Whoever writes or remembers
such commits finds out once what stays, so that a turn of the server costs what is new in its commits.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.model import OffsetCommit
from headgate.records.offset_commit import pack_int64


class StandingCommit:
    """A partition that a group commits without metadata and without an expiry: all but offset and time.

    Each is itself and equal to no other: what somebody remembers of it is found quickly.
    """

    __slots__ = ("group_id", "leader_epoch", "partition", "topic")

    def __init__(self, group_id: GroupId, topic: TopicName, partition: int, leader_epoch: int) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch

    def at(self, offset: int, commit_timestamp: Millis) -> OffsetCommit:
        """The record of one commit."""
        return OffsetCommit(
            self.group_id, self.topic, self.partition, offset, self.leader_epoch, "", commit_timestamp
        )


class StandingCommits:
    """An offset for each of some standing commits, all committed at one time."""

    __slots__ = ("commit_timestamp", "commits", "offsets")

    def __init__(self, commits: list[StandingCommit], offsets: list[int], commit_timestamp: Millis) -> None:
        self.commits = commits
        self.offsets = offsets
        self.commit_timestamp = commit_timestamp

    def __len__(self) -> int:
        return len(self.commits)

    def each(self) -> Iterator[OffsetCommit]:
        """The records this stands for, in order."""
        for commit, offset in zip(self.commits, self.offsets, strict=True):
            yield commit.at(offset, self.commit_timestamp)

    def offset_bytes(self) -> list[bytes]:
        """The offsets as they stand in the records' values."""
        pack = pack_int64
        return [pack(offset) for offset in self.offsets]

    def timestamp_bytes(self) -> bytes:
        """The time as it stands at the end of each of the values."""
        return pack_int64(self.commit_timestamp)
