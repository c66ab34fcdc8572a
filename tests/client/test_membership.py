"""A member of a consumer group with a real server: it joins, rebalances, revokes, commits and leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headgate.broker import Broker, run
from headgate.client.cluster import Cluster
from headgate.client.errors import ClientError, PartlyRefused, RequestRefused, RequestTimedOut
from headgate.client.groups import describe_groups
from headgate.client.membership import (
    JOIN_EPOCH,
    MemberSettings,
    Membership,
    MemberState,
    MemberView,
    new_member_id,
)
from headgate.client.offsets import fetch_offsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName, TopicPartition
from headgate.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

FLIGHTS, TRAINS = TopicName("flights"), TopicName("trains")
ALL = frozenset(TopicPartition(FLIGHTS, index) for index in range(4))
SETTINGS = {"group.consumer.heartbeat.interval.ms": "300", "group.consumer.min.heartbeat.interval.ms": "100"}
TOPIC_ID = TopicId(bytes(15) + b"\1")

pytestmark = pytest.mark.timeout(60)
Join = Callable[..., Membership]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A server with two topics of four partitions."""
    with run(SETTINGS) as started, Cluster(started.bootstrap_servers) as cluster:
        topics = [
            CreatableTopic(name=name, num_partitions=4, replication_factor=1)
            for name in ("flights", "trains")
        ]
        cluster.any_node().request(CreateTopicsRequest(topics=topics, timeout_ms=5000))
        yield started


@pytest.fixture
def join(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Join]:
    """Start members of the test's group. They leave after the test."""
    group_id = GroupId(request.node.name)
    with ExitStack() as members:

        def start(instance_id: str | None = None, **changes: object) -> Membership:
            settings = MemberSettings(
                group_id=group_id,
                topics=(FLIGHTS,),
                instance_id=None if instance_id is None else InstanceId(instance_id),
                **changes,  # type: ignore[arg-type]
            )
            return members.enter_context(Membership(broker.bootstrap_servers, settings))

        yield start


def until(member: Membership, holds: Callable[[MemberView], bool]) -> MemberView:
    """Return the member's view as soon as a condition is true."""
    deadline = time.monotonic() + 10
    while not holds(view := member.view()):
        assert time.monotonic() < deadline, view
        time.sleep(0.01)
    return view


def test_a_single_member_gets_all_partitions_and_is_described(join: Join, broker: Broker) -> None:
    """The group's description has its member id and its partitions."""
    member = join()
    assert member.wait_for_assignment(5).assigned == ALL
    with Cluster(broker.bootstrap_servers) as cluster:
        (group,) = describe_groups(cluster, [member.settings.group_id]).values()
    assert group is not None
    assert [one.member_id for one in group.members] == [member.member_id]
    assert set(group.members[0].assignment or ()) == ALL


def test_partitions_move_only_after_their_owner_released_them(join: Join) -> None:
    """Until then they are revoked but still owned, and their offsets can be committed."""
    first = join()
    assert first.wait_for_assignment(5).assigned == ALL
    second = join()
    revoked = until(first, lambda view: len(view.revoked) == 2).revoked
    time.sleep(0.5)  # more than one heartbeat
    assert second.view().assigned == frozenset()
    first.commit(dict.fromkeys(revoked, 7))
    first.release(revoked)
    assert second.wait_for_assignment(5).assigned == revoked
    assert until(first, lambda view: not view.revoked).assigned == ALL - revoked
    assert first.view().lost == 0


def test_assigned_partitions_are_not_released(join: Join) -> None:
    """The release of an assigned partition is ignored."""
    member = join()
    member.wait_for_assignment(5)
    member.release(ALL)
    time.sleep(0.5)
    assert member.view().assigned == ALL


