"""The ends of the logs of many topics, of which a few cannot be asked at the moment."""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress

from headgate.client.cluster import LATEST, Cluster
from headgate.client.errors import RequestRefused
from headgate.domain.ids import TopicName, TopicPartition
from headgate.wire.messages.metadata import MetadataResponse


def known_ends(
    cluster: Cluster, response: MetadataResponse, topics: Container[str] | None = None
) -> dict[TopicPartition, int | None]:
    """Return the end offset of each partition in a response to Metadata, or of those of some topics.

    None: it cannot be asked, because it has no leader for example, or its topic was deleted meanwhile. Raises
    ClientError if a node cannot be reached.
    """
    cluster.learn_leaders(response)
    nodes = {node.node_id for node in response.brokers}
    ends: dict[TopicPartition, int | None] = {}
    led: dict[str, list[TopicPartition]] = {}
    for topic in response.topics:
        if topic.name is None or (topics is not None and topic.name not in topics):
            continue
        for partition in topic.partitions:
            where = TopicPartition(TopicName(topic.name), partition.partition_index)
            ends[where] = None
            if partition.leader_id in nodes:
                led.setdefault(topic.name, []).append(where)
    try:
        return ends | cluster.list_offsets({where: LATEST for each in led.values() for where in each})
    except RequestRefused:  # one of them: ask for each topic alone
        for each in led.values():
            with suppress(RequestRefused):
                ends |= cluster.list_offsets(dict.fromkeys(each, LATEST))
        return ends
