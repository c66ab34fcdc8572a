"""The ends of many logs are known, but for those that cannot be asked."""

from __future__ import annotations

import pytest
from tests.client.conftest import StartNode
from tests.client.scripted import Answer, ScriptedNode, every_version

from headgate.client.cluster import Cluster
from headgate.client.ends import known_ends
from headgate.client.errors import ClientError, RequestRefused
from headgate.client.survey import MOST_KEYS, Survey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName, TopicPartition
from headgate.wire.codec import decode
from headgate.wire.framing import RequestHeader
from headgate.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headgate.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

METADATA, API_VERSIONS = 3, 18
LED = MetadataResponsePartition(partition_index=0, leader_id=1)
LEADERLESS = MetadataResponsePartition(
    partition_index=1, leader_id=-1, error_code=ErrorCode.LEADER_NOT_AVAILABLE
)
ELSEWHERE = MetadataResponsePartition(partition_index=2, leader_id=9)


def metadata_of(node: ScriptedNode) -> MetadataResponse:
    """Return three topics: with partitions that nobody leads, without any, and one that is deleted soon."""
    parts = {"orders": [LED, LEADERLESS, ELSEWHERE], "gone": [LED], "sound": [LED], "left-out": [LED]}
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host=node.host, port=node.port)],
        topics=[MetadataResponseTopic(name=name, partitions=found) for name, found in parts.items()],
    )


def answer_of(header: RequestHeader, frame: bytes) -> ListOffsetsResponse:
    """Return 7 for each partition, and that `gone` does not exist."""
    request = decode(ListOffsetsRequest, header.api_version, frame, header.body_at)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=ErrorCode.UNKNOWN_SERVER_ERROR if topic.name == "gone" else 0,
                        offset=7,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_partitions_that_cannot_be_asked_do_not_affect_the_others(start_node: StartNode) -> None:
    """They are there, without an end. The metadata tells the leaders: no topic is asked for again."""

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == METADATA:
            return metadata_of(node)
        return every_version() if header.api_key == API_VERSIONS else answer_of(header, frame)

    node = start_node(script)
    with Cluster(f"{node.host}:{node.port}", timeout_s=5) as cluster:
        ends = known_ends(cluster, cluster.metadata(), ["orders", "gone", "sound"])
    expected = {
        ("orders", 0): 7,
        ("orders", 1): None,
        ("orders", 2): None,
        ("gone", 0): None,
        ("sound", 0): 7,
    }
    assert ends == {TopicPartition(TopicName(name), at): end for (name, at), end in expected.items()}
    assert [key for key, _ in node.requests].count(METADATA) == 1


def test_no_request_for_ends_has_too_many_partitions(start_node: StartNode) -> None:
    """After a crash a broker checks each log before it tells its end. One timeout is for one request."""
    led = [MetadataResponsePartition(partition_index=at, leader_id=1) for at in range(MOST_KEYS + 1)]
    asked: list[int] = []

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == METADATA:
            there = MetadataResponseBroker(node_id=1, host=node.host, port=node.port)
            wide = MetadataResponseTopic(name="wide", partitions=led)
            return MetadataResponse(brokers=[there], topics=[wide])
        if header.api_key == API_VERSIONS:
            return every_version()
        answer = answer_of(header, frame)
        asked.append(len(answer.topics[0].partitions))
        return answer

    node = start_node(script)
    wanted = [TopicPartition(TopicName("wide"), at) for at in range(MOST_KEYS + 1)]
    with Cluster(f"{node.host}:{node.port}", timeout_s=5) as cluster:
        assert Survey(cluster).end_offsets(wanted) == dict.fromkeys(wanted, 7)
    assert asked == [MOST_KEYS, 1]


def test_a_cluster_that_is_away_is_an_error(start_node: StartNode) -> None:
    """Not a cluster without ends, and no wait for each of its topics."""
    node = start_node(
        lambda header, frame: every_version() if header.api_key == API_VERSIONS else metadata_of(node)
    )
    with Cluster(f"{node.host}:{node.port}", timeout_s=0.5) as cluster:
        response = cluster.metadata()
        node.close()
        with pytest.raises(ClientError) as problem:
            known_ends(cluster, response)
        assert not isinstance(problem.value, RequestRefused)
