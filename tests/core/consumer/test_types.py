"""Consumer groups among groups of other types: coming into being, listed, described, deleted, expired."""

from __future__ import annotations

import pytest
from tests.core.consumer.support import (
    SESSION_TIMEOUT_MS,
    Client,
    ConsumerHarness,
    G,
    beat,
    joining,
    settle,
    topic_id,
    topics,
)
from tests.core.harness import heartbeat, join, sync
from tests.core.kinds_of_shard import classic_groups, consumer_groups

from headgate.core.classic.commands import DescribeGroup, LeaveGroup, LeavingMember
from headgate.core.commands import DeleteGroup, ListedGroup, ListGroups
from headgate.core.consumer.commands import (
    ConsumerGroupConfigured,
    DescribeConsumerGroup,
    DescribedConsumerGroup,
)
from headgate.core.offsets.commands import DeleteOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicName

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def hourly() -> ConsumerHarness:
    """Offsets are kept for an hour and looked at every minute."""
    return ConsumerHarness(offsets_retention_minutes="60", offsets_retention_check_interval_ms="60000")


def listed(h: ConsumerHarness) -> list[ListedGroup]:
    """All groups there are."""
    return list(h.ask(ListGroups()).groups)


# --- of which type ---


def test_a_group_that_only_ever_committed_becomes_what_its_first_member_is() -> None:
    """Its offsets stay."""
    h = ConsumerHarness()
    h.commit(G, offset=5)
    h.join("a", "t")
    assert listed(h) == [ListedGroup(G, "consumer", "Stable", "consumer")]
    assert h.offset(G) == 5


def test_a_classic_client_that_is_about_to_join_does_not_stay_in_the_way() -> None:
    """A group that only ever committed gave it an id; members of the new protocol may commit all the same."""
    h = ConsumerHarness()
    h.commit(G, offset=5)
    given_id(h, "c")
    h.join("a", "t")
    assert G not in classic_groups(h.shard).live
    assert h.commit_as("a", 2, ("t", 0)) is ErrorCode.NONE


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    """Its record goes, its offsets stay, and epochs begin from the beginning."""
    h = ConsumerHarness()
    h.stable_group("old", group_id=G)
    h.commit(G, offset=5, member_id=MemberId("old"), generation=1)
    h.ask(LeaveGroup(group_id=G, members=(LeavingMember(MemberId("old"), None),)))
    assert h.join("a", "t").member_epoch == 2
    assert G not in classic_groups(h.shard).recorded
    assert G not in classic_groups(h.shard).live
    h.reload()
    assert [group.group_type for group in listed(h)] == ["consumer"]
    assert h.offset(G) == 5


def test_a_classic_group_with_members_takes_no_member_of_the_new_protocol() -> None:
    """And is not disturbed."""
    h = ConsumerHarness()
    generation = h.stable_group("old", group_id=G)
    assert h.ask(beat("a", 0, **joining("t"))).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.ask(heartbeat("old", generation, group_id=G)) is ErrorCode.NONE


