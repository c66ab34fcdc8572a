"""Topics, settings and producer ids of a Kafka cluster, as its metadata log states them.

The directory `__cluster_metadata-0` has snapshots, `<end offset>-<epoch>.checkpoint`, and segments. The state
is that of the newest snapshot, then of the records of the log from its end offset on. Control batches (of
Raft itself, and the head and foot of a snapshot) carry no state. Nothing compacts these files: a gap between
the offsets of two batches is missing state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headgate.domain.ids import TopicId
from headgate.log.batch import BatchHeader, CorruptBatch, iterate_records
from headgate.log.filesystem import File, FileSystem
from headgate.log.segment_file import LOG_SUFFIX
from headgate.log.walking import find_whole_batch, walk_batches
from headgate.records.errors import MalformedRecord
from headgate.takeover.errors import ImportRefused
from headgate.takeover.metadata_records import (
    ConfigSet,
    MetadataRecord,
    OtherRecord,
    PartitionAdded,
    PartitionChanged,
    ProducerIdsReserved,
    TopicAdded,
    TopicRemoved,
    TransactionBegins,
    TransactionEnds,
    decode_metadata,
)
from headgate.takeover.segments import base_of, check_batch

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32

_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint\Z")


@dataclass(slots=True)
class PartitionState:
    """A partition: the ids of the brokers that have a replica, and its leader epoch."""

    replicas: tuple[int, ...]
    leader_epoch: int


@dataclass(slots=True)
class TopicState:
    """A topic, with its partitions by index."""

    name: str
    topic_id: TopicId
    partitions: dict[int, PartitionState] = field(default_factory=dict)


class ClusterMetadata:
    """The state after the records that were applied."""

    def __init__(self) -> None:
        self.topics: dict[TopicId, TopicState] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """Settings by type and name of their resource."""
        self.producer_ids_end = 0
        self.others: Counter[int] = Counter()
        """How many records of each other type there are, by API key."""
        self._transaction: list[MetadataRecord] | None = None
        """Records of the open transaction, which do not count yet."""

    def apply(self, record: MetadataRecord) -> None:
        """Apply the next record of the log. Raises KeyError for a partition of an unknown topic."""
        if isinstance(record, TransactionBegins):
            self._transaction = []
        elif isinstance(record, TransactionEnds):
            records, self._transaction = self._transaction or [], None
            for each in records if record.is_committed else ():
                self._apply(each)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply(record)

    def _apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicAdded(name, topic_id):
                self.topics[topic_id] = TopicState(name, topic_id)
            case PartitionAdded(topic_id, index, replicas, epoch):
                self.topics[topic_id].partitions[index] = PartitionState(replicas, epoch)
            case PartitionChanged():
                self._change(record)
            case ConfigSet():
                self._configure(record)
            case TopicRemoved(topic_id):
                removed = self.topics.pop(topic_id)
                self.configs.pop((TOPIC_RESOURCE, removed.name), None)
            case ProducerIdsReserved(end):
                self.producer_ids_end = end
            case OtherRecord(api_key):
                self.others[api_key] += 1

    def _change(self, record: PartitionChanged) -> None:
        partition = self.topics[record.topic_id].partitions[record.index]
        if record.replicas is not None:
            partition.replicas = record.replicas
        if record.has_new_leader:
            partition.leader_epoch += 1

    def _configure(self, record: ConfigSet) -> None:
        settings = self.configs.setdefault((record.resource_type, record.resource_name), {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value


def read_cluster_metadata(files: FileSystem, directory: Path) -> ClusterMetadata:
    """Return the state that the metadata log in `directory` has at its end.

    A last batch that a crash cut off is ignored. Raises ImportRefused for other damage and for missing parts,
    and OSError.
    """
    metadata = ClusterMetadata()
    names = files.listdir(directory)
    snapshots = sorted(name for name in names if _SNAPSHOT.match(name))
    start = 0
    if snapshots:
        start = int(snapshots[-1].partition("-")[0])
        last = _apply_file(files, directory / snapshots[-1], metadata, 0, 0, may_be_cut=False)
        if last is None or not last.is_control:
            raise ImportRefused(f"{directory / snapshots[-1]} is cut off: its last batch is missing")
    segments = sorted(directory / name for name in names if name.endswith(LOG_SUFFIX))
    if not segments:
        raise ImportRefused(f"{directory} has no segment: a part of the metadata log is missing")
    end = base_of(segments[0])
    if end > start:
        raise ImportRefused(f"{segments[0]} is the first file, and no snapshot is before it")
    for path in segments:
        if base_of(path) != end:
            raise ImportRefused(f"{path} begins at offset {base_of(path)}, where {end} is expected")
        last = _apply_file(files, path, metadata, start, end, may_be_cut=path is segments[-1])
        end = end if last is None else last.next_offset
    if end < start:
        raise ImportRefused(
            f"{segments[-1]} ends at offset {end}, before the snapshot at {start}; "
            "start Kafka once and stop it"
        )
    return metadata


def _apply_file(
    files: FileSystem, path: Path, metadata: ClusterMetadata, start: int, expected: int, *, may_be_cut: bool
) -> BatchHeader | None:
    """Apply the records of a file from offset `start` on; return the header of its last batch.

    `expected` is the offset at which the file begins. Raises ImportRefused.
    """
    file = files.open(path)
    position = 0
    last = None
    try:
        for at, header, batch in _batches(file, may_be_cut=may_be_cut):
            position = at
            if header.base_offset != expected:
                raise CorruptBatch(f"offset {header.base_offset}, where {expected} is expected")
            last, expected = header, header.next_offset
            if not header.is_control and header.base_offset >= start:
                for _, record in iterate_records(batch):
                    metadata.apply(decode_metadata(record.value or b""))
    except (CorruptBatch, MalformedRecord) as problem:
        raise ImportRefused(f"{path}, at or after byte {position}: {problem}") from None
    except KeyError:
        raise ImportRefused(f"{path}, byte {position}: a record of a topic that is not there") from None
    finally:
        file.close()
    return last


def _batches(file: File, *, may_be_cut: bool) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield the batches of a file, checked, each with its position. Raises CorruptBatch."""
    size, position = file.size(), 0
    try:
        for at, header, batch in walk_batches(file, 0, size):
            position = at
            check_batch(header, batch, 0, 0)
            yield at, header, batch
            position = at + header.size
    except CorruptBatch:
        if not may_be_cut or find_whole_batch(file.pread, position + 1, size, 0) is not None:
            raise
