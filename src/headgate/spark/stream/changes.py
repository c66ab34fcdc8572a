"""Who changed offsets of a group last, from the history that its coordinator keeps. Kafka keeps none."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.client.cluster import Cluster
from headgate.client.history import list_changes
from headgate.client.offsets import by_topic
from headgate.domain.ids import GroupId, TopicPartition
from headgate.wire.extensions.describe_offset_history import DescribeOffsetHistoryRequest


def set_by_administrators(
    cluster: Cluster, group_id: GroupId, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, bool]:
    """Return whether the last change of each partition was an administrator's: a reset, an undo, a restore.

    Partitions for which the history does not tell it are left out. Raises the errors of
    `headgate.client.errors`.
    """
    asked = {topic: list(indexes) for topic, indexes in by_topic(dict.fromkeys(partitions, True)).items()}
    if not asked or DescribeOffsetHistoryRequest.API_KEY not in cluster.coordinator(group_id).versions:
        return {}
    history = list_changes(cluster, group_id, asked, since=None, until=None, limit=1)
    return {each.partition: each.changes[0].author is not None for each in history.partitions if each.changes}
