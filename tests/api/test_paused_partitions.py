"""PausePartitions, ResumePartitions and ListPausedPartitions as messages, in both versions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.node import OneNode, topic_id_of

from headgate.api import (
    k08_offset_commit,
    k11_join_group,
    k68_consumer_group_heartbeat,
    k20001_pause_partitions,
    k20002_resume_partitions,
    k20003_list_paused_partitions,
)
from headgate.core.topic_image import TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.wire.codec import encode
from headgate.wire.extensions.list_paused_partitions import ListPausedPartitionsRequest
from headgate.wire.extensions.pause_partitions import PausePartitionsRequest
from headgate.wire.extensions.paused_topics import PartitionToChange, TopicToChange
from headgate.wire.extensions.resume_partitions import ResumePartitionsRequest
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headgate.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

NONE = ErrorCode.NONE
T = topic_id_of("t")
VERSIONS = pytest.mark.parametrize("version", [0, 1])


@pytest.fixture
def node() -> OneNode:
    """A node with a topic t of three partitions, all of which a member of group g has."""
    node = OneNode(group_consumer_assignment_interval_ms="0")
    heartbeat(node, member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
    return node


def heartbeat(node: OneNode, *owned: int, **fields: Any) -> Any:
    """A heartbeat of the member, which owns these partitions, and the answer."""
    partitions = [TopicPartitions(topic_id=T, partitions=list(owned))] if owned else []
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", topic_partitions=partitions, **fields
    )
    response = node.ask(k68_consumer_group_heartbeat.API, request, 1)
    assert response.error_code == NONE
    return response


def topics(**partitions: list[int]) -> list[TopicToChange]:
    """Partitions of topics, as both requests name them."""
    return [
        TopicToChange(name=name, partitions=[PartitionToChange(partition_index=one) for one in indexes])
        for name, indexes in partitions.items()
    ]


def pause(node: OneNode, version: int, group_id: str = "g", **partitions: list[int]) -> Any:
    """The answer to a pause."""
    request = PausePartitionsRequest(group_id=group_id, topics=topics(**partitions))
    return node.ask(k20001_pause_partitions.API, request, version)


def listed(node: OneNode, version: int, group_id: str = "g") -> Any:
    """The answer to a list."""
    return node.ask(
        k20003_list_paused_partitions.API, ListPausedPartitionsRequest(group_id=group_id), version
    )


def release(node: OneNode) -> None:
    """The member revokes partition 1, and says so."""
    heartbeat(node, 0, 1, 2, member_epoch=2)
    heartbeat(node, 0, 2, member_epoch=2)


@VERSIONS
def test_a_pause_answers_for_each_partition_and_those_that_exist_are_paused(
    node: OneNode, version: int
) -> None:
    """In the order asked; unknown topics and partitions have an error of their own."""
    response = pause(node, version, t=[1, 7], x=[0])
    assert (response.error_code, response.error_message) == (NONE, None)
    first, second = response.responses
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (first.name, first.topic_id) == ("t", T)
    assert [(one.partition_index, one.error_code) for one in first.partitions] == [(1, NONE), (7, unknown)]
    assert [one.state for one in first.partitions] == ([0, 0] if version == 0 else [1, 0])
    assert first.partitions[1].error_message == "The topic has 3 partitions."
    assert (second.name, second.partitions[0].error_code) == ("x", unknown)
    assert second.partitions[0].error_message == "There is no such topic."
    (topic,) = listed(node, version).topics
    assert (topic.name, [one.partition_index for one in topic.partitions]) == ("t", [1])


def test_the_list_tells_all_there_is_in_version_1(node: OneNode) -> None:
    """Who owns the partition until it is released, since when, by whom and why; the committed offset."""
    node.ask(
        k20001_pause_partitions.API,
        PausePartitionsRequest(group_id="g", topics=topics(t=[1]), reason="poison", caller="alice"),
        1,
    )
    (topic,) = listed(node, 1).topics
    (one,) = topic.partitions
    assert (topic.topic_id, one.state, one.owner, one.offset) == (T, 1, "m", -1)
    assert (one.since_ms, one.caller, one.reason) == (node.time, "alice", "poison")
    release(node)
    reset = OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequestPartition(partition_index=1, committed_offset=42)]
    )
    answer = node.ask(k08_offset_commit.API, OffsetCommitRequest(group_id="g", topics=[reset]), 9)
    assert answer.topics[0].partitions[0].error_code == NONE
    (one,) = listed(node, 1).topics[0].partitions
    assert (one.state, one.owner, one.offset) == (2, None, 42)


def test_without_a_caller_it_is_the_principal(node: OneNode) -> None:
    """And where it comes from."""
    pause(node, 0, t=[1])
    assert listed(node, 1).topics[0].partitions[0].caller == "User:ANONYMOUS at 127.0.0.1"


@VERSIONS
def test_a_resume_gives_partitions_back(node: OneNode, version: int) -> None:
    """One that was not paused is no error; one that does not exist is."""
    pause(node, version, t=[1])
    request = ResumePartitionsRequest(group_id="g", topics=topics(t=[0, 1, 3]))
    response = node.ask(k20002_resume_partitions.API, request, version)
    assert response.error_code == NONE
    assert [one.error_code for one in response.responses[0].partitions] == [0, 0, 3]
    assert listed(node, version).topics == []


@VERSIONS
def test_groups_that_cannot_be_paused_are_refused_with_a_reason(node: OneNode, version: int) -> None:
    """A list has room for it in version 1; in version 0 it is empty."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    join = JoinGroupRequest(
        group_id="c", protocol_type="consumer", protocols=protocols, session_timeout_ms=10_000
    )
    node.send(k11_join_group.API, join, 3)
    node.advance(3_000)
    for group_id, says in (("c", "group.protocol=consumer"), ("x", "not found")):
        response = pause(node, version, group_id, t=[0])
        assert (response.error_code, response.responses) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert says in response.error_message
        response = listed(node, version, group_id)
        assert (response.error_code, response.topics) == (
            ErrorCode.GROUP_ID_NOT_FOUND if version else NONE,
            [],
        )


