"""A kind of groups that is added by the list of kinds alone.

Queues have a number of members, which a command sets. Their members leave together when their time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

import pytest
from tests.core.harness import START, count_by_state, join

from headgate.core.commands import DeleteGroup, ListedGroup, ListGroups, Tick
from headgate.core.consumer.commands import ConsumerHeartbeat
from headgate.core.contract import Effects, Token
from headgate.core.effects import answer
from headgate.core.groups import Groups
from headgate.core.kinds import CommitCheck, FetchCheck, GroupCommands, GroupKind, Handler, ShardContext
from headgate.core.offsets.commands import CommitOffsets, DeleteOffsets, FetchOffsets, OffsetToCommit
from headgate.core.offsets.expiry import Aging, GroupClock
from headgate.core.shard import GroupShard
from headgate.core.standard_kinds import standard_kinds
from headgate.core.timers import Timer
from headgate.core.topic_image import TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, Millis, TopicName
from headgate.domain.settings import Settings

MINUTE = 60_000
Q = GroupId("q")
T = TopicName("t")
NONE = ErrorCode.NONE


class Queue(NamedTuple):
    """The record of a queue."""

    group_id: GroupId
    members: int
    since: Millis


class QueueTombstone(NamedTuple):
    group_id: GroupId


class SetMembers(NamedTuple):
    group_id: GroupId
    members: int


class DescribeQueue(NamedTuple):
    group_id: GroupId


class QueueTimer(IntEnum):
    LEAVE = 100


class Queues:
    """Both parts of the kind."""

    NAME: ClassVar[str] = "queue"
    RECORD_TYPES: ClassVar[frozenset[type[Any]]] = frozenset({Queue, QueueTombstone})
    TIMERS: ClassVar[Mapping[IntEnum, bool]] = {QueueTimer.LEAVE: True}

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.by_id: dict[GroupId, Queue] = {}
        self.is_loaded = False

    def apply(self, record: Any) -> bool:
        if isinstance(record, QueueTombstone):
            self.by_id.pop(record.group_id, None)
            return True
        self.by_id[record.group_id] = record
        return False

    def current_record(self, record: Any) -> Any:
        return self.by_id.get(record.group_id)

    def records_of(self, group_id: GroupId) -> list[Any]:
        return [self.by_id[group_id]] if group_id in self.by_id else []

    def loaded(self, now: Millis) -> None:
        self.is_loaded = True

    def topics_changed(self, command: TopicsChanged, now: Millis) -> None:
        pass

    def group_ids(self) -> Sequence[GroupId]:
        return list(self.by_id)

    def holds(self, group_id: GroupId) -> bool:
        return group_id in self.by_id

    def listed(self, group_id: GroupId) -> ListedGroup | None:
        queue = self.by_id.get(group_id)
        return queue and ListedGroup(group_id, "queues", "Busy" if queue.members else "Empty", self.NAME)

    def member_count(self, group_id: GroupId) -> int:
        return self.by_id[group_id].members if group_id in self.by_id else 0

    def is_empty(self, group_id: GroupId) -> bool:
        return group_id in self.by_id and not self.by_id[group_id].members

    def tombstones(self, group_id: GroupId) -> list[Any]:
        return [QueueTombstone(group_id)]

    def commit_check(self) -> CommitCheck:
        def error(queue: Queue, command: CommitOffsets, now: Millis) -> ErrorCode:
            return NONE if command.member_id == "m" else ErrorCode.UNKNOWN_MEMBER_ID

        return self.by_id, error

    def fetch_check(self) -> FetchCheck:
        def error(queue: Queue, command: FetchOffsets) -> ErrorCode:
            return NONE if command.member_id is None else ErrorCode.STALE_MEMBER_EPOCH

        return self.by_id, error

    def delete_error(self, group_id: GroupId) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.by_id[group_id].members else NONE

    def subscription_of(self, group_id: GroupId) -> Callable[[TopicName], bool]:
        return lambda topic: topic == "read"

    def clock_of(self, group_id: GroupId) -> GroupClock:
        queue = self.by_id[group_id]
        return GroupClock(Aging.HELD if queue.members else Aging.SINCE_STATE, queue.since)

    def handlers(self) -> Mapping[type[Any], Handler]:
        return {SetMembers: self.set_members, DescribeQueue: self.describe}

    def set_members(self, command: SetMembers, now: Millis, token: Token) -> Effects[Any]:
        self.context.deadlines.set(Timer(QueueTimer.LEAVE, command.group_id), Millis(now + 30 * MINUTE))
        return Effects([Queue(command.group_id, command.members, now)], answer(token, NONE).replies)

    def describe(self, command: DescribeQueue, now: Millis, token: Token) -> Effects[Any]:
        return answer(token, self.by_id.get(command.group_id, ErrorCode.GROUP_ID_NOT_FOUND))

    def on_timer(self, timer: Timer, now: Millis) -> Effects[Any]:
        return Effects([Queue(GroupId(timer.group_id), 0, now)])

    def pausing(self) -> None:
        return None


def kinds(context: ShardContext, groups: Groups) -> Sequence[tuple[GroupKind, GroupCommands]]:
    queues = Queues(context)
    return (*standard_kinds(context, groups), (queues, queues))


class Life:
    """A shard with queues, and its clock."""

    def __init__(self) -> None:
        given = {"offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": str(MINUTE)}
        self.shard = GroupShard(Settings(given), kinds)
        self.shard.loaded(START)
        self.now = START
        self.records: list[Any] = []

    def ask(self, command: Any) -> Any:
        effects = self.shard.handle(command, self.now, 1)
        for record in effects.records:
            self.shard.apply(record, 0)
            self.records.append(record)
        return effects.replies[0].result if effects.replies else None

    def advance(self, duration_ms: int) -> None:
        end = Millis(self.now + duration_ms)
        while (deadline := self.shard.next_deadline()) is not None and deadline <= end:
            self.now = Millis(max(self.now, deadline))
            self.ask(Tick())
        self.now = end

    def commit(self, group_id: GroupId, member_id: str = "", generation: int = -1) -> Any:
        to_commit = [(T, [OffsetToCommit(0, 7, -1, "")])]
        command = CommitOffsets(group_id, to_commit, member_id=MemberId(member_id), generation=generation)
        return self.ask(command).error

    def offset(self) -> int | None:
        stored = self.shard.offsets.get(Q, T, 0)
        return None if stored is None else stored.offset


@pytest.fixture
def life() -> Life:
    """With a queue of two members that committed, and a group that only committed."""
    life = Life()
    life.ask(SetMembers(Q, 2))
    assert life.commit(Q, "m", 1) == NONE
    assert life.commit(GroupId("simple")) == NONE
    return life


def test_it_is_listed_counted_and_described(life: Life) -> None:
    """By its own name, with the groups of other kinds."""
    simple = ListedGroup(GroupId("simple"), "", "Empty", "classic")
    queue = ListedGroup(Q, "queues", "Busy", "queue")
    assert life.ask(ListGroups()).groups == (queue, simple)
    assert life.ask(ListGroups(types=frozenset({"Queue"}))).groups == (queue,)
    assert count_by_state(life.shard) == {"Busy": 1, "Empty": 1}
    assert life.ask(DescribeQueue(Q)) == Queue(Q, 2, START)
    tombstone: Any = QueueTombstone(Q)
    standing: Any = life.shard.current_record(tombstone)
    assert standing == Queue(Q, 2, START)


def test_it_refuses_commits_fetches_and_deletions_of_offsets(life: Life) -> None:
    """By its own rules; groups of other kinds have theirs."""
    assert life.commit(Q) == life.commit(Q, "other", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert life.ask(FetchOffsets(Q, [(T, [0])])).topics[0][1][0][1].offset == 7
    named = FetchOffsets(Q, [(T, [0])], member_id=MemberId("m"), member_epoch=1)
    assert life.ask(named) == ErrorCode.STALE_MEMBER_EPOCH
    deletion = DeleteOffsets(Q, [(T, [0]), (TopicName("read"), [0])])
    assert life.ask(deletion).error == ErrorCode.NON_EMPTY_GROUP
    life.ask(SetMembers(Q, 0))
    assert life.ask(deletion).topics == [
        (T, NONE),
        (TopicName("read"), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
    ]
    assert life.offset() is None


def test_its_offsets_age_by_its_own_clock(life: Life) -> None:
    """They are kept until its deadline removes its members; those of the group that only commits expire."""
    life.advance(29 * MINUTE)
    assert (life.offset(), life.shard.groups.type_of(GroupId("simple"))) == (7, None)
    life.advance(10 * MINUTE)
    assert (life.offset(), life.ask(DescribeQueue(Q)).members) == (7, 0)
    life.advance(3 * MINUTE)
    assert (life.offset(), life.ask(DescribeQueue(Q))) == (None, ErrorCode.GROUP_ID_NOT_FOUND)
    assert life.records[-1] == QueueTombstone(Q)


def test_it_is_deleted_when_it_is_empty(life: Life) -> None:
    """With its offsets, by its own tombstone."""
    assert life.ask(DeleteGroup(Q)) == ErrorCode.NON_EMPTY_GROUP
    life.ask(SetMembers(Q, 0))
    assert life.ask(DeleteGroup(Q)) == NONE
    assert (life.records[-1], life.offset()) == (QueueTombstone(Q), None)
    assert life.ask(DeleteGroup(Q)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert not life.shard.offsets.has_group(Q)


@pytest.mark.parametrize("members", [0, 2])
def test_members_of_other_kinds_cannot_join_it(life: Life, members: int) -> None:
    """Neither protocol converts a queue."""
    life.ask(SetMembers(Q, members))
    assert life.ask(join(group_id=Q)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    heartbeat = ConsumerHeartbeat(
        group_id=Q,
        member_id=MemberId("m"),
        member_epoch=0,
        rebalance_timeout_ms=MINUTE,
        subscribed_topic_names=(T,),
        reported=[],
    )
    assert life.ask(heartbeat).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert life.shard.groups.type_of(Q) == "queue"
