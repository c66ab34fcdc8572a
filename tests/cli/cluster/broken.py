"""A cluster that does not know all of its groups: a node with scripted responses beside one that is gone.

The node has the groups `known`, which is classic, and `shared`, which is a share group. The other half of the
coordinator's log has no leader. `lost` is a group there; `hidden` is one that the user may not describe,
`away` one whose coordinator does not answer.
"""

from __future__ import annotations

from typing import Any

from tests.client.scripted import CLOSE, Answer, ScriptedNode

from headgate.domain.errors import ErrorCode
from headgate.wire.codec import decode
from headgate.wire.framing import RequestHeader
from headgate.wire.message import Message
from headgate.wire.messages import consumer_group_describe as consumer
from headgate.wire.messages import delete_groups as delete
from headgate.wire.messages import describe_groups as classic
from headgate.wire.messages import describe_log_dirs as log_dirs
from headgate.wire.messages import describe_share_group_offsets as share_offsets
from headgate.wire.messages import find_coordinator as coordinator
from headgate.wire.messages import list_groups, list_offsets, metadata, offset_fetch
from headgate.wire.messages import share_group_describe as share
from headgate.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

KNOWN, SHARED, LOST, HIDDEN, AWAY = "known", "shared", "lost", "hidden", "away"
PARTITION = "flights-0"
WHY = "1 of 2 partitions of __consumer_offsets have no leader"
REFUSALS = {
    LOST: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    HIDDEN: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "headgate-health": ErrorCode.GROUP_AUTHORIZATION_FAILED,
}
"""Why nobody answers for these groups."""
END = 40
"""The end of the only partition of `flights`; `known` has committed 10."""
NEWEST = {2: 7, 3: 12, 9: 9, 10: 4, 15: 5, 16: 5, 18: 4, 35: 4, 42: 2, 61: 0, 69: 0, 77: 1, 90: 0}
"""The versions that the node supports, by API key."""


def start(nodes: list[ScriptedNode], *, loses_first_deletion: bool = False) -> ScriptedNode:
    """Start the node, and add it to the nodes that the caller closes.

    With `loses_first_deletion` it closes the connection of the first deletion of groups, and the next one
    finds no such group.
    """
    deletions = 0

    def answer(header: RequestHeader, frame: bytes) -> Answer:
        nonlocal deletions
        response = _answer(node, header, frame)
        if not (loses_first_deletion and isinstance(response, delete.DeleteGroupsResponse)):
            return response
        deletions += 1
        for one in response.results:
            one.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        return CLOSE if deletions == 1 else response

    node = ScriptedNode(answer)
    nodes.append(node)
    return node


def _answer(node: ScriptedNode, header: RequestHeader, frame: bytes) -> Answer:
    if header.api_key == 18:
        keys = [ApiVersion(api_key=key, max_version=version) for key, version in NEWEST.items()]
        return ApiVersionsResponse(api_keys=keys)
    request, respond = _RESPONSES[header.api_key]
    answer: Message = respond(node, decode(request, header.api_version, frame, header.body_at))
    return answer


def _metadata(node: ScriptedNode, request: Any) -> Message:
    led = metadata.MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
    lost = metadata.MetadataResponsePartition(partition_index=1, leader_id=-1, replica_nodes=[2])
    there = {"flights": [led], "__consumer_offsets": [led, lost]}
    names = there if request.topics is None else [one.name for one in request.topics]
    return metadata.MetadataResponse(
        brokers=[metadata.MetadataResponseBroker(node_id=1, host=node.host, port=node.port)],
        topics=[metadata.MetadataResponseTopic(name=name, partitions=there[name]) for name in names],
    )


def _coordinators(node: ScriptedNode, request: Any) -> Message:
    return coordinator.FindCoordinatorResponse(
        coordinators=[
            coordinator.Coordinator(
                key=key,
                host=node.host,
                port=1 if key == AWAY else node.port,
                error_code=REFUSALS.get(key, ErrorCode.NONE),
            )
            for key in request.coordinator_keys
        ]
    )


def _listed(node: ScriptedNode, request: Any) -> Message:
    there = [
        list_groups.ListedGroup(group_id=KNOWN, group_state="Empty", group_type="classic"),
        list_groups.ListedGroup(
            group_id=SHARED, protocol_type="share", group_state="Empty", group_type="share"
        ),
    ]
    types = {one.lower() for one in request.types_filter}
    return list_groups.ListGroupsResponse(
        groups=[one for one in there if not types or one.group_type in types]
    )


def _classic(node: ScriptedNode, request: Any) -> Message:
    return classic.DescribeGroupsResponse(
        groups=[
            classic.DescribedGroup(group_id=one, group_state="Empty" if one == KNOWN else "Dead")
            for one in request.groups
        ]
    )


def _consumer(node: ScriptedNode, request: Any) -> Message:
    return consumer.ConsumerGroupDescribeResponse(
        groups=[
            consumer.DescribedGroup(group_id=one, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            for one in request.group_ids
        ]
    )


def _share(node: ScriptedNode, request: Any) -> Message:
    return share.ShareGroupDescribeResponse(
        groups=[
            share.DescribedGroup(
                group_id=one,
                group_state="Empty",
                error_code=ErrorCode.NONE if one == SHARED else ErrorCode.GROUP_ID_NOT_FOUND,
            )
            for one in request.group_ids
        ]
    )


def _share_offsets(node: ScriptedNode, request: Any) -> Message:
    return share_offsets.DescribeShareGroupOffsetsResponse(
        groups=[
            share_offsets.DescribeShareGroupOffsetsResponseGroup(group_id=one.group_id)
            for one in request.groups
        ]
    )


def _offsets(node: ScriptedNode, request: Any) -> Message:
    partition = offset_fetch.OffsetFetchResponsePartitions(partition_index=0, committed_offset=10)
    topics = [offset_fetch.OffsetFetchResponseTopics(name="flights", partitions=[partition])]
    return offset_fetch.OffsetFetchResponse(
        groups=[
            offset_fetch.OffsetFetchResponseGroup(
                group_id=one.group_id, topics=topics if one.group_id == KNOWN else []
            )
            for one in request.groups
        ]
    )


def _ends(node: ScriptedNode, request: Any) -> Message:
    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index, offset=END if one.timestamp == -1 else 0
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _log_dirs(node: ScriptedNode, request: Any) -> Message:
    return log_dirs.DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _deleted(node: ScriptedNode, request: Any) -> Message:
    return delete.DeleteGroupsResponse(
        results=[delete.DeletableGroupResult(group_id=one) for one in request.groups_names]
    )


_RESPONSES: dict[int, Any] = {
    2: (list_offsets.ListOffsetsRequest, _ends),
    3: (metadata.MetadataRequest, _metadata),
    9: (offset_fetch.OffsetFetchRequest, _offsets),
    10: (coordinator.FindCoordinatorRequest, _coordinators),
    15: (classic.DescribeGroupsRequest, _classic),
    16: (list_groups.ListGroupsRequest, _listed),
    35: (log_dirs.DescribeLogDirsRequest, _log_dirs),
    42: (delete.DeleteGroupsRequest, _deleted),
    69: (consumer.ConsumerGroupDescribeRequest, _consumer),
    77: (share.ShareGroupDescribeRequest, _share),
    90: (share_offsets.DescribeShareGroupOffsetsRequest, _share_offsets),
}
