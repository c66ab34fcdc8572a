"""Pauses beside offsets that wait for the end of a transaction: the order of the log decides.

What an administrator sets while a partition is paused is a plain commit. It wins over what is pending then,
and not over what a later owner commits in the same transaction. The machine keeps for every accepted commit
its number: the committed offset is that with the greatest one, as soon as it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from tests.core.consumer.support import SESSION_TIMEOUT_MS, Client, G, settle, topics
from tests.core.harness import LOADS_FROM, RANDOM_LIVES, leave
from tests.core.kinds_of_shard import classic_groups, consumer_groups
from tests.core.migration.test_upgrade import classic_group
from tests.core.pause.support import PauseHarness
from tests.core.pause.test_pause_model import PAIRS, SOME, Pair, PausedGroupMachine

from headgate.core.commands import DeleteGroup, DeleteTopicOffsets
from headgate.core.contract import Producer
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteOffsets,
    FetchOffsets,
    OffsetToCommit,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, TopicName

NONE = ErrorCode.NONE
PRODUCERS = st.integers(1, 3)
OUTCOMES = pytest.mark.parametrize("is_committed", [True, False])
RELOADS = pytest.mark.parametrize("reload_at", range(5))


def unstable(h: PauseHarness) -> set[Pair]:
    """Return the partitions without a stable offset."""
    found = h.ask(FetchOffsets(G, None, require_stable=True)).unstable
    return {(name, partition) for name, partitions in found.items() for partition in partitions}


class TransactionalPauseMachine(PausedGroupMachine):
    """The group, clients and administrators of the other model, and three producers."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[Pair, int] = {}
        """Which accepted commit the committed offset is of."""
        self.last_number = 0
        self.pending: dict[int, dict[Pair, tuple[int, int]]] = {}
        """By producer: number and offset of what waits."""

    def next_number(self) -> int:
        self.last_number += 1
        return self.last_number

    # --- plain commits ---

    @rule(pairs=SOME)
    def reset(self, pairs: list[Pair]) -> None:
        """As in the other model."""
        is_accepted = self.released.issuperset(pairs) or (
            self.paused.issuperset(pairs) and all(self.owner_of(pair) is None for pair in pairs)
        )
        super().reset(pairs)
        if is_accepted:
            self.numbers.update(dict.fromkeys(pairs, self.next_number()))

    def accepted(self, wanted: list[Pair]) -> None:
        """A commit of a member was accepted."""
        super().accepted(wanted)
        self.numbers.update(dict.fromkeys(wanted, self.next_number()))

    @rule(pair=PAIRS)
    def delete(self, pair: Pair) -> None:
        """An administrator deletes an offset, with what waits for the partition."""
        name, partition = TopicName(pair[0]), pair[1]
        result = self.h.ask(DeleteOffsets(G, [(name, [partition])]))
        if result.topics[0][1] is NONE:
            self.offsets.pop(pair, None)
            self.numbers.pop(pair, None)
            for waiting in self.pending.values():
                waiting.pop(pair, None)

    # --- transactions ---

    @rule(producer=PRODUCERS, pairs=SOME, number=st.none() | st.integers(0, 4))
    def commit_in(self, producer: int, pairs: list[Pair], number: int | None) -> None:
        """As a member in its present epoch, or as nobody: what is paused needs an owner."""
        member_id, epoch = MemberId(""), -1
        if number is not None:
            member_id = self.clients[number].member_id
            member = self.h.group.find_member(member_id)
            if member is None or member.member_epoch < 0:
                return
            epoch = member.member_epoch
        offset = 10_000 + self.next_number()
        to_commit = [(TopicName(name), [OffsetToCommit(one, offset, -1, "")]) for name, one in pairs]
        asked = CommitOffsets(
            G, to_commit, member_id, epoch, knows_group_not_found=False, is_transactional=True
        )
        result = self.h.ask(CommitTransactionalOffsets(asked, Producer(producer, 0)))
        owners = {self.owner_of(pair) for pair in pairs if pair in self.paused}
        is_withheld = None in owners or (number is not None and bool(owners - {member_id}))
        assert result.error is (ErrorCode.ILLEGAL_GENERATION if is_withheld else NONE)
        if result.error is NONE:
            waiting = self.pending.setdefault(producer, {})
            waiting.update(dict.fromkeys(pairs, (self.last_number, offset)))

    @rule(producer=PRODUCERS, is_committed=st.booleans())
    def end(self, producer: int, is_committed: bool) -> None:
        """The marker comes, whatever has become of the partitions."""
        assert self.h.end(producer, is_committed=is_committed) is NONE
        for pair, (number, offset) in self.pending.pop(producer, {}).items():
            if is_committed and number > self.numbers.get(pair, -1):
                self.offsets[pair], self.numbers[pair] = offset, number

    @rule(loads_from=LOADS_FROM)
    def load_from_a_compacted_log(self, loads_from: Any) -> None:
        """In place of the other model's rule, which knows no transactions."""
        self.crash(loads_from)

    @invariant()
    def what_waits_is_unstable(self) -> None:
        """Also if a later commit took its value."""
        assert unstable(self.h) == {pair for waiting in self.pending.values() for pair in waiting}


TransactionalPauseMachine.TestCase.settings = RANDOM_LIVES
TestTransactionalPauses = pytest.mark.interpreted(TransactionalPauseMachine.TestCase)


# --- one partition, step by step, with a crash before any of them ---


