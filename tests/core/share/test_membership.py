"""Share groups of a shard: members, epochs, initialization, sessions, and answers to other protocols."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from tests.core.counted import Index
from tests.core.harness import join
from tests.core.share.membership_life import HEARTBEAT_MS, SESSION_MS, G, ShareLife, topic_id

from headgate.core.commands import DeleteGroup, ListedGroup, ListGroups
from headgate.core.consumer.commands import ConsumerHeartbeat, DescribeConsumerGroup
from headgate.core.offsets.commands import DeleteOffsets, FetchOffsets
from headgate.core.share.membership.commands import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribeShareGroup,
    Initialization,
    ListSharePartitions,
    PartitionsInitialized,
    ShareGroupConfigured,
    ShareGroupRefusal,
    SharePartitions,
    StateRemoval,
    StatesRemoved,
)
from headgate.core.share.membership.states import with_initialized
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicName
from headgate.records.share_group_model import (
    ShareGroupRecordType,
    ShareGroupStatePartitions,
    ShareGroupTombstone,
    TopicPartitions,
)

NONE = ErrorCode.NONE
T = TopicName("t")
BOTH = {topic_id("t"): TopicPartitions(T, (0, 1))}


@pytest.fixture
def life() -> ShareLife:
    return ShareLife()


def test_confirming_many_partitions_looks_at_each_once() -> None:
    """Of a topic with very many partitions, a confirmation takes a few looks at each one."""
    indexes = tuple(map(Index, range(1_000)))
    requested = {topic_id("t"): TopicPartitions(T, indexes)}
    states = ShareGroupStatePartitions(group_id=G, initializing=requested, initialized={}, deleting={})
    Index.looks = 0
    confirmed = with_initialized(states, {topic_id("t"): indexes[:900]})
    assert confirmed.initialized == {topic_id("t"): TopicPartitions(T, indexes[:900])}
    assert confirmed.initializing == {topic_id("t"): TopicPartitions(T, indexes[900:])}
    assert Index.looks < 10_000


def test_the_first_member_reaches_epoch_3(life: ShareLife) -> None:
    """2 when it joins, without partitions; 3 when their states are initialized (F2)."""
    result = life.heartbeat("m", 0, "t", rack_id="r", client_id="c", client_host="/h")
    assert (result.member_id, result.member_epoch, result.assigned) == ("m", 2, {})
    assert result.heartbeat_interval_ms == HEARTBEAT_MS
    assert life.requested == [Initialization(G, 2, BOTH)]
    life.advance(HEARTBEAT_MS)
    result = life.heartbeat("m", 2)
    assert (result.member_epoch, result.assigned, result.initialization) == (3, {topic_id("t"): (0, 1)}, None)
    life.advance(HEARTBEAT_MS)
    result = life.heartbeat("m", 3)
    assert (result.member_epoch, result.assigned) == (3, None)
    (member,) = life.described().members
    assert (member.rack_id, member.subscribed_topic_names) == ("r", (T,))
    assert life.described().state == "Stable"
    assert (life.described().group_epoch, life.described().assignment_epoch) == (3, 3)


def test_members_share_partitions(life: ShareLife) -> None:
    """Three members of two partitions: each partition has two of them, nobody waits for a revocation."""
    first = life.join("m1")
    life.join("m2")
    life.join("m3")
    life.settle("m1", first.member_epoch)
    counts = [len(owned) for owned in life.assigned().values()]
    assert sorted(counts) == [1, 1, 2]
    assert {one for owned in life.assigned().values() for one in owned} == {("t", 0), ("t", 1)}


def test_a_member_that_leaves_is_gone_at_once(life: ShareLife) -> None:
    """The group epoch rises, and the other one gets its partitions; the last one leaves an empty group."""
    life.join("m1")
    epoch = life.join("m2").member_epoch
    result = life.heartbeat("m1", -1)
    assert (result.error, result.member_id, result.member_epoch) == (NONE, "m1", -1)
    assert life.heartbeat("m1", epoch).error == ErrorCode.UNKNOWN_MEMBER_ID
    life.settle("m2", epoch)
    assert life.assigned() == {"m2": [("t", 0), ("t", 1)]}
    life.heartbeat("m2", -1)
    assert life.described().state == "Empty"
    life.advance(14 * 24 * 3600 * 1000)
    assert life.described().state == "Empty"  # it never expires (F20)


def test_a_session_without_heartbeats_ends(life: ShareLife) -> None:
    """After the group's session timeout, also after a restart."""
    life.join("m1")
    life.ask(ShareGroupConfigured(group_id=G, settings={"share.session.timeout.ms": 50_000}))
    life.join("m2")
    life.advance(SESSION_MS - HEARTBEAT_MS)
    assert [member.member_id for member in life.described().members] == ["m2"]
    life.reload()
    life.topics(t=2)
    life.advance(SESSION_MS - 1000)
    assert [member.member_id for member in life.described().members] == ["m2"]
    life.advance(1000)
    assert life.described().members == ()


