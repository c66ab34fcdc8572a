"""A broker's logs as a landing sees them: the cluster's id, the coordinators' logs, ends of other topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.client.cluster import EARLIEST, LATEST, Cluster
from headgate.client.ends import known_ends
from headgate.client.errors import RequestRefused
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TopicId, TopicName, TopicPartition, topic_id_text
from headgate.log.filesystem import OsFileSystem
from headgate.log.sync_mark import SyncMark, load_sync_mark
from headgate.spark.directory import CompactedWhileRead, segment_files, topics_in
from headgate.spark.landing.reading import options_of
from headgate.spark.options import Options
from headgate.spark.plan import MissingData
from headgate.spark.source import plan
from headgate.topics.catalogue import Catalogue, CatalogueCorrupt
from headgate.topics.catalogue_copy import read_catalogue

HIGH_WATERMARKS_NAME = "replication-offset-checkpoint"
"""The file with the high watermarks in a data directory of Kafka."""

Bounds = tuple[int, int]
"""The first offset of a log, and the end of its durable part."""


@dataclass(frozen=True, slots=True)
class CoordinatorLogs:
    """The cluster's id, and the bounds of each partition of the coordinators' logs.

    `unmarked` has those of a data directory that were written to, but nothing tells what of them is durable.
    """

    cluster_id: str
    bounds: dict[TopicPartition, Bounds]
    unmarked: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class EndOffset:
    """The end of the durable part of a partition. The topic's id is None if the files do not tell it."""

    where: TopicPartition
    topic_id: str | None
    end: int


def coordinator_logs(options: Options, topics: Sequence[TopicName]) -> CoordinatorLogs:
    """Return the cluster's id, and the start and durable end of each partition of these logs.

    A log that does not exist yet has no partitions: a cluster of Apache Kafka makes each when it is first
    needed. A data directory must have that of the group coordinator. Raises MissingData, ClientError,
    OSError.
    """
    if options.bootstrap_servers is not None:
        with _cluster(options) as cluster:
            cluster_id = cluster.metadata([]).cluster_id
            wanted = [where for topic in topics for where in _partitions_of(cluster, topic)]
            starts = cluster.list_offsets(dict.fromkeys(wanted, EARLIEST))
            ends = cluster.list_offsets(dict.fromkeys(wanted, LATEST))
        return CoordinatorLogs(str(cluster_id), {where: (starts[where], ends[where]) for where in wanted})
    assert options.path is not None
    cluster_id, folders = _cluster_id(options.path), topics_in(options.path)
    if GROUP_OFFSETS_TOPIC in topics and GROUP_OFFSETS_TOPIC not in folders:
        raise MissingData(f"nothing of {GROUP_OFFSETS_TOPIC} in {options.path}")
    watermarks = _high_watermarks(options.path)
    logs, unmarked = {}, set()
    for topic in topics:
        for partition, folder in folders.get(topic, {}).items():
            if segments := segment_files(folder):
                where = TopicPartition(topic, partition)
                end = _marked_end(watermarks, where, folder)
                logs[where] = segments[0].base_offset, end or 0
                if end is None and any(segment.size for segment in segments):
                    unmarked.add(where)
    return CoordinatorLogs(cluster_id, logs, frozenset(unmarked))


def has_record_before(options: Options, where: TopicPartition, end: int) -> bool:
    """Return whether a log in a data directory has the record before the offset `end`, durable or not.

    Raises CompactedWhileRead, OSError.
    """
    try:
        tasks = plan(options_of(options, {where: (end - 1, end)}))
        ends = [scan.next_offset for planned in tasks for _, scan in planned.scans()]
    except CompactedWhileRead:
        raise
    except MissingData:
        return False
    return max(ends, default=0) >= end


def _partitions_of(cluster: Cluster, topic: TopicName) -> list[TopicPartition]:
    try:
        partitions = cluster.partitions_of(topic)
    except RequestRefused as refusal:
        if refusal.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return []
    return [TopicPartition(topic, partition) for partition in partitions]


def end_offsets(options: Options) -> list[EndOffset]:
    """Return the ends of all partitions of all topics except internal ones, sorted.

    A partition that cannot be asked, without a leader for example, is omitted. Raises ClientError, OSError.
    """
    found = _ends_by_wire(options) if options.bootstrap_servers is not None else _ends_by_files(options)
    return sorted(found, key=lambda one: one.where)


