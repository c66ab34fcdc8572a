"""Pausing partitions of a consumer group, step by step (R2.2 to R2.5)."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.core.consumer.support import Client, G, settle, topics
from tests.core.harness import heartbeat, join, sync
from tests.core.kinds_of_shard import classic_groups, consumer_groups
from tests.core.pause.support import PauseHarness

from headgate.core.commands import DeleteGroup
from headgate.core.offsets.commands import DeleteOffsets
from headgate.core.pause.commands import ListPausedPartitions, PauseResult, PauseState
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import decode

NONE = ErrorCode.NONE
STALE = ErrorCode.STALE_MEMBER_EPOCH
PAUSING, PAUSED = PauseState.PAUSING, PauseState.PAUSED
DAY_MS = 24 * 60 * 60_000


@pytest.fixture
def h() -> PauseHarness:
    """A shard with topics t (3 partitions) and u (2)."""
    return PauseHarness()


def alone(h: PauseHarness, *names: str) -> Client:
    """A member that has all partitions."""
    client = Client(h, "m", names or ("t",))
    settle(client)
    return client


def test_paused_partitions_leave_their_owner_and_the_others_stay(h: PauseHarness) -> None:
    """The owner is told to revoke, revokes, and then nobody owns them; it keeps the rest."""
    client = alone(h)
    epoch = h.group.epoch
    assert h.pause(("t", 1)) == PauseResult(states=[[PAUSING]])
    assert h.group.epoch == h.group.assignment_epoch == epoch + 1
    assert h.states() == {("t", 1): PAUSING}
    client.beat()
    assert client.owned == {("t", 0), ("t", 2)}
    assert h.states() == {("t", 1): PAUSING}, "it has not said that it revoked"
    client.beat()
    assert h.states() == {("t", 1): PAUSED}
    assert client.epoch == epoch + 1
    settle(client)
    assert client.owned == {("t", 0), ("t", 2)}


def test_resumed_partitions_are_assigned_again(h: PauseHarness) -> None:
    """Also while the owner has not released them yet."""
    client = alone(h)
    h.pause(("t", 1))
    settle(client)
    h.resume(("t", 1))
    assert h.paused() == frozenset()
    settle(client)
    assert client.owned == {("t", 0), ("t", 1), ("t", 2)}
    h.pause(("t", 1))
    client.beat()
    h.resume(("t", 1))
    settle(client)
    assert client.owned == {("t", 0), ("t", 1), ("t", 2)}


def test_the_owner_commits_a_last_time_while_it_revokes_and_never_after(h: PauseHarness) -> None:
    """Until the release in any epoch that is good for the partition, then not even in the present one."""
    client = alone(h)
    h.pause(("t", 1))
    before = client.epoch
    assert h.commit_as("m", before, ("t", 1)) is NONE
    client.beat()
    assert h.commit_as("m", before, ("t", 1), ("t", 0)) is NONE
    client.beat()
    for epoch in (before, client.epoch):
        assert h.commit_as("m", epoch, ("t", 1)) is STALE
        assert h.commit_as("m", epoch, ("t", 0), ("t", 1)) is STALE, "all of a commit or nothing"
        assert h.commit_as("m", epoch, ("t", 0)) is NONE


def test_only_its_owner_commits_while_a_partition_is_pausing(h: PauseHarness) -> None:
    """Another member may not, in no epoch."""
    one, other = Client(h, "a"), Client(h, "b")
    settle(one, other)
    partition = sorted(one.owned)[0]
    assert h.commit_as("b", other.epoch, partition) is NONE, "as in Kafka (R1.2)"
    h.pause(partition)
    assert h.commit_as("b", other.epoch, partition) is STALE
    assert h.commit_as("a", one.epoch, partition) is NONE


def test_an_administrator_sets_offsets_of_released_partitions_only(h: PauseHarness) -> None:
    """Not released: REBALANCE_IN_PROGRESS, which admin clients retry; not paused: as without pauses."""
    client = alone(h)
    assert h.reset(("t", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    h.pause(("t", 1))
    assert h.reset(("t", 1)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.reset(("t", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    client.beat()
    assert h.reset(("t", 1)) is ErrorCode.REBALANCE_IN_PROGRESS
    client.beat()
    assert h.reset(("t", 1)) is NONE
    assert h.reset(("t", 1), ("t", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.offset("g", "t", 1) == 100
    h.resume(("t", 1))
    assert h.reset(("t", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    settle(client)
    assert h.offset("g", "t", 1) == 100, "what the next owner begins with"
    assert h.commit_as("m", client.epoch, ("t", 1)) is NONE


def test_transactional_commits_to_paused_partitions(h: PauseHarness) -> None:
    """As plain ones: while the partition has an owner. Without a member it may be the owner's commit."""
    client = alone(h)
    before = client.epoch
    h.pause(("t", 1))
    assert h.commit_in_transaction_as("m", before, ("t", 1)) is NONE
    assert h.commit_in_transaction_as("", -1, ("t", 1)) is NONE
    settle(client)
    illegal = ErrorCode.ILLEGAL_GENERATION
    assert h.commit_in_transaction_as("m", client.epoch, ("t", 1)) is illegal
    assert h.commit_in_transaction_as("", -1, ("t", 0), ("t", 1)) is illegal
    assert h.commit_in_transaction_as("", -1, ("t", 0)) is NONE
    h.resume(("t", 1))
    assert h.commit_in_transaction_as("", -1, ("t", 1)) is NONE


