"""Topics: describing, creating and deleting them, adding partitions, and deleting records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from headgate.client.cluster import RETRY_DELAY_S, Cluster
from headgate.client.connection import Connection
from headgate.client.errors import ClientError, PartlyRefused, RequestRefused, check, check_parts
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import ZERO_TOPIC_ID, TopicId, TopicName, TopicPartition, topic_id_text
from headgate.wire.messages import create_partitions as partitions_wire
from headgate.wire.messages import create_topics as create
from headgate.wire.messages import delete_records as records_wire
from headgate.wire.messages import describe_topic_partitions as described_wire
from headgate.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

BROKERS_CHOICE = -1
"""As a number of partitions or replicas: what the broker's settings say."""
_NOBODY = -1
MOST_UNSEEN_S = 5.0
_NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
"""What a node answers for a topic that the controller has created a moment ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition with its replicas, which are node ids."""

    partition: int
    leader: int | None
    """None: it has no leader now."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """Replicas in sync."""
    offline: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    """Eligible leader replicas (KIP-966); None: the cluster does not tell."""
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with its partitions, sorted."""

    name: str
    topic_id: str | None
    """The id as Kafka's tools print it; None: the cluster has no topic ids."""
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        """Number of replicas of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. -1 partitions or replicas: as the broker's settings say."""

    name: str
    partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()
    """The nodes of each partition, the first of which becomes the leader; instead of the two numbers."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for an assignment together with one of the numbers that it determines."""
        if self.assignment and (self.partitions, self.replication_factor) != (BROKERS_CHOICE, BROKERS_CHOICE):
            raise ValueError(
                f"topic {self.name}: the assignment determines the numbers of partitions and replicas; leave "
                "out partitions and replication_factor"
            )


def describe_topics(
    cluster: Cluster, names: Iterable[str] | None = None
) -> dict[str, TopicDescription | None]:
    """Describe topics (None: all), sorted or in the given order; None for one that does not exist.

    Raises `RequestRefused` for a name that no topic can have (INVALID_TOPIC_EXCEPTION).
    """
    wanted = None if names is None else list(dict.fromkeys(names))
    if wanted == []:
        return {}

    def attempt() -> dict[str, TopicDescription | None]:
        found: dict[str, TopicDescription | None] = {}
        asked = None if wanted is None else [TopicName(name) for name in wanted]
        for topic in cluster.metadata(asked).topics:
            name = str(topic.name)
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                found[name] = None
                continue
            check(f"topic {name}", topic.error_code)
            found[name] = _described(topic)
        return {name: found.get(name) for name in (wanted if wanted is not None else sorted(found))}

    return cluster.retrying(attempt)


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    parts = sorted(topic.partitions, key=lambda one: one.partition_index)
    return TopicDescription(
        name=str(topic.name),
        topic_id=_known_id(TopicId(topic.topic_id)),
        is_internal=topic.is_internal,
        partitions=tuple(map(_partition, parts)),
    )


def _partition(one: MetadataResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        partition=one.partition_index,
        leader=None if one.leader_id == _NOBODY else one.leader_id,
        replicas=tuple(one.replica_nodes),
        isr=tuple(one.isr_nodes),
        offline=tuple(one.offline_replicas),
    )


def describe_with_elr(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicDescription | None]:
    """Describe topics with their eligible leader replicas, if the cluster tells of them."""
    wanted = list(dict.fromkeys(names))

    def attempt() -> dict[str, TopicDescription | None]:
        node = cluster.any_node()
        if described_wire.DescribeTopicPartitionsRequest.API_KEY not in node.versions or not wanted:
            return describe_topics(cluster, wanted)
        return _all_pages(node, wanted)

    return cluster.retrying(attempt)


def _all_pages(node: Connection, wanted: list[str]) -> dict[str, TopicDescription | None]:
    """Ask until there is no further page; a page can end within a topic."""
    found: dict[str, list[described_wire.DescribeTopicPartitionsResponseTopic]] = {}
    cursor: described_wire.Cursor | None = None
    asked = [described_wire.TopicRequest(name=name) for name in sorted(wanted)]
    while True:
        request = described_wire.DescribeTopicPartitionsRequest(topics=asked, cursor=cursor)
        response = node.request(request)
        for topic in response.topics:
            found.setdefault(str(topic.name), []).append(topic)
        cursor = response.next_cursor
        if cursor is None:
            return {name: _from_pages(name, found.get(name, [])) for name in wanted}
        asked = [one for one in asked if one.name >= cursor.topic_name]