def test_a_lost_response_is_repeated(life: ShareLife) -> None:
    """The epoch that the member knows is accepted, however many there were since; an older one is fenced."""
    life.heartbeat("m1", 0, "t")
    life.advance(HEARTBEAT_MS)
    assert life.heartbeat("m1", 2).member_epoch == 3
    life.join("m2")
    repeated = life.heartbeat("m1", 2)
    assert (repeated.error, repeated.member_epoch > 3) == (NONE, True)
    again = life.heartbeat("m1", 2)
    assert (again.error, again.member_epoch) == (NONE, repeated.member_epoch)
    assert life.heartbeat("m1", repeated.member_epoch).error == NONE
    assert life.heartbeat("m1", 1).error == ErrorCode.FENCED_MEMBER_EPOCH
    fenced = life.heartbeat("m1", 99)
    assert (fenced.error, "greater" in (fenced.message or "")) == (ErrorCode.FENCED_MEMBER_EPOCH, True)


def test_a_join_that_is_repeated_gets_everything(life: ShareLife) -> None:
    """With epoch 0 a known member gets its epoch and all its partitions."""
    epoch = life.join("m1").member_epoch
    result = life.heartbeat("m1", 0, "t")
    assert (result.member_epoch, result.assigned) == (epoch, {topic_id("t"): (0, 1)})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"member": ""}, "MemberId can't be empty."),
        ({"member": "m" * 37}, "MemberId is longer than 36 characters."),
        ({"group": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"epoch": -2}, "MemberEpoch is invalid."),
        ({"names": ()}, "SubscribedTopicNames must be set in first request."),
    ],
)
def test_invalid_heartbeats_are_refused(life: ShareLife, more: dict[str, Any], message: str) -> None:
    """With INVALID_REQUEST and Kafka's message (F1)."""
    given = {"member": "m", "epoch": 0, "names": ("t",), **more}
    member, epoch, names = given.pop("member"), given.pop("epoch"), given.pop("names")
    result = life.heartbeat(member, epoch, *names, **given)
    assert (result.error, result.message) == (ErrorCode.INVALID_REQUEST, message)


def test_unknown_groups_and_members_are_refused(life: ShareLife) -> None:
    """An epoch without a group, a leave without a group, an unknown member, and a group that is full."""
    assert life.heartbeat("m", 5).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert life.heartbeat("m", -1).error == ErrorCode.GROUP_ID_NOT_FOUND
    life.join("m")
    assert life.heartbeat("other", 5).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert life.heartbeat("other", -1).error == ErrorCode.UNKNOWN_MEMBER_ID
    full = ShareLife(group_share_max_size="1")
    full.join("m")
    assert full.heartbeat("other", 0, "t").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert full.heartbeat("m", 0, "t").error == NONE