def test_commits_are_made_under_the_members_epoch(join: Join, broker: Broker) -> None:
    """Commits are refused after the member was removed from the group."""
    member = join()
    member.wait_for_assignment(5)
    where = TopicPartition(FLIGHTS, 0)
    member.commit({where: 41})
    with Cluster(broker.bootstrap_servers) as cluster:
        assert fetch_offsets(cluster, member.settings.group_id)[where].offset == 41
    member._state.member_id = MemberId("someone-else")
    with pytest.raises((PartlyRefused, RequestRefused)):
        member.commit({where: 43})


def test_a_static_member_that_left_temporarily_keeps_its_partitions(join: Join) -> None:
    """Other members do not get them in the meantime."""
    first, second = join("a"), join("b")
    until(first, lambda view: len(view.assigned) == 2 or bool(view.revoked))
    first.release(first.view().revoked)
    second.release(second.view().revoked)
    until(second, lambda view: len(view.assigned) == 2)
    before = first.view().assigned
    first.leave()
    time.sleep(0.5)
    assert second.view().assigned == ALL - before
    assert join("a").wait_for_assignment(5).assigned == before


def test_an_instance_id_that_is_in_use_is_refused(join: Join) -> None:
    """The member with that instance id stays in the group."""
    first = join("a")
    first.wait_for_assignment(5)
    with pytest.raises(RequestRefused, match="UNRELEASED_INSTANCE_ID"):
        join("a")
    assert first.view().assigned == ALL


def test_a_member_survives_a_broken_connection_and_a_restart(tmp_path: object) -> None:
    """The next heartbeat reports everything, with the same member id."""
    with run(SETTINGS) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            topic = CreatableTopic(name="flights", num_partitions=4, replication_factor=1)
            cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        settings = MemberSettings(group_id=GroupId("g"), topics=(FLIGHTS,))
        with Membership(broker.bootstrap_servers, settings) as member:
            member.wait_for_assignment(5)
            broker.kill()
            broker.start()
            member.commit({TopicPartition(FLIGHTS, 1): 5})
            time.sleep(0.5)
            view = member.view()
    assert (view.assigned, view.lost) == (ALL, 0)


def test_an_error_that_is_not_retriable_ends_the_membership(join: Join) -> None:
    """The next call of a method raises the error."""
    with pytest.raises(RequestRefused, match="INVALID_REGULAR_EXPRESSION"):
        join(topic_regex="(")


def test_nothing_is_assigned_without_a_topic(broker: Broker) -> None:
    """Waiting for an assignment ends with the timeout."""
    settings = MemberSettings(group_id=GroupId("nothing"), topics=(TopicName("no-such-topic"),))
    with (
        Membership(broker.bootstrap_servers, settings) as member,
        pytest.raises(RequestTimedOut, match="nothing"),
    ):
        member.wait_for_assignment(0.3)