@pytest.mark.parametrize("is_reset", [False, True])
def test_an_offset_that_was_pending_before_the_pause_counts_unless_it_is_reset(
    h: PauseHarness, is_reset: bool
) -> None:
    """Its records were processed; but what an administrator sets while it is paused is set."""
    client = alone(h)
    assert h.commit_in_transaction_as("m", client.epoch, ("t", 1)) is NONE
    h.pause(("t", 1))
    settle(client)
    if is_reset:
        assert h.reset(("t", 1)) is NONE
    h.reload()
    h.resume(("t", 1))
    h.end(7)
    assert h.offset("g", "t", 1) == (100 if is_reset else 9)


def test_an_owner_that_never_revokes_is_removed_after_its_rebalance_timeout(h: PauseHarness) -> None:
    """Then its partitions are nobody's, and the paused one stays so."""
    alone(h)
    h.pause(("t", 1))
    for _ in range(13):
        h.beat("m", h.group.member(next(iter(h.group.members))).member_epoch, reported=[("t", 0), ("t", 1)])
        h.advance(5_000)
        if h.group.is_empty:
            break
    assert h.group.is_empty
    assert h.states() == {("t", 1): PAUSED}


def test_an_owner_that_is_dead_releases_with_its_session(h: PauseHarness) -> None:
    """Nobody waits longer than that."""
    alone(h)
    h.pause(("t", 1))
    h.advance(45_000)
    assert h.states() == {("t", 1): PAUSED}


def test_a_member_that_joins_is_not_given_what_is_paused(h: PauseHarness) -> None:
    """Neither while it is released nor before."""
    one, other = Client(h, "a"), Client(h, "b")
    settle(one)
    h.pause(("t", 0))
    other.beat()
    settle(one, other)
    assert one.owned | other.owned == {("t", 1), ("t", 2)}
    assert one.owned and other.owned


def test_a_static_member_that_is_away_releases_at_once(h: PauseHarness) -> None:
    """It has nothing: to leave for a while is to have revoked; and its next life is not given it."""
    client = Client(h, "m", ("t",), {"instance_id": "i"})
    settle(client)
    h.beat("m", -2, instance_id="i")
    h.pause(("t", 0))
    assert h.states() == {("t", 0): PAUSED}
    again = Client(h, "n", ("t",), {"instance_id": "i"})
    settle(again)
    assert again.owned == {("t", 1), ("t", 2)}
    h.pause(("t", 1))
    h.beat("n", -2, instance_id="i")
    assert h.states() == {("t", 0): PAUSED, ("t", 1): PAUSED}


@pytest.mark.parametrize("loads_from", ["log", "image", "compacted"])
def test_a_pause_survives_a_crash_at_every_step(
    h: PauseHarness, loads_from: Literal["log", "image", "compacted"]
) -> None:
    """Before the owner knows, while it revokes, when it has released."""
    h.loads_from = loads_from
    client = alone(h)
    h.pause(("t", 1), reason="a poison record")
    for state in (PAUSING, PAUSING, PAUSED):
        h.reload()
        assert h.states() == {("t", 1): state}
        client.beat()
    h.reload()
    assert h.reset(("t", 1)) is NONE
    h.reload()
    assert h.commit_as("m", client.epoch, ("t", 1)) is STALE
    h.resume(("t", 1))
    h.reload()
    settle(client)
    assert client.owned == {("t", 0), ("t", 1), ("t", 2)}


