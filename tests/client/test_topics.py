"""Topics that are created: what follows at once finds them."""

from __future__ import annotations

import pytest
from tests.client.conftest import StartNode
from tests.client.scripted import Answer, ScriptedNode, every_version

from headgate.client import topics
from headgate.client.cluster import Cluster
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.wire.framing import RequestHeader
from headgate.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from headgate.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

METADATA, API_VERSIONS, CREATE = 3, 18, 19
UNKNOWN, LEADERLESS = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE


def late_node(start_node: StartNode, *errors: ErrorCode) -> ScriptedNode:
    """Start a node that answers with these errors for a topic that was created, then that it is there."""
    left = list(errors)
    nodes: list[ScriptedNode] = []

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == API_VERSIONS:
            return every_version()
        if header.api_key == CREATE:
            return CreateTopicsResponse(topics=[CreatableTopicResult(name="new")])
        broker = MetadataResponseBroker(node_id=1, host=nodes[0].host, port=nodes[0].port)
        error = left.pop(0) if left and b"new" in frame else ErrorCode.NONE
        there = [] if error else [MetadataResponsePartition(partition_index=0, leader_id=1)]
        topic = MetadataResponseTopic(error_code=error, name="new", partitions=there)
        return MetadataResponse(brokers=[broker], controller_id=1, topics=[topic])

    nodes.append(start_node(script))
    return nodes[0]


@pytest.mark.parametrize("errors", [[], [UNKNOWN], [UNKNOWN, LEADERLESS, UNKNOWN]])
def test_a_topic_is_there_when_its_creation_returns(start_node: StartNode, errors: list[ErrorCode]) -> None:
    """Brokers of a cluster learn of it a moment after the controller: the next call would not find it."""
    node = late_node(start_node, *errors)
    with Cluster(f"{node.host}:{node.port}") as cluster:
        topics.create_topics(cluster, [topics.NewTopic(name="new")])
        assert cluster.partitions_of(TopicName("new")) == [0]


def test_a_node_that_never_tells_of_a_topic_is_not_waited_for(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is created all the same; a check alone creates none to wait for."""
    monkeypatch.setattr(topics, "MOST_UNSEEN_S", 0.3)
    node = late_node(start_node, *[UNKNOWN] * 1000)
    with Cluster(f"{node.host}:{node.port}") as cluster:
        topics.create_topics(cluster, [topics.NewTopic(name="new")])
        asked = [key for key, _ in node.requests].count(METADATA)
        assert asked > 2
        topics.create_topics(cluster, [topics.NewTopic(name="new")], validate_only=True)
        assert [key for key, _ in node.requests].count(METADATA) <= asked + 1