def test_a_group_is_refused_also_when_no_partition_exists(node: OneNode) -> None:
    """What concerns the group comes first."""
    assert pause(node, 1, "x", y=[0]).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert pause(node, 1, "x").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert pause(node, 1).error_code == NONE


def test_a_shard_that_cannot_answer_is_reported(node: OneNode) -> None:
    """Version 0 of the list has no error: an empty list would be wrong, so the connection is closed."""
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.coordinator.errors = dict.fromkeys(range(node.coordinator.shard_count), loading)
    assert pause(node, 0, t=[0]).error_code == loading
    assert listed(node, 1).error_code == loading
    with pytest.raises(AssertionError, match=r"disconnected: .*LOAD_IN_PROGRESS"):
        listed(node, 0)


def test_texts_that_are_too_long_are_refused(node: OneNode) -> None:
    """They are kept in a record."""
    request = PausePartitionsRequest(group_id="g", topics=topics(t=[0]), reason="x" * 1001)
    assert node.ask(k20001_pause_partitions.API, request, 1).error_code == ErrorCode.INVALID_REQUEST
    assert listed(node, 1).topics == []


@VERSIONS
def test_a_refusal_is_not_much_larger_than_its_request(node: OneNode, version: int) -> None:
    """Also if the topic has the longest name there is: each partition of it is refused on its own."""
    response = pause(node, version, "g", **{"x" * 32_767: [0] * 1000})
    assert len(encode(response, version)) < 100_000


def test_a_topic_that_is_deleted_while_the_request_is_read_is_unknown(node: OneNode) -> None:
    """The shard, which is told of topics, does not know its id any more."""
    node.coordinator.submit_to_all(TopicsChanged([TopicChange(TopicName("u"), None)]), lambda replies: None)
    response = pause(node, 1, u=[0], t=[1])
    assert [one.partitions[0].error_code for one in response.responses] == [3, NONE]
    assert [one.partitions[0].state for one in response.responses] == [0, 1]
    assert [topic.name for topic in listed(node, 1).topics] == ["t"]


def test_a_long_list_comes_in_pieces_that_are_one_answer() -> None:
    """All partitions of all topics, each once and in order."""
    node = OneNode({"t": 2500, "u": 1000, "v": 3}, group_consumer_assignment_interval_ms="0")
    heartbeat(node, member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
    pause(node, 1, t=[*range(2500)], u=[*range(0, 1000, 2)], v=[2])
    found = {
        topic.name: [one.partition_index for one in topic.partitions] for topic in listed(node, 1).topics
    }
    assert found == {"t": [*range(2500)], "u": [*range(0, 1000, 2)], "v": [2]}


def test_more_than_one_record_holds_is_refused() -> None:
    """Nothing of it is paused."""
    count = 250_000
    node = OneNode({"t": count}, group_consumer_assignment_interval_ms="0")
    heartbeat(node, member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=["u"])
    response = pause(node, 1, t=[*range(count)])
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "Pause fewer" in response.error_message
    assert listed(node, 1).topics == []
