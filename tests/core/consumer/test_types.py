"""Consumer groups among groups of other types: creation, lists, descriptions, deletion, expiry."""

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
from tests.core.harness import count_by_state, heartbeat, join, sync
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


def test_a_group_that_only_commits_gets_the_type_of_its_first_member() -> None:
    """It keeps its offsets."""
    h = ConsumerHarness()
    h.commit(G, offset=5)
    h.join("a", "t")
    assert listed(h) == [ListedGroup(G, "consumer", "Stable", "consumer")]
    assert h.offset(G) == 5


def test_a_pending_classic_member_does_not_prevent_a_consumer_group() -> None:
    """Members of the consumer protocol may commit."""
    h = ConsumerHarness()
    h.commit(G, offset=5)
    given_id(h, "c")
    h.join("a", "t")
    assert G not in classic_groups(h.shard).live
    assert h.commit_as("a", 2, ("t", 0)) is ErrorCode.NONE


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    """Its record is removed, its offsets are kept, and epochs start at the first one."""
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


def test_a_classic_group_with_members_refuses_members_of_the_consumer_protocol() -> None:
    """It is not affected."""
    h = ConsumerHarness()
    generation = h.stable_group("old", group_id=G)
    assert h.ask(beat("a", 0, **joining("t"))).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert h.ask(heartbeat("old", generation, group_id=G)) is ErrorCode.NONE