def test_members_of_the_new_protocol_are_none_of_the_classic_one() -> None:
    """Whatever epoch they name as their generation."""
    h = ConsumerHarness()
    h.join("a", "t")
    assert h.ask(heartbeat("a", 2, group_id=G)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.ask(sync("a", 2, group_id=G)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_consumer_group_becomes_a_classic_one() -> None:
    """All its records go, its offsets stay."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.commit_as("a", 2, ("t", 0))
    h.beat("a", -1)
    h.stable_group("new", group_id=G)
    assert not consumer_groups(h.shard).by_id
    h.reload()
    assert [group.group_type for group in listed(h)] == ["classic"]
    assert h.offset(G) == 7


def test_a_stranger_with_an_id_of_its_own_does_not_take_an_empty_consumer_group_over() -> None:
    """A classic member gets its id from us."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.beat("a", -1)
    assert h.ask(join(group_id=G, member_id=MemberId("x"))).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert G in consumer_groups(h.shard).by_id


# --- what a client of the classic protocol does to an empty consumer group ---

LONG_AGO_MS = 2 * HOUR_MS


def emptied(h: ConsumerHarness) -> None:
    """A consumer group committed an offset two hours ago, and its last member has left just now."""
    h.join("a", "t")
    h.commit_as("a", 2, ("t", 0))
    for _ in range(LONG_AGO_MS // (SESSION_TIMEOUT_MS - 1)):
        h.advance(SESSION_TIMEOUT_MS - 1)
        h.beat("a", 2)
    h.beat("a", -1)


def given_id(h: ConsumerHarness, member_id: str) -> None:
    """A client without an id asks to join, and is given this one."""
    given = h.ask(join(group_id=G, new_member_id=MemberId(member_id)))
    assert (given.error, given.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, member_id)


@pytest.mark.parametrize("crashes", [False, True])
def test_a_client_that_is_only_given_its_id_changes_nothing(crashes: bool) -> None:
    """It may never come back: the group is what it was, and its offsets have the time they had."""
    h = hourly()
    emptied(h)
    written = len(h.log)
    given_id(h, "c")
    assert len(h.log) == written
    assert listed(h) == [ListedGroup(G, "consumer", "Empty", "consumer")]
    assert h.shard.count_groups_by_state()["Empty"] == 1
    if crashes:
        h.reload()
    h.advance(HOUR_MS - MINUTE_MS)
    assert h.offset(G) == 7
    h.advance(2 * MINUTE_MS)
    assert h.offset(G) is None


@pytest.mark.parametrize("crashes", [False, True])
def test_offsets_of_a_group_that_becomes_classic_age_since_it_was_empty(crashes: bool) -> None:
    """Also when its first classic member never gets as far as a generation."""
    h = hourly()
    emptied(h)
    h.advance(HOUR_MS // 2)
    given_id(h, "c")
    h.send(join(group_id=G, member_id=MemberId("c")))
    assert [group.group_type for group in listed(h)] == ["classic"]
    if crashes:
        h.reload()
    else:
        h.ask(LeaveGroup(group_id=G, members=(LeavingMember(MemberId("c"), None),)))
    h.advance(HOUR_MS // 2 - MINUTE_MS)
    assert h.offset(G) == 7
    h.advance(HOUR_MS)
    assert h.offset(G) is None


def test_every_client_that_was_given_an_id_joins_with_it() -> None:
    """The first one makes the group a classic one, the others are expected in it."""
    h = hourly()
    emptied(h)
    for member_id in ("c", "d"):
        given_id(h, member_id)
    joins = [h.send(join(group_id=G, member_id=MemberId(one))) for one in ("c", "d")]
    h.advance(10_000)
    assert [h.answers[one].error for one in joins] == [ErrorCode.NONE] * 2


def test_an_id_that_was_given_out_is_good_for_a_session() -> None:
    """After that it is nobody's, and its deadline takes no member that has it."""
    h = hourly()
    emptied(h)
    given_id(h, "c")
    h.advance(10_000)
    assert h.ask(join(group_id=G, member_id=MemberId("c"))).error is ErrorCode.UNKNOWN_MEMBER_ID
    given_id(h, "c")
    h.join("c", "t")
    h.advance(10_000)
    assert set(h.group.members) == {"c"}


def test_an_id_that_comes_back_as_a_static_members_holds_nobody_up() -> None:
    """It is refused, and the group does not wait for it longer than for a session."""
    h = hourly()
    emptied(h)
    for member_id in ("c", "d"):
        given_id(h, member_id)
    h.send(join(group_id=G, member_id=MemberId("c")))
    refused = h.ask(join(group_id=G, member_id=MemberId("d"), instance_id=InstanceId("i")))
    assert refused.error is ErrorCode.UNKNOWN_MEMBER_ID
    h.advance(11_000)
    assert not classic_groups(h.shard).live[G].pending_joins


def test_a_client_that_no_group_could_have_leaves_it_as_it_is() -> None:
    """It names no protocol."""
    h = hourly()
    emptied(h)
    refused = h.ask(join(group_id=G, protocols=()))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert [group.group_type for group in listed(h)] == ["consumer"]


# --- looked at ---


def test_a_consumer_group_is_no_classic_group_to_describe() -> None:
    """DescribeGroups does not find it."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.commit_as("a", 2, ("t", 0))
    assert h.ask(DescribeGroup(G)) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("state", ["missing", "simple", "classic"])
def test_groups_of_other_types_are_not_found_to_describe_as_consumer_groups(state: str) -> None:
    """And the message says whether there is one."""
    h = ConsumerHarness()
    if state == "simple":
        h.commit(G)
    elif state == "classic":
        h.stable_group("old", group_id=G)
    refusal = h.ask(DescribeConsumerGroup(G))
    assert refusal.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert ("not found" in refusal.message) == (state == "missing")


def test_a_described_group_shows_what_members_have_and_are_to_have() -> None:
    """In the middle of a move."""
    h = ConsumerHarness({"t": 2})
    settle(Client(h, "a"))
    h.join("b", "t", instance_id="i", rack_id="r", server_assignor="range")
    group = h.ask(DescribeConsumerGroup(G))
    assert isinstance(group, DescribedConsumerGroup)
    assert (group.state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert (group.assignor, group.topic_names) == ("range", {topic_id("t"): "t"})
    a, b = group.members
    assert (a.member_id, a.member_epoch, a.assigned) == ("a", 2, {topic_id("t"): (0, 1)})
    assert (b.member_id, b.instance_id, b.rack_id, b.member_epoch) == ("b", "i", "r", 3)
    assert (b.assigned, len(b.target[topic_id("t")])) == ({}, 1)


# --- taken away ---


def test_an_administrator_removes_members_by_either_id() -> None:
    """LeaveGroup is about members of either protocol; each has its own answer, and the epoch rises once."""
    h = ConsumerHarness()
    for name in "abc":
        h.join(name, "t", **({"instance_id": f"i{name}"} if name == "b" else {}))
    wanted = [
        (LeavingMember(MemberId("a"), None), ErrorCode.NONE),
        (LeavingMember(MemberId(""), InstanceId("ib")), ErrorCode.NONE),
        (LeavingMember(MemberId("a"), None), ErrorCode.UNKNOWN_MEMBER_ID),
        (LeavingMember(MemberId(""), InstanceId("nobody")), ErrorCode.UNKNOWN_MEMBER_ID),
        (LeavingMember(MemberId(""), None), ErrorCode.UNKNOWN_MEMBER_ID),
        (LeavingMember(MemberId("c"), InstanceId("other")), ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    epoch = h.group.epoch
    result = h.ask(LeaveGroup(group_id=G, members=tuple(member for member, _ in wanted)))
    assert list(result.members) == wanted
    assert (set(h.group.members), h.group.epoch) == ({"c"}, epoch + 1)


def test_a_group_is_deleted_when_it_is_empty() -> None:
    """With its offsets, and without a trace."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.commit_as("a", 2, ("t", 0))
    assert h.ask(DeleteGroup(G)) is ErrorCode.NON_EMPTY_GROUP
    h.beat("a", -1)
    assert h.ask(DeleteGroup(G)) is ErrorCode.NONE
    assert (listed(h), h.offset(G), consumer_groups(h.shard).by_id) == ([], None, {})
    assert h.ask(DeleteGroup(G)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_topics_that_are_read_are_not_deleted() -> None:
    """Of others they are, also while the group has members."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.commit_as("a", 2, ("t", 0), ("u", 0))
    result = h.ask(DeleteOffsets(G, [(TopicName("t"), [0]), (TopicName("u"), [0])]))
    assert [error for _, error in result.topics] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert (h.offset(G, "t"), h.offset(G, "u")) == (7, None)


# --- expiry ---


def keep_alive(h: ConsumerHarness, client: Client, duration_ms: int) -> None:
    """Let time pass while a member heartbeats."""
    for _ in range(duration_ms // (SESSION_TIMEOUT_MS - 1) + 1):
        h.advance(SESSION_TIMEOUT_MS - 1)
        client.beat()


def long_alive() -> ConsumerHarness:
    """A group whose only member committed, stayed for longer than offsets are kept, and left just now."""
    h = hourly()
    a = Client(h, "a")
    settle(a)
    h.commit_as("a", 2, ("t", 0))
    keep_alive(h, a, 3 * HOUR_MS)
    h.beat("a", -1)
    return h


def test_offsets_of_a_group_that_was_long_alive_are_kept_from_its_last_member_on() -> None:
    """Not from the commit: in Kafka they would go at once (R0.4, R0.5, R0.12)."""
    h = long_alive()
    h.advance(HOUR_MS - MINUTE_MS)
    assert h.offset(G) == 7
    h.advance(2 * MINUTE_MS)
    assert (h.offset(G), listed(h)) == (None, [])


def test_that_holds_after_a_crash_too() -> None:
    """The time at which the group became empty is in its record."""
    h = long_alive()
    h.advance(MINUTE_MS * 30)
    h.reload()
    h.advance(MINUTE_MS * 29)
    assert h.offset(G) == 7
    h.advance(MINUTE_MS * 2)
    assert h.offset(G) is None


def test_a_member_stops_the_clock() -> None:
    """Also one that reads nothing (R0.8)."""
    h = hourly()
    a = Client(h, "a")
    settle(a)
    h.commit_as("a", 2, ("t", 0))
    h.beat("a", -1)
    h.advance(HOUR_MS // 2)
    a = Client(h, "a")
    keep_alive(h, a, HOUR_MS)
    assert h.offset(G) == 7


def test_what_is_not_read_any_more_expires_by_its_commit() -> None:
    """While the group lives, and only that (R0.9)."""
    h = hourly()
    a = Client(h, "a")
    settle(a)
    h.commit_as("a", 2, ("t", 0), ("u", 0))
    keep_alive(h, a, HOUR_MS + MINUTE_MS)
    assert (h.offset(G, "t"), h.offset(G, "u")) == (7, None)


def test_an_empty_group_without_offsets_goes_with_the_next_sweep() -> None:
    """There is nothing to keep it for."""
    h = hourly()
    h.join("a", "t")
    h.beat("a", -1)
    h.advance(2 * MINUTE_MS)
    assert listed(h) == []


# --- settings ---


def test_a_group_may_have_settings_of_its_own() -> None:
    """They count from the next heartbeat on, and go away again."""
    h = ConsumerHarness()
    own = {"consumer.session.timeout.ms": 60_000, "consumer.heartbeat.interval.ms": 9_000}
    h.ask(ConsumerGroupConfigured(group_id=G, settings=own))
    assert h.join("a", "t").heartbeat_interval_ms == 9_000
    h.advance(59_999)
    assert "a" in h.group.members
    h.ask(ConsumerGroupConfigured(group_id=G, settings={}))
    assert h.beat("a", 2).heartbeat_interval_ms == 5_000
    h.advance(SESSION_TIMEOUT_MS)
    assert h.group.is_empty


def test_a_target_stands_for_the_assignment_interval() -> None:
    """Who joins meanwhile is in the old epoch with nothing, and gets its part afterwards."""
    h = ConsumerHarness(group_consumer_assignment_interval_ms="1000")
    a, b = Client(h, "a"), Client(h, "b")
    settle(a)
    h.advance(999)
    b.beat()
    assert (b.epoch, b.owned, h.group.epoch, h.group.assignment_epoch) == (2, frozenset(), 3, 2)
    assert listed(h)[0].state == "Assigning"
    h.advance(1)
    settle(a, b)
    assert (a.epoch, b.epoch, len(a.owned | b.owned), bool(b.owned)) == (3, 3, 3, True)


def test_the_assignor_that_most_members_want_assigns() -> None:
    """When another one has most votes the epoch rises."""
    h = ConsumerHarness({"t": 3, "u": 3})
    a, b = Client(h, "a", ("t", "u")), Client(h, "b", ("t", "u"))
    settle(a)
    settle(a, b)
    assert (len(a.owned), len(b.owned)) == (3, 3), "uniformly"
    epoch = h.group.epoch
    a.take(h.beat("a", a.epoch, server_assignor="range", reported=a.owned))
    assert h.group.epoch == epoch + 1
    settle(a, b)
    assert {len(a.owned), len(b.owned)} == {2, 4}, "by ranges of each topic"
    b.take(h.beat("b", b.epoch, server_assignor="range", reported=b.owned))
    assert h.group.epoch == epoch + 1


def test_a_group_keeps_partitions_of_a_deleted_topic_no_longer() -> None:
    """Its members let them go."""
    h = ConsumerHarness()
    a = Client(h, "a", ("t", "u"))
    settle(a)
    h.change_topics(topics(u=0))
    settle(a)
    assert {name for name, _ in a.owned} == {"t"}


def test_another_group_of_the_shard_is_another_group() -> None:
    """Members and partitions of one are nothing to the other."""
    h = ConsumerHarness()
    h.join("a", "t")
    result = h.ask(beat("a", 0, group_id="other", **joining("t")))
    assert (result.error, result.member_epoch) == (ErrorCode.NONE, 2)
    assert {group.group_id for group in listed(h)} == {G, GroupId("other")}
    h.beat("a", -1)
    assert {group.state for group in listed(h)} == {"Stable", "Empty"}


@pytest.mark.parametrize("name", ["t", "u"])
def test_only_groups_that_read_a_topic_look_again_when_it_changes(name: str) -> None:
    """Among many topics that change at once."""
    h = ConsumerHarness()
    a = Client(h, "a", (name,))
    settle(a)
    h.change_topics(topics(**{f"other{number}": 1 for number in range(50)}))
    assert G in consumer_groups(h.shard).verified
    h.change_topics(topics(**{f"other{number}": 1 for number in range(50)}, **{name: 9}))
    assert G not in consumer_groups(h.shard).verified
    settle(a)
    assert (len(a.owned), G in consumer_groups(h.shard).verified) == (9, True)