def test_the_list_says_since_when_by_whom_why_and_who_owns(h: PauseHarness) -> None:
    """A partition that is paused again keeps its first pause."""
    alone(h)
    h.commit_as("m", h.group.epoch, ("t", 1))
    since = h.now
    h.pause(("t", 1), reason="a poison record")
    h.advance(1000)
    h.pause(("t", 1), ("t", 2), reason="another")
    (topic,) = h.ask(ListPausedPartitions(G)).topics
    first, second = topic.partitions
    assert (topic.name, first.partition, first.owner, first.offset) == ("t", 1, "m", 7)
    assert (first.pause.since, first.pause.caller, first.pause.reason) == (
        since,
        "somebody",
        "a poison record",
    )
    assert (second.pause.since, second.pause.reason, second.offset) == (since + 1000, "another", -1)


def test_to_pause_or_resume_twice_changes_nothing(h: PauseHarness) -> None:
    """No record, no epoch."""
    alone(h)
    h.pause(("t", 1))
    written = len(h.log)
    h.pause(("t", 1))
    h.resume(("t", 0))
    assert len(h.log) == written


def test_a_partition_that_nobody_reads_can_be_paused(h: PauseHarness) -> None:
    """The group goes on undisturbed; who subscribes later is not given it."""
    client = alone(h)
    epoch = h.group.epoch
    h.pause(("u", 0))
    assert h.group.epoch == epoch
    reader = Client(h, "r", ("u",))
    settle(client, reader)
    assert reader.owned == {("u", 1)}


def test_an_empty_group_can_be_paused_and_its_first_member_is_not_given_it(h: PauseHarness) -> None:
    """The pause outlives the members; offsets of an empty group may be set whether paused or not."""
    alone(h)
    h.pause(("t", 0))
    h.beat("m", -1)
    assert h.group.is_empty
    h.pause(("t", 1))
    assert h.reset(("t", 0), ("t", 1), ("t", 2)) is NONE
    client = Client(h, "n")
    settle(client)
    assert client.owned == {("t", 2)}


def test_everything_can_be_paused(h: PauseHarness) -> None:
    """Members stay, and have nothing."""
    one, other = Client(h, "a"), Client(h, "b")
    settle(one, other)
    h.pause(("t", 0), ("t", 1), ("t", 2))
    settle(one, other)
    assert not one.owned and not other.owned
    h.resume(("t", 0), ("t", 1), ("t", 2))
    settle(one, other)
    assert one.owned | other.owned == {("t", 0), ("t", 1), ("t", 2)}


def test_new_partitions_and_topics_that_are_created_again_are_not_paused(h: PauseHarness) -> None:
    """A pause names partitions, of a topic id."""
    client = alone(h)
    h.pause(("t", 0), ("t", 1), ("t", 2))
    settle(client)
    h.change_topics(topics(t=4))
    settle(client)
    assert client.owned == {("t", 3)}
    h.change_topics(topics(t=0))
    assert not h.shard.paused.by_group
    h.change_topics(topics(t=3, life=1))
    settle(client)
    assert client.owned == {("t", 0), ("t", 1), ("t", 2)}


def test_a_topic_that_was_deleted_during_a_crash_is_not_paused_after_it(h: PauseHarness) -> None:
    """The shard is told of all topics when it is loaded."""
    alone(h, "t", "u")
    h.pause(("t", 0), ("u", 0))
    h.topics = topics(u=2)
    h.shard.loaded(h.now)
    super(PauseHarness, h).reload()
    assert h.paused() == {("u", 0)}


def test_a_topic_that_was_deleted_before_the_command_is_not_paused(h: PauseHarness) -> None:
    """Its partitions could neither be listed nor resumed, and no offset of the group would expire."""
    alone(h, "t", "u")
    h.change_topics(topics(t=0))
    assert h.pause(("t", 0), ("u", 0)).states == [[PauseState.NOT_PAUSED], [PAUSING]]
    assert h.paused() == {("u", 0)}
    h.resume(("u", 0))
    assert not h.shard.paused.by_group