def test_a_subscription_that_changes_moves_partitions(life: ShareLife) -> None:
    """The member that unsubscribes loses the topic at once, also while the target assignment is young."""
    life.topics(u=1)
    life.join("m1", "t", "u")
    epoch = life.join("m2", "t", "u").member_epoch
    result = life.heartbeat("m2", epoch, "u")
    assert topic_id("t") not in (result.assigned or {})
    life.settle("m2", result.member_epoch)
    life.settle("m1", life.heartbeat("m1", 0, "t", "u").member_epoch)
    assert life.assigned() == {"m1": [("t", 0), ("t", 1), ("u", 0)], "m2": [("u", 0)]}


def test_only_initialized_partitions_are_assigned(life: ShareLife) -> None:
    """An initialization that is not confirmed is requested again: after a while, and after a crash."""
    life.initializes = False
    epoch = life.heartbeat("m", 0, "t").member_epoch
    for _ in range(5):
        life.advance(HEARTBEAT_MS)
        assert life.heartbeat("m", epoch).initialization is None
    life.advance(HEARTBEAT_MS)
    assert life.heartbeat("m", epoch).initialization == Initialization(G, epoch, BOTH)
    life.advance(HEARTBEAT_MS)
    assert life.heartbeat("m", epoch).initialization is None
    life.reload()
    life.topics(t=2)
    assert life.heartbeat("m", epoch).initialization == Initialization(G, epoch, BOTH)
    life.ask(PartitionsInitialized(G, {topic_id("t"): (1,), topic_id("x"): (0,)}))
    life.settle("m", epoch)
    assert life.assigned() == {"m": [("t", 1)]}
    states = life.group().states_now
    assert (states.initialized[topic_id("t")].partitions, states.initializing[topic_id("t")].partitions) == (
        (1,),
        (0,),
    )


def test_new_partitions_are_initialized_and_assigned(life: ShareLife) -> None:
    """When a topic grows, and when a topic that members subscribe to is created."""
    epoch = life.join("m", "t", "later").member_epoch
    life.topics(t=3, later=1)
    result = life.heartbeat("m", epoch)
    assert result.initialization is not None
    assert result.initialization.partitions == {
        topic_id("t"): TopicPartitions(T, (2,)),
        topic_id("later"): TopicPartitions(TopicName("later"), (0,)),
    }
    life.settle("m", result.member_epoch)
    assert sorted(life.assigned()["m"]) == [("later", 0), ("t", 0), ("t", 1), ("t", 2)]


def test_a_deleted_topic_is_forgotten(life: ShareLife) -> None:
    """Its share-partitions are not recorded any more, and a topic of its name begins anew."""
    epoch = life.join("m").member_epoch
    life.topics(t=None)
    assert not life.group().states_now.initialized
    result = life.settle("m", epoch)
    assert life.assigned() == {"m": []}
    life.topics(t=1)
    life.settle("m", result.member_epoch)
    assert life.requested[-1].partitions == {topic_id("t"): TopicPartitions(T, (0,))}
    assert life.assigned() == {"m": [("t", 0)]}


def test_it_is_listed_and_described_as_a_share_group(life: ShareLife) -> None:
    """By type and state; descriptions of other types do not find it."""
    life.join("m")
    assert life.ask(ListGroups(types=frozenset({"Share"}))).groups == (
        ListedGroup(G, "share", "Stable", "share"),
    )
    assert life.ask(DescribeConsumerGroup(G)).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert life.ask(DescribeShareGroup(GroupId("none"))).message == "Group none not found."
    assert life.ask(DescribeShareGroup(GroupId(""))) == ErrorCode.INVALID_GROUP_ID
    life.commit("simple")
    refused = life.ask(DescribeShareGroup(GroupId("simple")))
    assert refused == ShareGroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, "Group simple is not a share group.")


