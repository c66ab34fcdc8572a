"""A shard under test: every command is decided, applied and replayed, and the two lives must agree.

What the harness checks at each step, whatever the test is about:

* `handle` leaves durable state alone; `apply` makes it;
* the records survive their bytes;
* a fresh shard that reads all records so far has the same durable state;
* a group that is Stable or Empty is what its record says;
* no request is answered twice, and none that was never made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Literal

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.core.kinds_of_shard import classic_groups, consumer_groups, share_groups

from headgate.core.classic.commands import Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from headgate.core.classic.group import ClassicGroup
from headgate.core.classic.state import ClassicState
from headgate.core.commands import RetentionConfigured, Tick
from headgate.core.consumer.group import ConsumerGroup, tombstone_of
from headgate.core.contract import Producer, Token, TransactionEnd
from headgate.core.groups import GroupCounts
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitTransactionalOffsets,
    EndTransaction,
    FetchOffsets,
    OffsetToCommit,
)
from headgate.core.offsets.stored import StoredOffset
from headgate.core.shard import GroupShard
from headgate.core.share.membership.group import ShareGroup
from headgate.core.share.membership.group import tombstone_of as share_tombstone_of
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import Change, GroupMetadata, PausedPartitions, Record, decode, encode
from headgate.records.columns import records_of

START = Millis(1_700_000_000_000)

Durable = tuple[
    dict[tuple[str, str, int], StoredOffset],
    frozenset[str],
    dict[GroupId, GroupMetadata],
    dict[GroupId, tuple[object, ...]],
    dict[GroupId, PausedPartitions],
    dict[int, dict[tuple[str, str, int], tuple[object, ...] | None]],
]
Log = list[tuple[bytes, bytes | None]]
Marks = dict[int, Producer | TransactionEnd]
"""By position in the log: whose transaction a record is part of, or which one it ends."""


def count_by_state(shard: GroupShard) -> Counter[str]:
    """The number of groups by the name of their state, as the metrics have them."""
    steps = shard.counting_groups_by_state()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            counts: GroupCounts = end.value
            return counts.groups


def durable_state(shard: GroupShard) -> Durable:
    """Everything `apply` makes: offsets, the groups known by them, the groups' records, and what is paused.

    Of consumer groups also what follows from their records, so that it is right whatever order they came in.
    """
    known = frozenset(shard.offsets.group_ids())
    return (
        {
            (group_id, topic, partition): stored
            for group_id in {*known, *classic_groups(shard).recorded, *consumer_groups(shard).by_id}
            for topic, partition, stored in shard.offsets.offsets_of(group_id)
        },
        known,
        dict(classic_groups(shard).recorded),
        {
            **{group_id: _all_of(group) for group_id, group in consumer_groups(shard).by_id.items()},
            **{group_id: _all_of_share(group) for group_id, group in share_groups(shard).by_id.items()},
        },
        dict(shard.paused.by_group),
        _pending_of(shard),
    )


def _pending_of(shard: GroupShard) -> dict[int, dict[tuple[str, str, int], tuple[object, ...] | None]]:
    """The pending offsets of each producer, without their positions, which compaction of a list changes."""
    found: dict[int, dict[tuple[str, str, int], tuple[object, ...] | None]] = {}
    for producer, (group_id, topic), partitions in shard.pending.copy():
        for partition, one in partitions.items():
            value = None if one is None else one[1:]
            found.setdefault(producer.producer_id, {})[group_id, topic, partition] = value
    return found


def _all_of_share(group: ShareGroup) -> tuple[object, ...]:
    return {share_tombstone_of(record): record for record in group.records()}, group.topics


def _all_of(group: ConsumerGroup) -> tuple[object, ...]:
    return (
        {tombstone_of(record): record for record in group.records()},
        {topic_id: dict(owners) for topic_id, owners in group.owners.items()},
        dict(group.instances),
        dict(group.subscriptions.readers),
        dict(group.subscriptions.regex_users),
        dict(group.assignor_votes),
        group.classic_members,
        dict(group.classic_protocols),
        group.has_lost_members,
    )


def volatile_state(shard: GroupShard) -> tuple[object, ...]:
    """What a shard keeps beside durable state: after a load the same, however the shard was loaded."""
    deadlines = shard._deadlines
    return (
        {timer: deadlines.due_at(timer) for timer in deadlines._entries},
        {group_id: (group.state, group.metadata()) for group_id, group in classic_groups(shard).live.items()},
        frozenset(consumer_groups(shard).verified),
        dict(consumer_groups(shard).patterns._changed),
    )


class Harness:
    """One shard with a clock, a log in memory, and the answers it gave."""

    def __init__(self, **settings: str) -> None:
        """Settings by Kafka's names, with `_` for `.`."""
        self.given = {name.replace("_", "."): value for name, value in settings.items()}
        self.settings = Settings(self.given)
        self.replays_each_step = True
        """Whether the log is replayed after every command that wrote to it."""
        self.now = START
        self.log: Log = []
        self.marks: Marks = {}
        self.answers: dict[Token, Any] = {}
        self.asked: set[Token] = set()
        self.batches: list[Sequence[Change]] = []
        self.loads_from: Literal["log", "image", "compacted"] = "log"
        """The data from which a shard starts after a crash."""
        self.keeps_tombstones = False
        """Whether a compacted log has them: they stay for a day."""
        self.lateness_ms: Iterator[int] = repeat(0)
        """How long after its deadline each tick comes: a loop that is busy, a machine that was suspended."""
        self._next_late_ms = 0
        self.ticks = 0
        """How many ticks there were."""
        self._last_token = 0
        self.own_retentions: dict[GroupId, int] = {}
        """Settings of groups: a new shard gets them before it is loaded, as in a server."""
        self.shard = self._new_shard()
        self.shard.loaded(self.now)

    # --- commands and time ---

    def send(self, command: Any) -> Token:
        """Hand a command in; the token to find its answer by."""
        self._last_token += 1
        self.asked.add(self._last_token)
        self._handle(command, self._last_token)
        return self._last_token

    def ask(self, command: Any) -> Any:
        """Hand a command in that is answered at once."""
        token = self.send(command)
        assert token in self.answers, f"{command} was not answered"
        return self.answers[token]

    def is_parked(self, token: Token) -> bool:
        """Whether a request still waits for its answer."""
        return token not in self.answers

    def advance(self, duration_ms: int) -> None:
        """Let time pass; what is due on the way happens when it is due, or later if ticks are late."""
        end = self.now + duration_ms
        while (deadline := self.shard.next_deadline()) is not None and deadline + self._next_late_ms <= end:
            self.now = Millis(max(self.now, deadline + self._next_late_ms))
            self._next_late_ms = next(self.lateness_ms)
            self.ticks += 1
            self._handle(Tick(), 0)
        self.now = Millis(end)

    def be_late(self, lateness_ms: Iterable[int]) -> None:
        """The next ticks come so long after their deadlines; those after them are in time."""
        self.lateness_ms = chain(lateness_ms, repeat(0))
        self._next_late_ms = next(self.lateness_ms)

    @property
    def next_late_ms(self) -> int:
        """How long after its deadline the next tick comes."""
        return self._next_late_ms

    def reload(self) -> None:
        """Crash: the shard starts again from its log, and no request in flight is answered.

        A log that was compacted leads to the same, and so does an image, but for groups known by nothing but
        offsets that were all removed: compaction takes the tombstones away.
        """
        replayed = self._replayed()
        restored = self._restored()
        compacted_log, compacted_marks = self._compacted()
        compacted = self._replayed(compacted_log, compacted_marks)
        for shard in (replayed, restored, compacted):
            shard.loaded(self.now)
        offsets, known, *groups = durable_state(replayed)
        assert durable_state(restored) == (offsets, known, *groups)
        with_offsets = {group_id for group_id, _, _ in offsets}
        compacted_offsets, compacted_known, *compacted_groups = durable_state(compacted)
        assert (compacted_offsets, compacted_groups) == (offsets, groups)
        assert with_offsets <= compacted_known | known
        for shard in (restored, compacted):
            assert volatile_state(shard) == volatile_state(replayed)
        self.shard = {"log": replayed, "image": restored, "compacted": compacted}[self.loads_from]
        if self.loads_from == "compacted":
            self.log, self.marks = compacted_log, compacted_marks
        self.asked = set(self.answers)

    def write(self, record: Record) -> None:
        """Have the log go on with a record that no command led to: the next `reload` finds it."""
        self.shard.apply(record, len(self.log))
        self.log.append(encode(record))

    def _new_shard(self) -> GroupShard:
        shard = GroupShard(self.settings)
        for group_id, retention_ms in self.own_retentions.items():
            shard.handle(RetentionConfigured(group_id, retention_ms), self.now)
        return shard

    def _restored(self) -> GroupShard:
        parts = list(self.shard.image())
        shard = self._new_shard()
        contents = self.shard.contents()
        for _ in shard.restore(lambda kind: iter([data for one, data in parts if one == kind]), contents):
            pass
        return shard

    def _compacted(self) -> tuple[Log, Marks]:
        """The last record of each key; without tombstones, unless they are young.

        What follows the first record of an open transaction stays. Records of aborted ones are removed.
        """
        end, is_aborted = self._transactions()
        last = {key: at for at, (key, _) in enumerate(self.log[:end]) if at not in is_aborted}
        log: Log = []
        marks: Marks = {}
        for position, (key, value) in enumerate(self.log):
            mark = self.marks.get(position)
            is_last = last.get(key) == position and (value is not None or self.keeps_tombstones)
            if position >= end or isinstance(mark, TransactionEnd) or is_last:
                if mark is not None:
                    marks[len(log)] = mark
                log.append((key, value))
        return log, marks

    def _transactions(self) -> tuple[int, set[int]]:
        """The position of the first record of an open transaction, or the log's end; the aborted records."""
        records: dict[int, list[int]] = {}
        aborted: set[int] = set()
        for position, mark in sorted(self.marks.items()):
            if isinstance(mark, TransactionEnd):
                ended = records.pop(mark.producer.producer_id, [])
                aborted.update(() if mark.is_committed else ended, [position])
            else:
                records.setdefault(mark.producer_id, []).append(position)
        return min((one[0] for one in records.values()), default=len(self.log)), aborted

    def _handle(self, command: Any, token: Token) -> None:
        before = durable_state(self.shard)
        effects = self.shard.handle(command, self.now, token)
        assert durable_state(self.shard) == before, "handle changed durable state"
        transaction = effects.transaction
        if isinstance(transaction, TransactionEnd):
            assert not effects.records
            self.shard.end_transaction(transaction, len(self.log))
            self.marks[len(self.log)] = transaction
            self.log.append((b"", None))
        else:
            for change in effects.records:
                self._apply(change, transaction)
        for reply in effects.replies:
            assert reply.token in self.asked, "an answer to nobody"
            assert reply.token not in self.answers, "answered twice"
            self.answers[reply.token] = reply.result
        if effects.records:
            self.batches.append(effects.records)
        if self.replays_each_step and (effects.records or transaction is not None):
            assert durable_state(self._replayed()) == durable_state(self.shard)
        self._check_groups()

    def _apply(self, change: Change, producer: Producer | None) -> None:
        self.shard.apply(change, len(self.log), producer)
        for record in records_of(change):
            key, value = encode(record)
            assert decode(key, value) == record
            if producer is not None:
                self.marks[len(self.log)] = producer
            self.log.append((key, value))

    def _replayed(self, log: Log | None = None, marks: Marks | None = None) -> GroupShard:
        shard = self._new_shard()
        marks = self.marks if marks is None else marks
        for position, (key, value) in enumerate(self.log if log is None else log):
            mark = marks.get(position)
            if isinstance(mark, TransactionEnd):
                shard.end_transaction(mark, position)
            else:
                shard.apply(decode(key, value), position, mark)
        return shard

    def _check_groups(self) -> None:
        for group_id, group in classic_groups(self.shard).live.items():
            if group.state is ClassicState.STABLE:
                recorded = classic_groups(self.shard).recorded[group_id]
                assert group.metadata() == ClassicGroup.of(recorded).metadata()

    # --- shorthand ---

    def configure_retention(self, group_id: str, retention_ms: int | None) -> None:
        """Set a group's own retention, or remove it."""
        if retention_ms is None:
            self.own_retentions.pop(GroupId(group_id), None)
        else:
            self.own_retentions[GroupId(group_id)] = retention_ms
        self.ask(RetentionConfigured(GroupId(group_id), retention_ms))

    def commit(
        self, group_id: str, topic: str = "t", partition: int = 0, offset: int = 1, **more: Any
    ) -> Any:
        """Commit one offset; the result."""
        to_commit = OffsetToCommit(partition, offset, -1, more.pop("metadata", ""))
        return self.ask(CommitOffsets(GroupId(group_id), [(TopicName(topic), [to_commit])], **more))

    def commit_in(
        self,
        producer: int,
        group_id: str = "g",
        topic: str = "t",
        partition: int = 0,
        offset: int = 1,
        **more: Any,
    ) -> Any:
        """Commit one offset in the transaction of a producer, in epoch 0 unless `epoch` is given."""
        to_commit = OffsetToCommit(partition, offset, -1, more.pop("metadata", ""))
        epoch = more.pop("epoch", 0)
        asked = CommitOffsets(
            GroupId(group_id), [(TopicName(topic), [to_commit])], is_transactional=True, **more
        )
        return self.ask(CommitTransactionalOffsets(asked, Producer(producer, epoch)))

    def end(self, producer: int, *, is_committed: bool = True, epoch: int = 0) -> Any:
        """End the transaction of a producer."""
        return self.ask(EndTransaction(TransactionEnd(Producer(producer, epoch), is_committed)))

    def offset(self, group_id: str, topic: str = "t", partition: int = 0) -> int | None:
        """The committed offset, as a fetch finds it."""
        fetched = self.ask(FetchOffsets(GroupId(group_id), [(TopicName(topic), [partition])]))
        stored = fetched.topics[0][1][0][1]
        return None if stored is None else int(stored.offset)

    def state(self, group_id: str) -> ClassicState:
        """The state of a group that lives or has a record."""
        group = classic_groups(self.shard).look(GroupId(group_id))
        assert group is not None
        return group.state

    def stable_group(self, *member_ids: str, group_id: str = "g", **more: Any) -> int:
        """A stable group of dynamic members with these ids, the first being the leader; its generation."""
        tokens = [
            self.send(join(new_member_id=one, group_id=group_id, must_know_member_id=False, **more))
            for one in member_ids
        ]
        while self.is_parked(tokens[0]):
            self.advance(500)
        generation = int(self.answers[tokens[0]].generation)
        assignments = tuple((MemberId(one), one.encode()) for one in member_ids)
        for one in reversed(member_ids):
            self.send(sync(one, generation, group_id=group_id, assignments=assignments))
        assert self.state(group_id) is ClassicState.STABLE
        return generation