def _from_pages(
    name: str, pages: list[described_wire.DescribeTopicPartitionsResponseTopic]
) -> TopicDescription | None:
    if not pages or pages[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    check(f"topic {name}", pages[0].error_code)
    parts = sorted((one for page in pages for one in page.partitions), key=lambda one: one.partition_index)
    return TopicDescription(
        name=name,
        topic_id=_known_id(TopicId(pages[0].topic_id)),
        is_internal=pages[0].is_internal,
        partitions=tuple(
            PartitionDescription(
                partition=one.partition_index,
                leader=None if one.leader_id == _NOBODY else one.leader_id,
                replicas=tuple(one.replica_nodes),
                isr=tuple(one.isr_nodes),
                offline=tuple(one.offline_replicas),
                elr=None if one.eligible_leader_replicas is None else tuple(one.eligible_leader_replicas),
                last_known_elr=None if one.last_known_elr is None else tuple(one.last_known_elr),
            )
            for one in parts
        ),
    )


def _known_id(topic_id: TopicId) -> str | None:
    return None if topic_id == ZERO_TOPIC_ID else topic_id_text(topic_id)


# --- changes, which the controller makes ---


def create_topics(cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
    """Create topics, or only check whether they could be. Raises `PartlyRefused`; the others are created.

    Returns when a node tells of all of them: in a cluster others than the controller learn of them a moment
    later. After `MOST_UNSEEN_S` it waits no longer.

    Refusals are TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG,
    INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT and POLICY_VIOLATION.
    """
    new = list(topics)
    request = create.CreateTopicsRequest(
        topics=[_creatable(topic) for topic in new],
        timeout_ms=_timeout_ms(cluster),
        validate_only=validate_only,
    )

    def attempt() -> None:
        answers = _controller(cluster).request(request).topics
        _check_answers("topic", {one.name: (one.error_code, one.error_message) for one in answers})

    cluster.retrying(attempt)
    if not validate_only:
        _wait_until_seen(cluster, [TopicName(topic.name) for topic in new])


def _wait_until_seen(cluster: Cluster, names: list[TopicName]) -> None:
    end = time.monotonic() + min(MOST_UNSEEN_S, cluster.timeout_s)
    with suppress(ClientError):  # the topics are created
        while any(topic.error_code in _NOT_YET for topic in cluster.metadata(names).topics):
            if time.monotonic() > end:
                return
            time.sleep(RETRY_DELAY_S)


def _creatable(topic: NewTopic) -> create.CreatableTopic:
    assigned = [
        create.CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
        for index, nodes in enumerate(topic.assignment)
    ]
    return create.CreatableTopic(
        name=topic.name,
        num_partitions=BROKERS_CHOICE if assigned else topic.partitions,
        replication_factor=BROKERS_CHOICE if assigned else topic.replication_factor,
        assignments=assigned,
        configs=[
            create.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def delete_topics(cluster: Cluster, names: Iterable[str]) -> None:
    """Delete topics with all their records. Raises `PartlyRefused`; the others are deleted."""
    wanted = list(dict.fromkeys(names))
    request = DeleteTopicsRequest(
        topic_names=wanted,
        topics=[DeleteTopicState(name=name) for name in wanted],
        timeout_ms=_timeout_ms(cluster),
    )

    def attempt() -> None:
        answers = _controller(cluster).request(request).responses
        _check_answers("topic", {str(one.name): (one.error_code, one.error_message) for one in answers})

    cluster.retrying(attempt)


def create_partitions(
    cluster: Cluster,
    counts: Mapping[str, int],
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> None:
    """Increase the number of partitions of topics to these numbers.

    `assignments` has the nodes of each new partition of a topic. Raises `PartlyRefused` (INVALID_PARTITIONS,
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT); the others are increased.
    """
    assigned = assignments or {}
    topics = [
        partitions_wire.CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=[
                partitions_wire.CreatePartitionsAssignment(broker_ids=list(nodes)) for nodes in assigned[name]
            ]
            if name in assigned
            else None,
        )
        for name, count in counts.items()
    ]
    request = partitions_wire.CreatePartitionsRequest(topics=topics, timeout_ms=_timeout_ms(cluster))

    def attempt() -> None:
        answers = _controller(cluster).request(request).results
        _check_answers("topic", {one.name: (one.error_code, one.error_message) for one in answers})

    cluster.retrying(attempt)


def _check_answers(what: str, answers: Mapping[str, tuple[int, str | None]]) -> None:
    refused = {
        name: RequestRefused(f"{what} {name}", code, reason)
        for name, (code, reason) in answers.items()
        if code != ErrorCode.NONE
    }
    for error in refused.values():
        if error.is_retriable and len(answers) == 1:
            raise error
    if refused:
        raise PartlyRefused(refused)


def _controller(cluster: Cluster) -> Connection:
    """Return the controller, or a node that passes requests on to it."""
    found = cluster.metadata([])
    for broker in found.brokers:
        if broker.node_id == found.controller_id:
            return cluster.node_at((broker.host, broker.port))
    return cluster.any_node()


def _timeout_ms(cluster: Cluster) -> int:
    """Return how long a node may wait for the change, so that it can still answer in time."""
    return max(1, round(cluster.timeout_s * 900))


# --- records ---


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before an offset (-1: all) of each partition; return the new first offsets.

    Raises `PartlyRefused` (OFFSET_OUT_OF_RANGE, POLICY_VIOLATION), and `RequestRefused` for partitions that
    do not exist.
    """

    def attempt() -> dict[TopicPartition, int]:
        starts: dict[TopicPartition, int] = {}
        codes: dict[TopicPartition, int] = {}
        for leader, places in cluster.leaders_of(before).items():
            for topic in leader.request(_deletion(cluster, before, places)).topics:
                for one in topic.partitions:
                    where = TopicPartition(TopicName(topic.name), one.partition_index)
                    starts[where], codes[where] = one.low_watermark, one.error_code
        check_parts(codes, "partition")
        return dict(sorted(starts.items()))

    return cluster.retrying(attempt)


def _deletion(
    cluster: Cluster, before: Mapping[TopicPartition, int], places: list[TopicPartition]
) -> records_wire.DeleteRecordsRequest:
    topics: dict[TopicName, list[records_wire.DeleteRecordsPartition]] = {}
    for where in places:
        one = records_wire.DeleteRecordsPartition(partition_index=where.partition, offset=before[where])
        topics.setdefault(where.topic, []).append(one)
    return records_wire.DeleteRecordsRequest(
        topics=[
            records_wire.DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics.items()
        ],
        timeout_ms=_timeout_ms(cluster),
    )