def _cluster(options: Options) -> Cluster:
    assert options.bootstrap_servers is not None
    return Cluster(
        options.bootstrap_servers, options.timeout_s, waits_for_nodes=True, security=options.security
    )


def _ends_by_wire(options: Options) -> Iterator[EndOffset]:
    with _cluster(options) as cluster:
        response = cluster.metadata()
        ids = {
            TopicName(topic.name): topic_id_text(TopicId(topic.topic_id))
            for topic in response.topics
            if topic.error_code == ErrorCode.NONE and topic.name is not None and not _is_internal(topic.name)
        }
        for where, end in known_ends(cluster, response, ids).items():
            if end is not None:
                yield EndOffset(where, ids[where.topic], end)


def _ends_by_files(options: Options) -> Iterator[EndOffset]:
    assert options.path is not None
    folders = topics_in(options.path)
    catalogue = _catalogue(options.path)
    if catalogue is not None:
        for name, entry in catalogue.topics.items():
            topic_id, written = topic_id_text(entry.topic_id), folders.get(name, {})
            for partition in range(0 if _is_internal(name) else entry.partition_count):
                where = TopicPartition(name, partition)
                # A partition has no folder until it is written to.
                end = _durable_end({}, where, written[partition]) if partition in written else 0
                yield EndOffset(where, topic_id, end)
        return
    watermarks = _high_watermarks(options.path)
    for topic, of_topic in folders.items():
        if not _is_internal(topic):
            for partition, folder in of_topic.items():
                where = TopicPartition(TopicName(topic), partition)
                yield EndOffset(where, _topic_id(folder), _durable_end(watermarks, where, folder))


def _is_internal(topic: str) -> bool:
    return topic.startswith("__")


def _durable_end(watermarks: dict[TopicPartition, int], where: TopicPartition, folder: Path) -> int:
    return _marked_end(watermarks, where, folder) or 0


def _marked_end(watermarks: dict[TopicPartition, int], where: TopicPartition, folder: Path) -> int | None:
    """Return the end of what is durable, by Kafka's checkpoint or Headgate's mark; None without both."""
    if where in watermarks:
        return watermarks[where]
    mark = load_sync_mark(OsFileSystem(), folder)
    return None if mark == SyncMark() else mark.end_offset


def _cluster_id(directory: Path) -> str:
    """Return the id in the `meta.properties` of a data directory."""
    if not directory.is_dir():
        raise MissingData(f"there is no data directory {directory}")
    try:
        properties = _properties(directory / "meta.properties", "=")
    except FileNotFoundError:
        raise MissingData(f"{directory} has no meta.properties: it is no broker's data directory") from None
    return properties.get("cluster.id", "")


def _catalogue(directory: Path) -> Catalogue | None:
    """Return Headgate's catalogue; None in a directory of Kafka, and if it cannot be read."""
    with suppress(OSError, CatalogueCorrupt):
        return read_catalogue(directory)
    return None


def _topic_id(folder: Path) -> str | None:
    """Return the id in the `partition.metadata` of a partition of Kafka."""
    with suppress(FileNotFoundError):
        return _properties(folder / "partition.metadata", ":").get("topic_id")
    return None


def _properties(file: Path, separator: str) -> dict[str, str]:
    lines = [line.split(separator, 1) for line in file.read_text().splitlines() if not line.startswith("#")]
    return {line[0].strip(): line[1].strip() for line in lines if len(line) == 2}


def _high_watermarks(directory: Path) -> dict[TopicPartition, int]:
    """Return the high watermarks in Kafka's checkpoint; empty for Headgate.

    Raises MissingData if the file is damaged.
    """
    file = directory / HIGH_WATERMARKS_NAME
    try:
        version, count, *lines = file.read_text().splitlines()
        entries = [line.rsplit(" ", 2) for line in lines]
        found = {
            TopicPartition(TopicName(topic), int(partition)): int(offset)
            for topic, partition, offset in entries
        }
        is_valid = int(version) == 0 and int(count) == len(lines) and min(found.values(), default=0) >= 0
    except FileNotFoundError:
        return {}
    except ValueError:
        is_valid = False
    if not is_valid:
        raise MissingData(f"{file} is damaged: what is durable is not known; start its broker once")
    return found