def test_other_protocols_get_kafkas_answers(life: ShareLife) -> None:
    """To JoinGroup, ConsumerGroupHeartbeat, commits, fetches and deletions; and the other way round."""
    life.join("m")
    assert life.ask(join(group_id=G)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    modern = ConsumerHeartbeat(
        group_id=G,
        member_id=MemberId("c"),
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=(T,),
        reported=[],
    )
    assert life.ask(modern).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert life.commit(G).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert life.ask(FetchOffsets(G, [(T, [0])])).topics[0][1][0][1] is None
    assert life.ask(DeleteOffsets(G, [(T, [0])])).error == ErrorCode.GROUP_ID_NOT_FOUND
    life.commit("simple")
    assert life.heartbeat("m", 0, "t", group="simple").error == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_an_empty_group_are_altered(life: ShareLife) -> None:
    """The group epoch rises and is the state epoch (F19). An unknown group begins."""
    epoch = life.join("m").member_epoch
    refused = life.ask(AlterShareOffsets(G, BOTH))
    assert (type(refused), refused.error) == (ShareGroupRefusal, ErrorCode.NON_EMPTY_GROUP)
    life.heartbeat("m", -1)
    altered = life.ask(AlterShareOffsets(G, BOTH))
    assert altered == Initialization(G, epoch + 2, BOTH)
    life.confirm(altered)
    assert life.group().states_now.initializing == {}
    new = life.ask(AlterShareOffsets(GroupId("new"), BOTH))
    assert (new.group_id, new.state_epoch) == ("new", 1)
    life.confirm(new)
    assert life.ask(ListSharePartitions(GroupId("new"))) == SharePartitions(BOTH)
    life.commit("simple")
    assert life.ask(AlterShareOffsets(GroupId("simple"), BOTH)).error == ErrorCode.GROUP_ID_NOT_FOUND


def test_states_are_removed_in_two_steps(life: ShareLife) -> None:
    """First marked, so that a crash before the second step leaves them known; then forgotten."""
    life.topics(u=1)
    life.join("m", "t", "u")
    refused = life.ask(DeleteShareOffsets(G, [T]))
    assert refused.error == ErrorCode.NON_EMPTY_GROUP
    life.heartbeat("m", -1)
    assert life.ask(DeleteShareOffsets(G, [TopicName("x")])) == StateRemoval(G, {})
    assert life.ask(DeleteShareOffsets(G, [T])) == StateRemoval(G, BOTH)
    life.reload()
    life.topics(t=2, u=1)
    assert life.group().states_now.deleting == {topic_id("t"): T}
    assert life.ask(DeleteShareOffsets(G, None)).partitions.keys() == {topic_id("t"), topic_id("u")}
    assert life.ask(StatesRemoved(G, [topic_id("t"), topic_id("u")])) == NONE
    assert life.ask(ListSharePartitions(G)) == SharePartitions({})
    assert life.group().states_now.deleting == {}
    assert life.ask(DeleteShareOffsets(GroupId("none"), None)).error == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_is_deleted(life: ShareLife) -> None:
    """With all its records; one with members is not."""
    life.join("m")
    assert life.ask(DeleteGroup(G)) == ErrorCode.NON_EMPTY_GROUP
    life.heartbeat("m", -1)
    assert life.ask(DeleteGroup(G)) == NONE
    assert life.ask(DescribeShareGroup(G)).error == ErrorCode.GROUP_ID_NOT_FOUND
    life.reload()
    assert life.heartbeat("m", 0, "t").member_epoch in (1, 2)


def test_targets_are_kept_for_the_assignment_interval(life: ShareLife) -> None:
    """Members that join within a second share one computation (KIP-1263)."""
    epoch = life.join("m1").member_epoch
    for number in range(5):
        life.heartbeat(f"n{number}", 0, "t")
    assert life.described().assignment_epoch == epoch + 1
    life.advance(1000)
    life.heartbeat("m1", epoch)
    assert life.described().assignment_epoch == life.described().group_epoch == epoch + 5


def test_groups_survive_a_crash(life: ShareLife) -> None:
    """From the log, from an image, and from a compacted log."""
    life.join("m1")
    life.join("m2")
    for source in ("image", "compacted", "log"):
        life.loads_from = source
        before = life.described()
        life.reload()
        life.topics(t=2)
        assert life.described() == before


# --- a group that Kafka made for start offsets, before its first member ---


def wait_for_members(life: ShareLife, states: ShareGroupStatePartitions) -> None:
    """Load a log with the only record that Kafka writes of such a group."""
    life.write(states)
    life.reload()
    life.topics(t=2)


PREPARED = ShareGroupStatePartitions(group_id=G, initialized=BOTH)


@pytest.mark.parametrize("source", ["log", "image", "compacted"])
@pytest.mark.parametrize(
    "states",
    [
        PREPARED,
        ShareGroupStatePartitions(group_id=G, initializing=BOTH),
        ShareGroupStatePartitions(group_id=G),  # its start offsets were deleted again
    ],
)
def test_share_partitions_alone_are_an_empty_group(
    life: ShareLife, states: ShareGroupStatePartitions, source: Literal["log", "image", "compacted"]
) -> None:
    """It is listed and described as by Kafka, in epoch 1, however it is loaded."""
    life.loads_from = source
    wait_for_members(life, states)
    life.reload()
    life.topics(t=2)
    assert life.ask(ListGroups()).groups == (ListedGroup(G, "share", "Empty", "share"),)
    described = life.described()
    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Empty", 1, 1)
    assert life.ask(ListSharePartitions(G)) == SharePartitions(states.initialized)
    assert life.commit(G).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert life.ask(join(group_id=G)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_its_first_member_gets_the_prepared_partitions(life: ShareLife) -> None:
    """At once, and without another initialization, which would lose the start offsets."""
    wait_for_members(life, PREPARED)
    result = life.heartbeat("m", 0, "t")
    assert (result.member_epoch, result.assigned) == (2, {topic_id("t"): (0, 1)})
    assert life.requested == []


def test_its_start_offsets_are_altered(life: ShareLife) -> None:
    """Kafka's states have the state epoch 1: the next one is greater."""
    wait_for_members(life, PREPARED)
    assert life.ask(AlterShareOffsets(G, BOTH)) == Initialization(G, 2, BOTH)


def test_its_states_are_removed(life: ShareLife) -> None:
    """The group stays, as after the deletion of offsets of other groups."""
    wait_for_members(life, PREPARED)
    assert life.ask(DeleteShareOffsets(G, None)) == StateRemoval(G, BOTH)
    assert life.ask(StatesRemoved(G, [topic_id("t")])) == NONE
    assert life.ask(ListSharePartitions(G)) == SharePartitions({})
    assert life.described().state == "Empty"


def test_it_does_not_expire(life: ShareLife) -> None:
    """A share group stays until it is deleted (F20)."""
    wait_for_members(life, PREPARED)
    life.advance(30 * 24 * 3_600_000)
    assert life.described().state == "Empty"


def test_its_deleted_topic_is_forgotten(life: ShareLife) -> None:
    """As that of another group."""
    wait_for_members(life, PREPARED)
    life.topics(t=None)
    assert life.group().states_now.initialized == {}


def test_it_is_deleted(life: ShareLife) -> None:
    """With a tombstone of the group's own record, as by Kafka: readers of the log see that it is gone."""
    wait_for_members(life, PREPARED)
    assert life.ask(DeleteGroup(G)) == NONE
    assert life.batches[-1] == [
        ShareGroupTombstone(ShareGroupRecordType.STATE_PARTITIONS, G),
        ShareGroupTombstone(ShareGroupRecordType.GROUP, G),
    ]
    assert life.ask(ListGroups()).groups == ()
    life.reload()
    assert life.ask(ListGroups()).groups == ()
