"""Committed offsets through the client: conditional commits with a real server and with nodes that fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.conftest import PARTITIONS, TOPIC, StartNode
from tests.client.scripted import CLOSE, Answer, ScriptedNode, every_version

from headgate.broker import run
from headgate.client.cluster import Cluster
from headgate.client.errors import (
    OffsetsMoved,
    OutcomeUnknown,
    PartlyRefused,
    RequestTimedOut,
    VersionNotSupported,
)
from headgate.client.offsets import CommittedOffset, commit_offsets, delete_offsets, fetch_offsets
from headgate.domain.errors import ErrorCode
from headgate.domain.features import CONDITIONAL_COMMIT
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.wire.framing import RequestHeader
from headgate.wire.messages.api_versions import SupportedFeatureKey
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headgate.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

pytestmark = pytest.mark.timeout(60)
GROUP = GroupId("readers")
WIDE = [TopicPartition(TopicName("wide"), index) for index in range(300)]
FIRST, SECOND, THIRD = WIDE[:3]
NOWHERE = TopicPartition(TopicName("wide"), 300)
ORDERS = [TopicPartition(TopicName(TOPIC), index) for index in range(PARTITIONS)]


@pytest.fixture(scope="module")
def headgate() -> Iterator[Cluster]:
    """Start a server with a topic of 300 partitions."""
    with run({"offsets.topic.num.partitions": "4"}) as broker, Cluster(broker.bootstrap_servers) as cluster:
        topic = CreatableTopic(name="wide", num_partitions=len(WIDE), replication_factor=1)
        created = cluster.any_node().request(CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
        assert created.topics[0].error_code == ErrorCode.NONE
        yield cluster


@pytest.fixture
def group(request: pytest.FixtureRequest) -> GroupId:
    """A new group id."""
    return GroupId(request.node.name)


def test_offsets_are_committed_and_fetched_on_any_cluster(bootstrap_servers: str, group: GroupId) -> None:
    """With Headgate and with other brokers."""
    with Cluster(bootstrap_servers) as cluster:
        commit_offsets(cluster, group, {ORDERS[0]: 5, ORDERS[2]: CommittedOffset(7, -1, "here")})
        fetched = fetch_offsets(cluster, group, ORDERS)
        # librdkafka's brokers return leader epoch 0 if none was committed.
        both = {ORDERS[0]: (5, ""), ORDERS[2]: (7, "here")}
        assert {where: (each.offset, each.metadata) for where, each in fetched.items()} == both


def test_a_commit_succeeds_if_its_conditions_are_true(headgate: Cluster, group: GroupId) -> None:
    """None expects no committed offset. Partitions without a condition are committed too."""
    commit_offsets(headgate, group, {FIRST: 5, SECOND: 1}, expected={FIRST: None})
    commit_offsets(headgate, group, {FIRST: CommittedOffset(6, 2, "six")}, expected={FIRST: 5})
    assert fetch_offsets(headgate, group) == {FIRST: CommittedOffset(6, 2, "six"), SECOND: CommittedOffset(1)}


def test_a_failed_condition_raises_with_the_committed_offsets(headgate: Cluster, group: GroupId) -> None:
    """The error has the partitions whose condition failed. Nothing is committed."""
    commit_offsets(headgate, group, {FIRST: 5})
    with pytest.raises(OffsetsMoved) as moved:
        commit_offsets(headgate, group, {FIRST: 6, SECOND: 6, THIRD: 6}, {FIRST: 4, SECOND: 9})
    assert moved.value.current == {FIRST: 5, SECOND: None}
    assert moved.value.expected == {FIRST: 4, SECOND: 9}
    assert str(moved.value) == f"group {group}: wide-0 is at 5, not at 4; wide-1 is at no offset, not at 9"
    assert fetch_offsets(headgate, group) == {FIRST: CommittedOffset(5)}


def test_with_a_condition_all_partitions_are_committed_or_none(headgate: Cluster, group: GroupId) -> None:
    """The error names first the partition that caused it."""
    with pytest.raises(PartlyRefused, match=r"^offset of group [^:]* in wide-300: UNKNOWN_TOPIC") as refused:
        commit_offsets(headgate, group, {FIRST: 1, SECOND: 1, NOWHERE: 1}, {FIRST: None})
    assert {where: error.error for where, error in refused.value.refused.items()} == {
        NOWHERE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        FIRST: ErrorCode.OPERATION_NOT_ATTEMPTED,
        SECOND: ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
    assert fetch_offsets(headgate, group) == {}


def test_hundreds_of_conditions_succeed_or_fail_together(headgate: Cluster, group: GroupId) -> None:
    """The conditions are equal or differ; then one of them fails."""
    commit_offsets(headgate, group, dict.fromkeys(WIDE, 7), dict.fromkeys(WIDE))
    commit_offsets(headgate, group, {each: each.partition for each in WIDE}, expected=dict.fromkeys(WIDE, 7))
    here = {each: each.partition for each in WIDE}
    with pytest.raises(OffsetsMoved) as moved:
        commit_offsets(headgate, group, dict.fromkeys(WIDE, 9), here | {WIDE[150]: 0})
    assert moved.value.current == {WIDE[150]: 150}
    assert fetch_offsets(headgate, group) == {each: CommittedOffset(each.partition) for each in WIDE}


def test_a_deleted_offset_is_not_committed(headgate: Cluster, group: GroupId) -> None:
    """A condition on its former value fails."""
    commit_offsets(headgate, group, {FIRST: 5, SECOND: 5})
    delete_offsets(headgate, group, [FIRST])
    with pytest.raises(OffsetsMoved) as moved:
        commit_offsets(headgate, group, {FIRST: 6}, {FIRST: 5})
    assert moved.value.current == {FIRST: None}
    commit_offsets(headgate, group, {FIRST: 6}, {FIRST: None})


def test_a_condition_outside_of_the_commit_is_an_error(headgate: Cluster, group: GroupId) -> None:
    """The request could not contain the condition."""
    with pytest.raises(ValueError, match="wide"):
        commit_offsets(headgate, group, {FIRST: 1}, {SECOND: 1})


# --- nodes that fail ---


def coordinator_that_answers(start_node: StartNode, *commits: Answer, knows: bool = True) -> ScriptedNode:
    """Start a node that coordinates every group and sends these responses to commits, in order."""
    left = list(commits)

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == 18:
            versions = every_version()
            if knows:
                feature = SupportedFeatureKey(name=CONDITIONAL_COMMIT, min_version=1, max_version=1)
                versions.supported_features.append(feature)
            return versions
        if header.api_key == 10:
            found = Coordinator(key=GROUP, host=node.host, port=node.port)
            return FindCoordinatorResponse(coordinators=[found])
        return left.pop(0)

    node = start_node(script)
    return node


def refused(code: ErrorCode) -> OffsetCommitResponse:
    """Return a response with this error for the partition."""
    partition = OffsetCommitResponsePartition(error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="wide", partitions=[partition])])


@pytest.mark.parametrize(
    "answer",
    [CLOSE, None, b"\0\0\0\4none", refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)],
    ids=["hangs up", "says nothing", "nonsense", "fails meanwhile"],
)
def test_a_conditional_commit_is_not_sent_again_if_its_response_is_lost(
    start_node: StartNode, answer: Answer
) -> None:
    """The second request would be compared with the result of the first one."""
    node = coordinator_that_answers(start_node, answer, refused(ErrorCode.NONE))
    with Cluster(f"{node.host}:{node.port}", timeout_s=0.5) as cluster, pytest.raises(OutcomeUnknown):
        commit_offsets(cluster, GROUP, {FIRST: 6}, {FIRST: 5})
    assert [key for key, _ in node.requests].count(8) == 1


def test_an_unconditional_commit_is_sent_again(start_node: StartNode) -> None:
    """It is idempotent. After a timeout it is not sent again."""
    node = coordinator_that_answers(start_node, CLOSE, refused(ErrorCode.NONE), None)
    with Cluster(f"{node.host}:{node.port}", timeout_s=1) as cluster:
        commit_offsets(cluster, GROUP, {FIRST: 6})
        with pytest.raises(RequestTimedOut):
            commit_offsets(cluster, GROUP, {FIRST: 6})


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_a_conditional_commit_that_was_certainly_not_executed_is_sent_again(
    start_node: StartNode, code: ErrorCode
) -> None:
    """A node that is loading or is not the coordinator did not execute it."""
    node = coordinator_that_answers(start_node, refused(code), refused(ErrorCode.NONE))
    with Cluster(f"{node.host}:{node.port}") as cluster:
        commit_offsets(cluster, GROUP, {FIRST: 6}, {FIRST: 5})
    assert [key for key, _ in node.requests].count(8) == 2


def test_a_node_without_conditional_commits_does_not_get_one(start_node: StartNode) -> None:
    """It would ignore the condition and commit."""
    node = coordinator_that_answers(start_node, refused(ErrorCode.NONE), knows=False)
    with (
        Cluster(f"{node.host}:{node.port}") as cluster,
        pytest.raises(VersionNotSupported, match="does not support conditional commits"),
    ):
        commit_offsets(cluster, GROUP, {FIRST: 6}, {FIRST: 5})
    assert 8 not in [key for key, _ in node.requests]