def pending_and_paused(h: PauseHarness) -> Iterator[Client]:
    """Commit in a transaction, pause, and let the partition be released; yield between the steps."""
    client = Client(h, "m", ("t",))
    settle(client)
    assert h.commit_in_transaction_as("m", client.epoch, ("t", 1)) is NONE
    yield client
    h.pause(("t", 1))
    yield client
    settle(client)
    yield client


def with_a_crash(h: PauseHarness, steps: Iterator[Client], reload_at: int) -> Client:
    """Take all steps, and crash after one of them."""
    client = None
    for at, client in enumerate(steps):
        if at == reload_at:
            h.reload()
            settle(client)
    assert client is not None
    return client


@OUTCOMES
@RELOADS
def test_a_rewind_beside_a_pending_offset_remains(is_committed: bool, reload_at: int) -> None:
    """Whatever becomes of the transaction; and nobody gets the offset as a stable one before that."""
    h = PauseHarness()

    def steps() -> Iterator[Client]:
        for client in pending_and_paused(h):
            yield client
        assert h.reset(("t", 1), offset=50) is NONE
        yield client
        assert unstable(h) == {("t", 1)}
        assert h.end(7, is_committed=is_committed) is NONE
        yield client

    with_a_crash(h, steps(), reload_at)
    assert h.offset(G, partition=1) == 50
    assert not unstable(h)


@RELOADS
def test_what_the_next_owner_commits_in_the_same_transaction_is_later_than_the_rewind(reload_at: int) -> None:
    """It began at the offset that was set."""
    h = PauseHarness()

    def steps() -> Iterator[Client]:
        for client in pending_and_paused(h):
            yield client
        assert h.reset(("t", 1), offset=50) is NONE
        refused = h.commit_in_transaction_as("m", client.epoch, ("t", 1))
        assert refused is ErrorCode.ILLEGAL_GENERATION
        yield client
        h.resume(("t", 1))
        settle(client)
        assert h.commit_in_transaction_as("m", client.epoch, ("t", 1)) is NONE
        yield client

    with_a_crash(h, steps(), reload_at)
    assert h.offset(G, partition=1) == 50
    h.end(7)
    assert h.offset(G, partition=1) == 9


@OUTCOMES
def test_neither_pause_nor_pending_offset_lets_an_offset_expire(is_committed: bool) -> None:
    """The group is empty for longer than its retention; then both end, and the clock begins."""
    h = PauseHarness(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    client = Client(h, "m", ("t",))
    settle(client)
    assert h.commit_as("m", client.epoch, ("t", 0), ("t", 1)) is NONE
    assert h.commit_in_transaction_as("m", client.epoch, ("t", 1)) is NONE
    h.pause(("t", 1))
    h.advance(SESSION_TIMEOUT_MS)
    assert h.group.is_empty
    h.advance(5 * 60_000)
    assert [h.offset(G, partition=one) for one in (0, 1)] == [7, 7]
    h.resume(("t", 1))
    h.reload()
    h.advance(5 * 60_000)
    assert [h.offset(G, partition=one) for one in (0, 1)] == [None, 7], "the other one waits for its marker"
    h.end(7, is_committed=is_committed)
    assert h.offset(G, partition=1) == (9 if is_committed else 7)
    h.advance(5 * 60_000)
    assert h.offset(G, partition=1) is None
    assert consumer_groups(h.shard).find(G) is None


@OUTCOMES
@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_group_that_is_deleted_takes_pause_and_pending_offsets_with_it(
    is_committed: bool, is_reloaded: bool
) -> None:
    """The marker that comes later commits nothing, not even into a group of the same name."""
    h = PauseHarness()
    with_a_crash(h, pending_and_paused(h), -1)
    h.advance(SESSION_TIMEOUT_MS)
    assert h.ask(DeleteGroup(G)) is NONE
    assert not h.shard.paused.by_group
    if is_reloaded:
        h.reload()
    h.end(7, is_committed=is_committed)
    assert h.offset(G, partition=1) is None
    assert not unstable(h)


@OUTCOMES
def test_a_topic_that_is_deleted_takes_pause_and_pending_offsets_with_it(is_committed: bool) -> None:
    """One of the same name begins without either."""
    h = PauseHarness()
    with_a_crash(h, pending_and_paused(h), -1)
    h.change_topics(topics(t=0))
    h.ask(DeleteTopicOffsets(TopicName("t")))
    h.change_topics(topics(t=3, life=1))
    h.end(7, is_committed=is_committed)
    assert h.offset(G, partition=1) is None
    assert not h.shard.paused.by_group


@OUTCOMES
@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("is_reloaded", [False, True])
def test_what_a_classic_member_left_pending_is_paused_in_the_new_protocol(
    is_committed: bool, is_reset: bool, is_reloaded: bool
) -> None:
    """The group does not go back to the old one meanwhile, whose members would assign what is paused."""
    h = classic_group(harness_type=PauseHarness)
    assert isinstance(h, PauseHarness)
    assert h.commit_in_transaction_as("a", 1, ("t", 1)) is NONE
    h.join("x", "t")
    h.pause(("t", 1))
    assert h.reset(("t", 1)) is ErrorCode.REBALANCE_IN_PROGRESS, "the classic member has it"
    h.beat("x", -1)
    assert G not in classic_groups(h.shard).live and set(h.group.members) == {"a"}
    h.ask(leave(("a", None), group_id=G))
    if is_reloaded:
        h.reload()
    if is_reset:
        assert h.reset(("t", 1), offset=50) is NONE
    assert unstable(h) == {("t", 1)}
    assert h.end(7, is_committed=is_committed) is NONE
    assert h.offset(G, partition=1) == (50 if is_reset else 9 if is_committed else None)
    assert set(h.paused()) == {("t", 1)}