def test_partitions_of_a_topic_that_never_had_a_name_are_released(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted before the member asked for its name: no view shows them, so no caller releases them."""
    with monkeypatch.context() as patched:
        patched.setattr(Cluster, "topic_names", lambda cluster, topic_ids: {})
        first = join()
        until(first, lambda view: len(first._state.assigned) == 4)
        assert first.view().assigned == frozenset()
        second = join()
        until(first, lambda view: len(first._state.owned) == 2)
    until(second, lambda view: len(view.assigned) == 2)  # with the names of a later heartbeat, if need be


def test_a_member_whose_heartbeats_end_says_so(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends them: its partitions will be another member's."""
    member = join()
    member.wait_for_assignment(5)

    def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(member, "_beat", fail)
    with pytest.raises(ClientError, match="heartbeats ended: RuntimeError") as ended:
        until(member, lambda view: False)
    assert isinstance(ended.value.__cause__, RuntimeError)


def test_a_member_leaves_also_if_its_last_join_had_no_response(join: Join, broker: Broker) -> None:
    """Then it does not know its epoch, and the coordinator may have let it in."""
    member = join()
    member.wait_for_assignment(5)
    with member._changed:
        member._state.epoch = JOIN_EPOCH
        member._interval_s = 60
    member.leave()
    with Cluster(broker.bootstrap_servers) as cluster:
        (group,) = describe_groups(cluster, [member.settings.group_id]).values()
    assert group is not None
    assert not group.members


def test_a_join_without_a_response_does_not_block_the_next_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator may have let the member in: its instance id would be in use until its session ends."""

    def time_out(member: Membership, topic_ids: set[TopicId]) -> None:
        raise RequestTimedOut("no response")

    settings = MemberSettings(
        group_id=GroupId("unanswered"), topics=(FLIGHTS,), instance_id=InstanceId("instance")
    )
    with monkeypatch.context() as patched:
        patched.setattr(Membership, "_learn_names", time_out)
        with pytest.raises(RequestTimedOut):
            Membership(broker.bootstrap_servers, settings).join()
    with Membership(broker.bootstrap_servers, settings) as member:
        assert member.wait_for_assignment(5).assigned == ALL


# --- the state without a server ---


def answer(epoch: int, *partitions: int, error: ErrorCode = ErrorCode.NONE) -> ConsumerGroupHeartbeatResponse:
    topics = [TopicPartitions(topic_id=TOPIC_ID, partitions=list(partitions))]
    return ConsumerGroupHeartbeatResponse(
        error_code=error, member_epoch=epoch, assignment=Assignment(topic_partitions=topics)
    )


def test_a_fenced_member_owns_nothing_and_joins_again() -> None:
    """It joins with the same member id and an empty list of owned partitions."""
    state = MemberState(MemberSettings(group_id=GroupId("g"), topics=(FLIGHTS,)), new_member_id())
    state.take(state.heartbeat(), answer(3, 0, 1))
    assert len(state.owned) == 2
    state.take(state.heartbeat(), answer(0, error=ErrorCode.FENCED_MEMBER_EPOCH))
    again = state.heartbeat()
    assert (state.owned, state.lost) == (frozenset(), 1)
    assert (again.member_epoch, again.topic_partitions, again.member_id) == (JOIN_EPOCH, [], state.member_id)
    assert again.subscribed_topic_names == [FLIGHTS]


def test_a_heartbeat_reports_changes_and_everything_after_a_lost_response() -> None:
    """Owned partitions and subscription are omitted as long as the coordinator knows them."""
    state = MemberState(MemberSettings(group_id=GroupId("g"), topics=(FLIGHTS,)), new_member_id())
    state.take(state.heartbeat(), answer(1, 0))
    told = state.heartbeat()
    assert (told.subscribed_topic_names, told.topic_partitions is None) == (None, False)
    state.take(told, ConsumerGroupHeartbeatResponse(member_epoch=1))
    assert not state.has_news
    assert state.heartbeat().topic_partitions is None
    state.answer_lost()
    everything = state.heartbeat()
    assert (everything.subscribed_topic_names, everything.topic_partitions) == (
        [FLIGHTS],
        told.topic_partitions,
    )


def test_a_member_whose_group_was_deleted_joins_a_new_one_under_a_new_name() -> None:
    """The epochs of the new group begin anew: what was sent under an old epoch must find no such member."""
    state = MemberState(MemberSettings(group_id=GroupId("g"), topics=(FLIGHTS,)), new_member_id())
    state.take(state.heartbeat(), answer(3, 0, 1))
    before = state.member_id
    state.take(state.heartbeat(), answer(0, error=ErrorCode.GROUP_ID_NOT_FOUND))
    again = state.heartbeat()
    assert (state.owned, state.lost) == (frozenset(), 1)
    assert (again.member_epoch, again.topic_partitions) == (JOIN_EPOCH, [])
    assert again.member_id == state.member_id != before


def test_a_group_of_another_kind_is_an_error_for_a_member_that_joins() -> None:
    """It gets the same answer as a member of a group that was deleted, and would try forever."""
    state = MemberState(MemberSettings(group_id=GroupId("g"), topics=(FLIGHTS,)), new_member_id())
    with pytest.raises(RequestRefused, match="GROUP_ID_NOT_FOUND"):
        state.take(state.heartbeat(), answer(0, error=ErrorCode.GROUP_ID_NOT_FOUND))
