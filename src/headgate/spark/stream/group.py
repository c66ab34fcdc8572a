"""The group of a stream, as the process beside Spark's driver sees it: joining, committing, planning."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from headgate.client.cluster import EARLIEST, LATEST, READ_UNCOMMITTED, Cluster
from headgate.client.errors import OffsetsMoved, PartlyRefused, RequestRefused
from headgate.client.membership import Membership, MemberView
from headgate.client.offsets import CommittedOffset, commit_offsets, fetch_offsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId, TopicName, TopicPartition
from headgate.spark.broker import absent_topic, connect, isolation_level
from headgate.spark.options import OptionError
from headgate.spark.plan import MissingData
from headgate.spark.stream.changes import set_by_administrators
from headgate.spark.stream.limits import limited
from headgate.spark.stream.member import (
    Topic,
    join,
    new_stream_id,
    paused,
    subscribed_topics,
    topics_that_exist,
    wait_until_assigned,
)
from headgate.spark.stream.options import StreamOptions
from headgate.spark.stream.positions import Position, StreamOffsets, epoch_in, metadata_of
from headgate.spark.stream.progress import commits_of_moved, is_new, is_unclear, next_step

_RETRY_S = 0.05
_TAKEN_AWAY = frozenset(
    {
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Refusals of a commit after which the assignment is read again."""

