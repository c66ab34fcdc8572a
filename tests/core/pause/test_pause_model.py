"""Paused partitions under random clients: invariants 13 to 15, with crashes between any two steps.

The clients are those of the model of consumer groups: they join, revoke when they like to, fall silent, and
commit late. Beside them administrators pause and resume partitions and set offsets. What the group must do is
kept here in plain sets, and checked after every step:

* what was paused and has been seen without an owner has none until it is resumed (13);
* the committed offset of every partition is the last one that was accepted (14): no member moves the offset
  of a released partition, and what an administrator sets is what the next owner fetches;
* pausing and resuming leaves the members as evenly loaded as they were (15).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from tests.core.consumer.support import Client, G, settle, topic_id
from tests.core.consumer.test_consumer_model import ConsumerGroupMachine, LateCommit
from tests.core.harness import RANDOM_LIVES
from tests.core.kinds_of_shard import consumer_groups
from tests.core.pause.support import PauseHarness

from headgate.core.offsets.commands import FetchOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName

Pair = tuple[str, int]
PAIRS = st.sampled_from([("t", 0), ("t", 1), ("t", 2), ("t", 3), ("u", 0), ("u", 1), ("u", 2)])
SOME = st.lists(PAIRS, min_size=1, max_size=4, unique=True)
NONE = ErrorCode.NONE


class PausedGroupMachine(ConsumerGroupMachine):
    """One group, five clients, and administrators."""

    h: PauseHarness
    harness_type = PauseHarness

    def __init__(self) -> None:
        super().__init__()
        self.paused: set[Pair] = set()
        self.released: set[Pair] = set()
        """Those of them that were seen without an owner."""
        self.offsets: dict[Pair, int] = {}
        """What was accepted last."""
        self.number = 1000

    def owner_of(self, pair: Pair) -> str | None:
        """Who owns a partition or has not released it."""
        group = consumer_groups(self.h.shard).find(G)
        return None if group is None else group.owners.get(topic_id(pair[0]), {}).get(pair[1])

    # --- administrators ---

    @rule(pairs=SOME)
    def pause(self, pairs: list[Pair]) -> None:
        assert self.h.pause(*pairs).error is NONE
        self.paused.update(pairs)

    @rule(pairs=SOME)
    def resume(self, pairs: list[Pair]) -> None:
        assert self.h.resume(*pairs).error is NONE
        self.paused.difference_update(pairs)
        self.released.difference_update(pairs)

    @rule(pairs=SOME)
    def reset(self, pairs: list[Pair]) -> None:
        """All of them are set, or none."""
        self.number += 1
        if not self.paused.issuperset(pairs):
            expected = ErrorCode.UNKNOWN_MEMBER_ID
        elif any(self.owner_of(pair) is not None for pair in pairs):
            expected = ErrorCode.REBALANCE_IN_PROGRESS
        else:
            expected = NONE
            self.offsets.update(dict.fromkeys(pairs, self.number))
        assert self.h.reset(*pairs, offset=self.number) is expected

    # --- members ---

    def judge(self, commit: LateCommit, wanted: list[Pair]) -> None:
        """A commit to a paused partition counts as long as its sender owns it."""
        withheld = [pair for pair in wanted if pair in self.paused and not self.owns(commit.member_id, pair)]
        if not withheld:
            super().judge(commit, wanted)
            return
        error = self.h.commit_as(commit.member_id, commit.epoch, *wanted)
        assert error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID), withheld

    def accepted(self, wanted: list[Pair]) -> None:
        """A commit of a member was accepted."""
        self.offsets.update(dict.fromkeys(wanted, 7))

    @rule(pair=PAIRS, number=st.integers(0, 4))
    def commit_what_is_not_owned(self, pair: Pair, number: int) -> None:
        """In the present epoch, as a client with a fault does: accepted if it is not paused (R1.2)."""
        client = self.clients[number]
        member = self.h.group.find_member(client.member_id)
        if member is None or member.member_epoch < 0 or self.owns(client.member_id, pair):
            return
        error = self.h.commit_as(client.member_id, member.member_epoch, pair)
        assert error is (ErrorCode.STALE_MEMBER_EPOCH if pair in self.paused else NONE)
        if error is NONE:
            self.accepted([pair])

    # --- what holds after every step ---

    @invariant()
    def released_partitions_have_no_owner(self) -> None:
        """Invariant 13."""
        for pair in self.released:
            assert self.owner_of(pair) is None, f"{pair} was released, and is {self.owner_of(pair)}'s"
        self.released.update(pair for pair in self.paused if self.owner_of(pair) is None)

    @invariant()
    def offsets_are_the_last_accepted_ones(self) -> None:
        """Invariant 14."""
        asked = [(TopicName(name), [partition]) for name, partition in sorted(self.offsets)]
        fetched: Any = self.h.ask(FetchOffsets(G, asked)) if asked else None
        for name, ((partition, stored),) in fetched.topics if asked else ():
            assert stored is not None and stored.offset == self.offsets[name, partition]

    @invariant()
    def what_is_paused_is_what_was_asked_for(self) -> None:
        """After a load too."""
        if consumer_groups(self.h.shard).find(G) is not None:
            assert set(self.h.paused()) == self.paused

    def teardown(self) -> None:
        """With everything resumed the group is as any other."""
        self.h.resume(*self.paused)
        super().teardown()


PausedGroupMachine.TestCase.settings = RANDOM_LIVES
TestPausedGroup = pytest.mark.interpreted(PausedGroupMachine.TestCase)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@settings(max_examples=25, deadline=None)
@given(
    members=st.integers(1, 4),
    pauses=st.lists(st.tuples(SOME, st.booleans()), min_size=1, max_size=3),
    is_released=st.booleans(),
)
def test_a_pause_and_a_resume_leave_the_group_as_balanced_as_it_was(
    assignor: str, members: int, pauses: list[tuple[list[Pair], bool]], is_released: bool
) -> None:
    """Invariant 15: on how much each member has, not on what. While paused, all that may be assigned is."""
    h = PauseHarness({"t": 4, "u": 3}, group_consumer_assignors=assignor)
    h.replays_each_step = False
    clients = [Client(h, f"m{number}", ("t", "u")) for number in range(members)]
    settle(*clients)
    everything = frozenset(pair for client in clients for pair in client.owned)
    before = sorted(len(client.owned) for client in clients)
    paused: set[Pair] = set()
    for pairs, is_settled in pauses:
        h.pause(*pairs)
        paused.update(pairs)
        if is_settled or is_released:
            settle(*clients)
            assert frozenset(pair for client in clients for pair in client.owned) == everything - paused
    h.resume(*paused)
    settle(*clients)
    assert frozenset(pair for client in clients for pair in client.owned) == everything
    assert sorted(len(client.owned) for client in clients) == before
