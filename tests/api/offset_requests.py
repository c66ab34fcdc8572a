"""Commits and fetches of topic t, asked of a node in every version, and their answers in brief."""

from __future__ import annotations

from tests.api.node import OneNode, topic_id_of

from headgate.api import k08_offset_commit, k09_offset_fetch
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


def commit(
    node: OneNode, version: int, base: int, indexes: list[int], metadata: str = "", **more: int
) -> list[tuple[int, int]]:
    """Commit base + index for each partition of topic t; the answers as partition and error."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=base + index, committed_metadata=metadata
        )
        for index in indexes
    ]
    topics = [OffsetCommitRequestTopic(name="t", topic_id=topic_id_of("t"), partitions=partitions)]
    request = OffsetCommitRequest(group_id="g", topics=topics, **more)  # type: ignore[arg-type]
    response = node.ask(k08_offset_commit.API, request, version)
    return [(one.partition_index, one.error_code) for one in response.topics[0].partitions]


def fetch(node: OneNode, version: int, indexes: list[int]) -> list[tuple[int, int, str, int]]:
    """Each partition with its offset, metadata and error."""
    if version < 8:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=indexes)]
        response = node.ask(k09_offset_fetch.API, OffsetFetchRequest(group_id="g", topics=topics), version)
        found = response.topics[0].partitions
    else:
        groups = [
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[
                    OffsetFetchRequestTopics(name="t", topic_id=topic_id_of("t"), partition_indexes=indexes)
                ],
            )
        ]
        response = node.ask(k09_offset_fetch.API, OffsetFetchRequest(groups=groups), version)
        found = response.groups[0].topics[0].partitions
    return [(one.partition_index, one.committed_offset, one.metadata, one.error_code) for one in found]