LOADS_FROM = st.sampled_from(["log", "image", "compacted"])

RANDOM_LIVES = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
"""How much of its time a state machine of groups is tried."""


def join(**changes: Any) -> JoinGroup:
    """A join of a new dynamic consumer, but for the changes."""
    values: dict[str, Any] = {
        "group_id": "g",
        "new_member_id": "new",
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", b""),),
    }
    return JoinGroup(**(values | changes))


def sync(member_id: str, generation: int, *, group_id: str = "g", **changes: Any) -> SyncGroup:
    """A sync of a member."""
    return SyncGroup(
        group_id=GroupId(group_id), member_id=MemberId(member_id), generation=generation, **changes
    )


def heartbeat(
    member_id: str, generation: int, *, group_id: str = "g", instance_id: str | None = None
) -> Heartbeat:
    """A heartbeat of a member."""
    return Heartbeat(
        group_id=GroupId(group_id),
        member_id=MemberId(member_id),
        generation=generation,
        instance_id=None if instance_id is None else InstanceId(instance_id),
    )


def leave(*members: tuple[str, str | None], group_id: str = "g") -> LeaveGroup:
    """Members leave, each named by member id and instance id."""
    return LeaveGroup(
        group_id=GroupId(group_id),
        members=tuple(
            LeavingMember(MemberId(member_id), None if instance_id is None else InstanceId(instance_id))
            for member_id, instance_id in members
        ),
    )


NONE = ErrorCode.NONE
