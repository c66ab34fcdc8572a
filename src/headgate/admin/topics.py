"""The operations of the Admin API on topics and their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headgate.admin.arguments import refuse_impossible
from headgate.admin.checking import checked
from headgate.client import topics
from headgate.client.cluster import EARLIEST, LATEST, Cluster
from headgate.client.topics import NewTopic, TopicDescription
from headgate.domain.ids import TopicName, TopicPartition


@checked
class TopicAdmin:
    """Topics of a cluster; the part of `headgate.admin.Admin` for them."""

    cluster: Cluster

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted, with the internal ones, such as `__consumer_offsets`."""
        return sorted(topic.name for topic in self.cluster.metadata().topics if topic.name is not None)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription | None]:
        """Return topics (None: all) with their partitions; None for one that does not exist.

        Raises `RequestRefused` for a name that no topic can have (INVALID_TOPIC_EXCEPTION).
        """
        wanted = self.topics() if names is None else names
        return topics.describe_with_elr(self.cluster, wanted)

    def create_topics(self, new: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics; with `validate_only` only check whether they could be created.

        Returns when a node tells of all of them, or after five seconds. Raises `PartlyRefused`
        (TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG, ...); the others
        are created.
        """
        topics.create_topics(self.cluster, new, validate_only=validate_only)

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create one topic. -1: as the broker's settings say. Raises what `create_topics` raises."""
        new = NewTopic(
            name=name, partitions=partitions, replication_factor=replication_factor, configs=configs or {}
        )
        self.create_topics([new])

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all their records.

        Raises `PartlyRefused` (UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION); the others are deleted.
        """
        topics.delete_topics(self.cluster, names)

    def create_partitions(
        self, counts: Mapping[str, int], assignments: Mapping[str, Sequence[Sequence[int]]] | None = None
    ) -> None:
        """Increase the number of partitions of topics to these numbers.

        `assignments` has the node ids of each new partition. Raises `PartlyRefused` (INVALID_PARTITIONS,
        UNKNOWN_TOPIC_OR_PARTITION); the others are increased.
        """
        topics.create_partitions(self.cluster, counts, assignments)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all) of each partition; return the new first offsets.

        Raises `PartlyRefused` (OFFSET_OUT_OF_RANGE, POLICY_VIOLATION), and `RequestRefused` for partitions
        that do not exist; `ValueError` for another negative offset.
        """
        refuse_impossible(
            {where: offset for where, offset in before.items() if offset != -1}, "or -1 for all"
        )
        return topics.delete_records(self.cluster, before)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises `RequestRefused` if the topic does not exist."""
        name = TopicName(topic)
        return [TopicPartition(name, index) for index in self.cluster.partitions_of(name)]

    def log_start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of partitions. Partitions that do not exist are omitted."""
        return self._offsets_at(partitions, EARLIEST)

    def log_end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offsets of partitions. Partitions that do not exist are omitted."""
        return self._offsets_at(partitions, LATEST)

    def _offsets_at(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        wanted = set(partitions)
        found = topics.describe_topics(self.cluster, sorted({topic for topic, _ in wanted}))
        existing = {
            TopicPartition(TopicName(name), one.partition)
            for name, topic in found.items()
            if topic is not None
            for one in topic.partitions
        }
        return self.cluster.list_offsets(dict.fromkeys(sorted(wanted & existing), timestamp))