_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Refusals of single partitions, of deleted topics. The other offsets of the request were committed."""


Positions = Mapping[TopicPartition, Position]


class Committed(NamedTuple):
    """What follows when a batch is committed."""

    view: MemberView
    """The member, without partitions of topics that are deleted at this moment."""
    positions: Positions
    """Where all partitions of the stream are read on."""
    ends: Mapping[TopicPartition, int]
    """How far the assigned ones can be read."""


class StreamGroup:
    """The stream's group as the driver sees it, and its member, which joins when the checkpoint is known."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self.cluster: Cluster = connect(
            options.servers, options.read.timeout_s, security=options.read.security
        )
        self._level = isolation_level(options.read.is_committed_only)
        self._member: Membership | None = None
        self._known: dict[TopicPartition, CommittedOffset] = {}
        """What this process committed, or found committed, last."""
        self._seen: tuple[object, ...] | None = None
        """The membership for which the group's offsets were fetched."""
        self._gone: set[TopicName] = set()
        """Topics of which is told that they were deleted."""
        self._initial: StreamOffsets | None = None
        """Where a new checkpoint starts, as far as it was known before the stream joined."""

    def leave(self) -> None:
        """Leave the group, which is then empty."""
        if self._member is not None:
            self._member.leave(finally_=True)
            self._member = None
        self.cluster.close()

    def initial(self) -> StreamOffsets:
        """Return where a new checkpoint starts. Raises MissingData for topics that do not exist.

        The stream joins only to commit where partitions start. A batch that is repeated needs none of that:
        its checkpoint knows the member whose place the stream takes.
        """
        topics = self._topics(is_first_start=True)
        partitions = self._existing(topics)
        self._check_given(partitions)
        committed = fetch_offsets(self.cluster, self.options.group_id, partitions)
        stream_id = new_stream_id()
        if not committed.keys() >= set(partitions):
            member = self._joined(stream_id)
            epoch, assigned = member.view().epoch, member.view().assigned
            # A member that left in the meantime may have committed.
            committed = fetch_offsets(self.cluster, self.options.group_id, partitions)
            missing = [where for where in partitions if where not in committed and where in assigned]
            found = self._starts(missing)
            new = {
                where: CommittedOffset(found[where], metadata=metadata_of(epoch, found[where]))
                for where in missing
            }
            member.commit(new)
            committed |= new
            committed |= self._start_paused([where for where in partitions if where not in committed])
        # The first batch may have no rows, and this is then all that the checkpoint knows of the topics.
        topic_ids = {where.topic: topics[where.topic].topic_id for where in committed}
        self._initial = StreamOffsets(stream_id, topic_ids, _positions_at(committed))
        return self._initial

    def _start_paused(self, missing: Sequence[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset]:
        """Commit where paused partitions start. They have no owner: it is the commit of an administrator."""
        found = self._starts(sorted(paused(self.cluster, self.options.group_id).intersection(missing)))
        new = {where: CommittedOffset(offset) for where, offset in found.items()}
        if not new:
            return new
        try:
            commit_offsets(self.cluster, self.options.group_id, new, dict.fromkeys(new))
        except OffsetsMoved:  # another administrator was there first
            return fetch_offsets(self.cluster, self.options.group_id, new)
        return new

    def log_ends(self) -> dict[TopicPartition, int]:
        """Return the end of every partition; of committed records, the first open transaction."""
        topics = self._topics(is_first_start=not fetch_offsets(self.cluster, self.options.group_id))
        return self.cluster.list_offsets(dict.fromkeys(self._existing(topics), LATEST), self._level)

    def following(
        self, start: StreamOffsets, most: int | None, targets: Mapping[TopicPartition, int] | None
    ) -> StreamOffsets | None:
        """Commit `start`, and return the end of the next batch; None if there is nothing new.

        `most` is the limit of the batch, in offsets. No partition is read beyond `targets`, if given.
        """
        member = self._joined(start.stream_id)
        while True:
            member.release_at_once(False)
            view, found, ends = self._commit(member, self._since_joining(start))
            positions = self._next_positions(found, ends, most, targets)
            if positions != {where: position.at_end() for where, position in start.positions.items()}:
                return StreamOffsets(start.stream_id, {**start.topic_ids, **view.topic_ids}, positions)
            member.release_at_once(True)
            missing = frozenset() if targets is None else self._unfinished(start, view, targets)
            if not missing:
                return None
            wait_until_assigned(member, self.cluster, missing, self.options.read.timeout_s)

    def _next_positions(
        self,
        found: Positions,
        ends: Mapping[TopicPartition, int],
        most: int | None,
        targets: Mapping[TopicPartition, int] | None,
    ) -> dict[TopicPartition, Position]:
        """Return the next batch, with an empty part for each partition that it does not read."""
        positions = dict(found)
        if targets is not None:
            ends = {where: min(end, targets.get(where, 0)) for where, end in ends.items()}
        reached = limited({where: positions[where].start for where in ends}, ends, most)
        for where, end in reached.items():
            positions[where] = positions[where]._replace(end=end)
        return positions

    def _moved(
        self, view: MemberView, positions: Positions, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Position]:
        """Return where partitions are read on whose log does not have their position: at its end, or at the
        first record that is still there.

        If that is an error, it comes before Spark fixes the batch: the group's offsets can be set then.
        """
        moved = {}
        for where, end in ends.items():
            start, _, epoch = positions[where]
            if end < start:
                self._lose(f"{where} ends at offset {end}, before {start}")
                moved[where] = Position(end, end, max(view.epoch, epoch + 1))
        behind = [where for where, end in ends.items() if positions[where].start < end]
        for where, first in self._existing_offsets(behind, EARLIEST).items():
            start, _, epoch = positions[where]
            if start < first:
                self._lose(f"{where} begins at offset {first}, and {start} is not there")
                moved[where] = Position(first, first, epoch)
        return moved

    def _unfinished(
        self, start: StreamOffsets, view: MemberView, targets: Mapping[TopicPartition, int]
    ) -> frozenset[TopicPartition]:
        """Return the partitions that the coordinator took away before they were read and committed.

        It fences a member whose heartbeats do not arrive, for example. Paused partitions are left out.
        """
        ends = {where: position.end for where, position in start.positions.items()}
        unfinished = {where for where, end in targets.items() if ends.get(where, 0) < end}
        unfinished |= {
            where for where, end in ends.items() if where in self._known and self._known[where].offset < end
        }
        missing = unfinished - view.assigned
        if not missing:
            return frozenset()
        existing = topics_that_exist(self.cluster, tuple({where.topic for where in missing}))
        there = frozenset(where for where in missing if where.topic in existing)
        return there - paused(self.cluster, self.options.group_id)

    def _since_joining(self, start: StreamOffsets) -> StreamOffsets:
        """Return where a new checkpoint starts now that no other member commits."""
        if start != self._initial:
            return start
        committed = fetch_offsets(self.cluster, self.options.group_id, start.positions)
        return replace(start, positions={**start.positions, **_positions_at(committed)})

    def _ends(self, view: MemberView, positions: Positions) -> dict[TopicPartition, int]:
        """Return the ends of the assigned partitions, without those of topics that were deleted.

        A position behind the first open transaction, by a reset or a former option, has nothing to read.
        """
        existing = topics_that_exist(self.cluster, tuple(view.topic_ids))
        there = [
            where
            for where in view.assigned
            if where.topic in existing and existing[where.topic].topic_id == view.topic_ids[where.topic]
        ]
        ends = self._existing_offsets(there, LATEST, self._level)
        ahead = [where for where in ends if ends[where] < positions[where].start]
        if ahead and self.options.read.is_committed_only:
            log_ends = self._existing_offsets(ahead, LATEST)
            ends |= {where: min(log_ends[where], positions[where].start) for where in log_ends}
        return ends

    def _existing_offsets(
        self, partitions: Sequence[TopicPartition], which: int, level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        """Return first offsets or ends, without those of topics that are deleted at this moment."""
        there = list(partitions)
        deadline = time.monotonic() + self.options.read.timeout_s
        while True:
            try:
                return self.cluster.list_offsets(dict.fromkeys(there, which), level)
            except RequestRefused as refused:
                if refused.error not in _GONE or time.monotonic() > deadline:
                    raise
            existing = topics_that_exist(self.cluster, tuple({where.topic for where in there}))
            there = [where for where in there if where.topic in existing]
            time.sleep(_RETRY_S)

    def _commit(self, member: Membership, start: StreamOffsets) -> Committed:
        """Commit what is finished; repeat that if partitions are taken away meanwhile."""
        deadline = time.monotonic() + self.options.read.timeout_s
        while True:
            try:
                return self._try_to_commit(member, member.view(), start)
            except PartlyRefused as refused:
                if not _errors(refused) <= _TAKEN_AWAY or time.monotonic() > deadline:
                    raise
            self._seen = None
            time.sleep(_RETRY_S)

    def _try_to_commit(self, member: Membership, view: MemberView, start: StreamOffsets) -> Committed:
        owned = view.assigned | view.revoked
        seen = (view.epoch, view.lost, view.assigned)
        committed: Mapping[TopicPartition, CommittedOffset] = self._known
        if seen != self._seen:
            committed = fetch_offsets(self.cluster, self.options.group_id, owned) if owned else {}
            self._check_topics(start, view)
        new = [where for where in view.assigned if where not in committed and is_new(start, view, where)]
        first = self._existing_offsets(new, EARLIEST) if new else {}
        if deleted := set(new) - first.keys():  # the coordinator takes them away with a later heartbeat
            view = replace(view, assigned=view.assigned - deleted)
        step = next_step(start, view, committed, self._known, first, self._restored(start, view, committed))
        if step.lost:
            self._lose(f"{min(step.lost).topic} was deleted and created again")
        topic_ids = {**start.topic_ids, **view.topic_ids}
        _commit_existing(member, step.commits, view, topic_ids)
        self._known = {**self._known, **committed, **step.commits}
        self._seen = seen
        member.release(view.revoked)
        ends = self._ends(view, step.positions)
        moved = self._moved(view, step.positions, ends)
        commits = commits_of_moved(moved, step.positions, self._known)
        _commit_existing(member, commits, view, topic_ids)
        self._known = {**self._known, **commits}
        return Committed(view, {**step.positions, **moved}, ends)

    def _restored(
        self, start: StreamOffsets, view: MemberView, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, bool]:
        unclear = [
            where
            for where, before in start.positions.items()
            if where in view.assigned
            and where in committed
            and is_unclear(before, committed[where], self._known.get(where))
        ]
        return set_by_administrators(self.cluster, self.options.group_id, unclear)

    def _joined(self, stream_id: str) -> Membership:
        if self._member is None:
            self._member = join(self.options, stream_id, self.cluster)
            wanted = frozenset(self._existing(subscribed_topics(self.cluster, self.options)))
            wait_until_assigned(self._member, self.cluster, wanted, self.options.read.timeout_s)
        return self._member

    def _topics(self, *, is_first_start: bool) -> dict[TopicName, Topic]:
        """Return the subscribed topics, and report those that do not exist.

        At the first start nothing can be lost yet: most often the name is mistyped.
        """
        existing = subscribed_topics(self.cluster, self.options)
        for name in self.options.topics:
            if name not in existing:
                absent = absent_topic(self.cluster, self.options.read, name)
                if is_first_start and self.options.read.fail_on_data_loss:
                    raise MissingData(f"{absent}; a topic must exist before the stream starts")
                self._lose(absent)
        return existing

    def _existing(self, topics: Mapping[TopicName, Topic]) -> list[TopicPartition]:
        return [TopicPartition(name, each) for name in topics for each in topics[name].partitions]

    def _check_topics(self, start: StreamOffsets, view: MemberView) -> None:
        """Report topics of the stream that were deleted."""
        absent = {where.topic for where in start.positions} - view.topic_ids.keys()
        gone = absent - topics_that_exist(self.cluster, tuple(absent)).keys() if absent else set()
        for name in sorted(gone - self._gone):
            self._lose(f"topic {name} was deleted")
        self._gone = gone

    def _starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets of `startingOffsets`. One outside of the log would be committed for ever."""
        default, given = self.options.starting_default, self.options.starting_offsets
        wanted = {where: given.get(where, default) for where in partitions}
        words = {where: offset for where, offset in wanted.items() if offset < 0}
        numbers = wanted.keys() - words.keys()
        found = wanted | self.cluster.list_offsets(words, self._level)
        first = self.cluster.list_offsets(dict.fromkeys(numbers, EARLIEST))
        end = self.cluster.list_offsets(dict.fromkeys(numbers, LATEST))
        for where in sorted(numbers):
            if not first[where] <= wanted[where] <= end[where]:
                bounds = f"{first[where]} to {end[where]}"
                self._lose(f"startingOffsets has {wanted[where]} for {where}, which has offsets {bounds}")
                found[where] = min(max(wanted[where], first[where]), end[where])
        return found

    def _check_given(self, partitions: Collection[TopicPartition]) -> None:
        """Refuse `startingOffsets` of partitions that do not exist. Raises OptionError."""
        topics = {where.topic for where in partitions}
        given = {where for where in self.options.starting_offsets if where.topic in topics}
        if strangers := sorted(given.difference(partitions)):
            names = ", ".join(map(str, strangers))
            raise OptionError(f"option startingOffsets names partitions that do not exist: {names}")

    def _lose(self, what: str) -> None:
        """Report that records may be lost: an error, or a line on standard error."""
        if self.options.read.fail_on_data_loss:
            raise MissingData(f"{what}; set failOnDataLoss to false to read what there is")
        print(f"headgate: {what}; what is missing is skipped", file=sys.stderr)


def _positions_at(committed: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, Position]:
    """Return the empty parts of a batch at committed offsets."""
    return {
        where: Position(each.offset, each.offset, epoch_in(each.metadata) or 0)
        for where, each in sorted(committed.items())
    }


def _commit_existing(
    member: Membership,
    commits: Mapping[TopicPartition, CommittedOffset],
    view: MemberView,
    topic_ids: Mapping[TopicName, TopicId],
) -> None:
    """Commit offsets, if there are any, and pass over those of deleted topics. Raises as `commit`."""
    if not commits:
        return
    try:
        member.commit(commits, view, topic_ids)
    except PartlyRefused as refused:
        if not _errors(refused) <= _GONE:
            raise


def _errors(refused: PartlyRefused[TopicPartition]) -> set[ErrorCode | None]:
    return {error.error for error in refused.refused.values()}