def test_deleting_the_group_removes_its_pauses(h: PauseHarness) -> None:
    """A group of that id that comes later has none."""
    alone(h)
    h.pause(("t", 0))
    h.beat("m", -1)
    assert h.ask(DeleteGroup(G)) is NONE
    assert not h.shard.paused.by_group
    assert decode(*h.log[-1]).group_id == G  # type: ignore[union-attr]
    client = alone(h)
    assert client.owned == {("t", 0), ("t", 1), ("t", 2)}


def test_nothing_expires_while_something_is_paused_and_then_its_clock_begins() -> None:
    """Neither the group nor an offset of it; after the resume a whole retention passes."""
    h = PauseHarness(offsets_retention_minutes="1440")
    h.replays_each_step = False
    alone(h)
    h.commit_as("m", h.group.epoch, ("t", 0))
    h.pause(("t", 1))
    h.beat("m", -1)
    h.advance(3 * DAY_MS)
    assert h.offset("g", "t", 0) == 7
    h.resume(("t", 1))
    h.advance(DAY_MS - 1000)
    assert h.offset("g", "t", 0) == 7
    h.advance(DAY_MS)
    assert consumer_groups(h.shard).find(G) is None


def test_offsets_of_released_partitions_may_be_deleted(h: PauseHarness) -> None:
    """Although the group reads the topic; not if one of them is not paused or not released."""
    client = alone(h)
    h.commit_as("m", client.epoch, ("t", 0), ("t", 1))

    def delete(*partitions: int) -> ErrorCode:
        result = h.ask(DeleteOffsets(G, [(TopicName("t"), partitions)]))
        return ErrorCode(result.topics[0][1])

    h.pause(("t", 1))
    assert delete(1) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    settle(client)
    assert delete(0, 1) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(1) is NONE
    assert h.offset("g", "t", 1) is None


def test_other_groups_are_refused_with_the_way_out(h: PauseHarness) -> None:
    """A classic group, one that only committed, one that is not there, one without a name."""
    h.stable_group("m", group_id="c")
    h.commit("s")
    for group_id, says in (("c", "group.protocol=consumer"), ("s", "without members"), ("x", "not found")):
        result = h.pause(("t", 0), group_id=group_id)
        assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
        assert says in (result.message or "")
        assert h.resume(("t", 0), group_id=group_id).error is ErrorCode.GROUP_ID_NOT_FOUND
        assert h.ask(ListPausedPartitions(GroupId(group_id))).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.pause(("t", 0), group_id="").error is ErrorCode.INVALID_GROUP_ID


# --- members of the classic protocol ---

SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff"


def join_classic(h: PauseHarness, member_id: str = "c") -> int:
    """A classic member joins and syncs; its generation."""
    protocols = (("range", SUBSCRIPTION),)
    joined = h.ask(
        join(new_member_id=member_id, member_id="", protocols=protocols, must_know_member_id=False)
    )
    assert joined.error is NONE, joined
    generation = int(joined.generation)
    assert h.ask(sync(joined.member_id, generation)).error is NONE
    return generation


def test_a_paused_group_stays_a_consumer_group_with_classic_members_only(h: PauseHarness) -> None:
    """Members of a classic group would assign what is paused; with the last resume it becomes one."""
    client = alone(h)
    h.pause(("t", 0))
    settle(client)
    join_classic(h)
    settle(client)
    h.beat("m", -1)
    assert h.states() == {("t", 0): PAUSED}
    assert not classic_groups(h.shard).holds(G)
    h.reload()
    h.resume(("t", 0))
    assert classic_groups(h.shard).holds(G)
    assert not h.shard.paused.by_group
    h.reload()
    assert classic_groups(h.shard).holds(G)


def test_a_classic_member_joins_an_empty_group_that_is_paused_as_it_joins_one_with_members(
    h: PauseHarness,
) -> None:
    """Without a pause the group would become a classic one."""
    alone(h)
    h.pause(("t", 0))
    h.beat("m", -1)
    generation = join_classic(h)
    assert consumer_groups(h.shard).find(G) is not None
    assert [*h.group.owners.values()] == [{1: "c", 2: "c"}]
    assert h.ask(heartbeat("c", generation)) is NONE
    h.pause(("t", 1))
    assert h.ask(heartbeat("c", generation)) is ErrorCode.REBALANCE_IN_PROGRESS
