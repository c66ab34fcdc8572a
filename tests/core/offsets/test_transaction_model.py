"""Random histories of transactional commits, beside Kafka's own rule, applied to the log.

The rule: keep what each producer commits with its position; a marker moves an offset to the committed ones if
its position is greater than that of the committed one; a tombstone removes both. The shard keeps no position
of committed offsets and must come to the same.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.core.harness import LOADS_FROM, Harness
from tests.core.shard_states import changes, state_of

from headgate.core.commands import DeleteGroup, DeleteTopicOffsets
from headgate.core.contract import Producer, TransactionEnd
from headgate.core.offsets import image, pending_image, table
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteOffsets,
    FetchOffsets,
    OffsetColumns,
    OffsetToCommit,
)
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, TopicName
from headgate.domain.settings import Settings
from headgate.records import OffsetCommit, OffsetTombstone, decode

Key = tuple[str, str, int]
groups = st.sampled_from(["g", "h"]).map(GroupId)
topics = st.sampled_from(["t", "u"]).map(TopicName)
partitions = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)
producers = st.integers(1, 3)
WIDE = 70


def by_kafkas_rule(h: Harness) -> tuple[dict[Key, int], set[Key]]:
    """The committed offsets and the keys of pending ones, from the log alone."""
    committed: dict[Key, tuple[int, int]] = {}
    pending: dict[int, dict[Key, tuple[int, int]]] = {}
    for position, (encoded, value) in enumerate(h.log):
        mark = h.marks.get(position)
        if isinstance(mark, TransactionEnd):
            for key, one in pending.pop(mark.producer.producer_id, {}).items():
                if mark.is_committed and one[0] > committed.get(key, (-1, 0))[0]:
                    committed[key] = one
            continue
        match decode(encoded, value):
            case OffsetCommit(group, topic, partition, offset):
                offsets = committed if mark is None else pending.setdefault(mark.producer_id, {})
                offsets[group, topic, partition] = position, offset
            case OffsetTombstone(group, topic, partition):
                for offsets in (committed, *pending.values()):
                    offsets.pop((group, topic, partition), None)
    return {key: offset for key, (_, offset) in committed.items()}, {
        key for one in pending.values() for key in one
    }


class Transactions(RuleBasedStateMachine):
    """Producers and consumers of two groups, deletions, reloads from a log, an image, a compacted log."""

    def __init__(self) -> None:
        super().__init__()
        self.h = Harness()
        self.offset = 0

    def _asked(self, group_id: GroupId, topic: TopicName, at: list[int], **more: Any) -> CommitOffsets:
        self.offset += 1
        if at[0] == 3:
            numbers = np.arange(WIDE)
            columns = OffsetColumns(numbers, numbers + 1000 * self.offset, np.full(WIDE, -1), "")
            return CommitOffsets(group_id, [(topic, columns)], **more)
        one_by_one = [OffsetToCommit(one, 1000 * self.offset + one, -1, "") for one in at]
        return CommitOffsets(group_id, [(topic, one_by_one)], **more)

    @rule(group_id=groups, topic=topics, at=partitions)
    def commit(self, group_id: GroupId, topic: TopicName, at: list[int]) -> None:
        self.h.ask(self._asked(group_id, topic, at))

    @rule(producer=producers, group_id=groups, topic=topics, at=partitions)
    def commit_in(self, producer: int, group_id: GroupId, topic: TopicName, at: list[int]) -> None:
        asked = self._asked(group_id, topic, at, is_transactional=True)
        self.h.ask(CommitTransactionalOffsets(asked, Producer(producer, 0)))

    @rule(producer=producers, is_committed=st.booleans())
    def end(self, producer: int, is_committed: bool) -> None:
        self.h.end(producer, is_committed=is_committed)

    @rule(group_id=groups, topic=topics, at=partitions)
    def delete_offsets(self, group_id: GroupId, topic: TopicName, at: list[int]) -> None:
        self.h.ask(DeleteOffsets(group_id, [(topic, at)]))

    @rule(group_id=groups)
    def delete_group(self, group_id: GroupId) -> None:
        self.h.ask(DeleteGroup(group_id))

    @rule(topic=topics)
    def delete_topic(self, topic: TopicName) -> None:
        self.h.ask(DeleteTopicOffsets(topic))

    @rule(loads_from=LOADS_FROM)
    def reload(self, loads_from: Any) -> None:
        self.h.loads_from = loads_from
        self.h.reload()

    @invariant()
    def agrees_with_kafkas_rule(self) -> None:
        committed, pending = by_kafkas_rule(self.h)
        found = {
            (group_id, topic, partition): stored.offset
            for group_id in ("g", "h")
            for topic, partition, stored in self.h.shard.offsets.offsets_of(GroupId(group_id))
        }
        assert found == committed
        unstable = set()
        for group_id in ("g", "h"):
            told = self.h.ask(FetchOffsets(GroupId(group_id), None, require_stable=True)).unstable
            unstable |= {(group_id, topic, one) for topic, at in told.items() for one in at}
        assert unstable == pending


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

steps = st.one_of(
    st.tuples(st.just("put"), changes, st.sampled_from([None, None, 1, 2])),
    st.tuples(st.just("end"), st.sampled_from([1, 2]), st.booleans()),
)
scripts = st.lists(steps, max_size=20)


def apply_all(shard: GroupShard, script: list[Any], first: int) -> None:
    """Apply a part of a log; each step is at its own position, with room for many records."""
    for position, step in enumerate(script, first):
        match step:
            case ("put", change, producer):
                of = None if producer is None else Producer(producer, 0)
                shard.apply(change, position * 1000, of)
            case ("end", producer, is_committed):
                shard.end_transaction(TransactionEnd(Producer(producer, 0), is_committed), position * 1000)


@given(scripts, st.lists(scripts, max_size=10), st.integers(0, 6))
@settings(deadline=None, max_examples=120)
def test_an_image_and_the_log_since_restore_open_transactions(
    before: list[Any], meanwhile: list[list[Any]], overlap: int
) -> None:
    """Transactions end between two parts of the image, and more of the log is applied than necessary."""
    with (
        patch.object(image, "_ROWS_A_PART", 5),
        patch.object(image, "_ROWS_A_PART_WITH_TEXTS", 3),
        patch.object(pending_image, "_OFFSETS_A_PART", 3),
        patch.object(table, "_ROWS_LEFT_BEHIND", 1),
    ):
        live = GroupShard(Settings({}))
        apply_all(live, before, 0)
        log = list(before)
        parts: list[tuple[str, bytes]] = []
        more = iter(meanwhile)
        for part in live.image():
            parts.append(part)
            following = next(more, [])
            apply_all(live, following, len(log))
            log += following
        contents = live.contents()
        again = GroupShard(Settings({}))
        for _ in again.restore(lambda kind: iter([data for one, data in parts if one == kind]), contents):
            pass
    bond = max(len(before) - overlap, 0)
    apply_all(again, log[bond:], bond)
    found, expected = state_of(again), state_of(live)
    assert found == expected