def test_members_of_the_consumer_protocol_are_unknown_to_classic_requests() -> None:
    """With any epoch as the generation."""
    h = ConsumerHarness()
    h.join("a", "t")
    assert h.ask(heartbeat("a", 2, group_id=G)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.ask(sync("a", 2, group_id=G)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_consumer_group_becomes_a_classic_one() -> None:
    """All its records are removed, its offsets are kept."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.commit_as("a", 2, ("t", 0))
    h.beat("a", -1)
    h.stable_group("new", group_id=G)
    assert not consumer_groups(h.shard).by_id
    h.reload()
    assert [group.group_type for group in listed(h)] == ["classic"]
    assert h.offset(G) == 7


def test_an_unknown_member_id_does_not_convert_an_empty_consumer_group() -> None:
    """A classic member gets its id from the coordinator."""
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
def test_giving_out_a_member_id_changes_nothing(crashes: bool) -> None:
    """The client may never join: the group and the age of its offsets are unchanged."""
    h = hourly()
    emptied(h)
    written = len(h.log)
    given_id(h, "c")
    assert len(h.log) == written
    assert listed(h) == [ListedGroup(G, "consumer", "Empty", "consumer")]
    assert count_by_state(h.shard)["Empty"] == 1
    if crashes:
        h.reload()
    h.advance(HOUR_MS - MINUTE_MS)
    assert h.offset(G) == 7
    h.advance(2 * MINUTE_MS)
    assert h.offset(G) is None


@pytest.mark.parametrize("crashes", [False, True])
def test_offsets_of_a_group_that_becomes_classic_age_since_it_was_empty(crashes: bool) -> None:
    """Also if its first classic member never gets a generation."""
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


def test_every_given_member_id_can_join() -> None:
    """The first one converts the group, which expects the others."""
    h = hourly()
    emptied(h)
    for member_id in ("c", "d"):
        given_id(h, member_id)
    joins = [h.send(join(group_id=G, member_id=MemberId(one))) for one in ("c", "d")]
    h.advance(10_000)
    assert [h.answers[one].error for one in joins] == [ErrorCode.NONE] * 2


def test_a_given_member_id_expires_after_a_session_timeout() -> None:
    """Its deadline does not remove a member with that id."""
    h = hourly()
    emptied(h)
    given_id(h, "c")
    h.advance(10_000)
    assert h.ask(join(group_id=G, member_id=MemberId("c"))).error is ErrorCode.UNKNOWN_MEMBER_ID
    given_id(h, "c")
    h.join("c", "t")
    h.advance(10_000)
    assert set(h.group.members) == {"c"}


def test_a_given_id_used_with_an_instance_id_does_not_delay_the_group() -> None:
    """It is refused, and expires."""
    h = hourly()
    emptied(h)
    for member_id in ("c", "d"):
        given_id(h, member_id)
    h.send(join(group_id=G, member_id=MemberId("c")))
    refused = h.ask(join(group_id=G, member_id=MemberId("d"), instance_id=InstanceId("i")))
    assert refused.error is ErrorCode.UNKNOWN_MEMBER_ID
    h.advance(11_000)
    assert not classic_groups(h.shard).live[G].pending_joins


def test_an_invalid_join_changes_nothing() -> None:
    """It names no protocol."""
    h = hourly()
    emptied(h)
    refused = h.ask(join(group_id=G, protocols=()))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert [group.group_type for group in listed(h)] == ["consumer"]


# --- looked at ---


def test_a_consumer_group_is_unknown_to_describe_groups() -> None:
    """As in Kafka."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.commit_as("a", 2, ("t", 0))
    assert h.ask(DescribeGroup(G)) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("state", ["missing", "simple", "classic"])
def test_groups_of_other_types_are_unknown_to_consumer_group_describe(state: str) -> None:
    """The message says whether the group exists."""
    h = ConsumerHarness()
    if state == "simple":
        h.commit(G)
    elif state == "classic":
        h.stable_group("old", group_id=G)
    refusal = h.ask(DescribeConsumerGroup(G))
    assert refusal.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert ("not found" in refusal.message) == (state == "missing")


def test_a_description_has_current_and_target_assignments() -> None:
    """During a reassignment."""
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
    """LeaveGroup works for members of both protocols; each has its own error, and the epoch rises once."""
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
    """With its offsets and all records."""
    h = ConsumerHarness()
    h.join("a", "t")
    h.commit_as("a", 2, ("t", 0))
    assert h.ask(DeleteGroup(G)) is ErrorCode.NON_EMPTY_GROUP
    h.beat("a", -1)
    assert h.ask(DeleteGroup(G)) is ErrorCode.NONE
    assert (listed(h), h.offset(G), consumer_groups(h.shard).by_id) == ([], None, {})
    assert h.ask(DeleteGroup(G)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    """Others are, also while the group has members."""
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


def test_offsets_are_kept_for_a_retention_after_the_last_member_left() -> None:
    """Not after the commit: in Kafka they would be removed at once (R0.4, R0.5, R0.12)."""
    h = long_alive()
    h.advance(HOUR_MS - MINUTE_MS)
    assert h.offset(G) == 7
    h.advance(2 * MINUTE_MS)
    assert (h.offset(G), listed(h)) == (None, [])


def test_the_time_since_which_a_group_is_empty_survives_a_crash() -> None:
    """It is in the group's record."""
    h = long_alive()
    h.advance(MINUTE_MS * 30)
    h.reload()
    h.advance(MINUTE_MS * 29)
    assert h.offset(G) == 7
    h.advance(MINUTE_MS * 2)
    assert h.offset(G) is None


def test_a_member_stops_the_aging_of_offsets() -> None:
    """Also one without topics (R0.8)."""
    h = hourly()
    a = Client(h, "a")
    settle(a)
    h.commit_as("a", 2, ("t", 0))
    h.beat("a", -1)
    h.advance(HOUR_MS // 2)
    a = Client(h, "a")
    keep_alive(h, a, HOUR_MS)
    assert h.offset(G) == 7


def test_unsubscribed_offsets_expire_by_their_commit_time() -> None:
    """While the group has members, and only these (R0.9)."""
    h = hourly()
    a = Client(h, "a")
    settle(a)
    h.commit_as("a", 2, ("t", 0), ("u", 0))
    keep_alive(h, a, HOUR_MS + MINUTE_MS)
    assert (h.offset(G, "t"), h.offset(G, "u")) == (7, None)


def test_an_empty_group_without_offsets_is_removed_by_the_next_sweep() -> None:
    """There is nothing to keep it for."""
    h = hourly()
    h.join("a", "t")
    h.beat("a", -1)
    h.advance(2 * MINUTE_MS)
    assert listed(h) == []


# --- settings ---


def test_a_group_may_have_overrides() -> None:
    """They apply from the next heartbeat on, and can be removed."""
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


def test_a_target_assignment_is_kept_for_the_assignment_interval() -> None:
    """A member that joins meanwhile is in the old epoch without partitions, and gets its part afterwards."""
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


def test_the_assignor_with_most_votes_is_used() -> None:
    """When it changes, the epoch rises."""
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


def test_partitions_of_a_deleted_topic_are_revoked() -> None:
    """By their members."""
    h = ConsumerHarness()
    a = Client(h, "a", ("t", "u"))
    settle(a)
    h.change_topics(topics(u=0))
    settle(a)
    assert {name for name, _ in a.owned} == {"t"}


def test_groups_of_a_shard_are_independent() -> None:
    """In members and partitions."""
    h = ConsumerHarness()
    h.join("a", "t")
    result = h.ask(beat("a", 0, group_id="other", **joining("t")))
    assert (result.error, result.member_epoch) == (ErrorCode.NONE, 2)
    assert {group.group_id for group in listed(h)} == {G, GroupId("other")}
    h.beat("a", -1)
    assert {group.state for group in listed(h)} == {"Stable", "Empty"}


@pytest.mark.parametrize("name", ["t", "u"])
def test_only_groups_with_a_changed_topic_are_verified_again(name: str) -> None:
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
