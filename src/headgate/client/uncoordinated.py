"""Whether lists of groups and of transactional ids are whole: each coordinator lists its own.

A partition of a coordinator's log without a leader has no coordinator, so no node lists what is stored there.
"""

from __future__ import annotations

from headgate.client.cluster import Cluster
from headgate.client.errors import ClientError
from headgate.domain.ids import TopicName


def without_coordinator(cluster: Cluster, log: TopicName) -> list[ClientError]:
    """Return why no node lists some groups or transactional ids; `log` has their records. Empty: all are."""
    found = cluster.metadata([log])
    brokers = {one.node_id for one in found.brokers}
    partitions = [one for topic in found.topics for one in topic.partitions]
    leaderless = [one for one in partitions if one.leader_id not in brokers]
    if not leaderless:
        return []
    return [ClientError(f"{len(leaderless)} of {len(partitions)} partitions of {log} have no leader")]
