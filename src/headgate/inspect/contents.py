"""The batches of a log from an offset on, and the topics of a data directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headgate.domain.ids import topic_id_text
from headgate.inspect.directory import DataDirectory, PartitionPlace
from headgate.inspect.partition import Extent, PartitionFiles, SegmentFiles, extent_of, read_partition
from headgate.inspect.reading import Break, FoundBatch, LogFile, find_whole_batch, is_room, walk
from headgate.topics.names import is_internal

Json = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Stop:
    """The position at which reading ended before the end of the log's files, and the reason."""

    file: str
    position: int
    size_bytes: int
    """Bytes of the file from this position on."""
    reason: str
    is_tail: bool
    """Whether this is the end of the last segment, where a write can be in progress or was interrupted."""


def read_batches(
    files: PartitionFiles, from_offset: int = 0
) -> Iterator[tuple[SegmentFiles, FoundBatch] | Stop]:
    """Yield every batch that ends at `from_offset` or later, and a Stop if the next bytes are no batch.

    Raises OSError.
    """
    segments = files.segments
    for at, segment in enumerate(segments):
        is_last = at + 1 == len(segments)
        if not is_last and segments[at + 1].base_offset <= from_offset:
            continue
        expected = segment.base_offset
        with LogFile(segment.path()) as file:
            for found in walk(file):
                if isinstance(found, Break):
                    if is_last and is_room(file, found):
                        return
                    left = file.size - found.position
                    is_tail = is_last and find_whole_batch(file, found.position + 1, expected) is None
                    yield Stop(segment.path().name, found.position, left, found.reason, is_tail)
                    return
                expected = max(expected, found.header.next_offset)
                if found.header.last_offset >= from_offset:
                    yield segment, found


def partition_as_json(files: PartitionFiles, extent: Extent) -> Json:
    """Return a partition as JSON: start and end of its log, and its segments."""
    segments = files.segments
    sizes = [segment.path().stat().st_size for segment in segments[:-1]]
    sizes.append(extent.size_bytes - sum(sizes))
    return {
        "log_start_offset": extent.log_start_offset,
        "log_end_offset": extent.log_end_offset,
        "recovery_point": files.checkpoint.recovery_point,
        "bytes": extent.size_bytes,
        "segments": [
            {
                "file": segment.path().name,
                "base_offset": segment.base_offset,
                "next_offset": segments[at + 1].base_offset
                if at + 1 < len(segments)
                else extent.log_end_offset,
                "bytes": sizes[at],
            }
            for at, segment in enumerate(segments)
        ],
    }


def directory_as_json(directory: DataDirectory) -> Json:
    """Return the description of a data directory as JSON."""
    catalogue = directory.catalogue
    return {
        "data_dir": str(directory.path),
        "cluster_id": directory.cluster_id,
        "leader_epoch": catalogue.leader_epoch if catalogue is not None else None,
        "is_running": directory.is_running,
        "was_closed_well": directory.unrecovered is not None,
        "catalogue_problem": directory.catalogue_problem,
    }


def topics_as_json(directory: DataDirectory) -> list[Json]:
    """Return every topic with its written partitions. Raises OSError."""
    written: dict[str, list[PartitionPlace]] = {}
    for place in directory.partitions:
        written.setdefault(place.topic, []).append(place)
    if directory.catalogue is None:
        return [_topic(name, None, places) for name, places in sorted(written.items())]
    entries = directory.catalogue.topics
    return [_topic(name, entries[name], written.get(name, [])) for name in sorted(entries)]


def _topic(name: str, entry: Any, places: list[PartitionPlace]) -> Json:
    partitions = []
    for place in places:
        files = read_partition(place.directory)
        extent = extent_of(files)
        partitions.append(
            {
                "partition": place.index,
                "log_start_offset": extent.log_start_offset,
                "log_end_offset": extent.log_end_offset,
                "bytes": extent.size_bytes,
                "segments": len(files.segments),
                "tail_problem": extent.stopped_at.reason if extent.stopped_at is not None else None,
            }
        )
    return {
        "name": name,
        "topic_id": topic_id_text(entry.topic_id) if entry is not None else None,
        "is_internal": is_internal(name),
        "partition_count": entry.partition_count if entry is not None else None,
        "created_at": entry.created_at if entry is not None else None,
        "configs": dict(entry.overrides) if entry is not None else {},
        "bytes": sum(partition["bytes"] for partition in partitions),
        "written_partitions": partitions,
    }
