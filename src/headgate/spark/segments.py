"""Read a topic out of a broker's data directory, without the broker.

Only Kafka's segment files are looked at: `<topic>-<partition>/<base offset, 20 digits>.log`. The broker may
be running: what a read covers is fixed when it is planned, by what each file holds then, and a batch that is
not complete at the end of the last segment ends the partition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from headgate.log.header import HEADER_BYTES
from headgate.log.walking import written_end
from headgate.spark.options import EARLIEST, LATEST, Options
from headgate.spark.plan import Task, share_out
from headgate.spark.scan import PADDING, Chunk, Corruption, Scan, scan_chunk

CHUNK_BYTES = 4 << 20
"""Read at a time: large enough for numpy's cost per call to vanish, small enough for its columns to stay in
cache.
"""

NO_END = (1 << 63) - 1
"""An end offset behind every record."""

_SEGMENT_NAME = re.compile(r"\d{20}\.log")


class MissingData(LookupError):
    """What was to be read is not there: no such directory, topic, or offsets."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment file, and the offsets wanted of it. `size` is its size when the read was planned; from
    `written` on there were zeros then, room for batches to come.
    """

    path: str
    topic: str
    partition: int
    base_offset: int
    size: int
    written: int
    is_last: bool
    start_offset: int
    end_offset: int
    must_reach_end: bool

    @property
    def weight(self) -> int:
        return self.size

    def scans(self) -> Iterator[Scan]:
        """Read the file chunk by chunk; the last scan says what is wrong with the end of it, if anything."""
        try:
            with FileIO(self.path) as file:
                yield from self._scans(file)
        except FileNotFoundError as problem:
            raise MissingData(f"{self.path} was deleted while it was being read (retention?)") from problem

    def _scans(self, file: FileIO) -> Iterator[Scan]:
        position, wanted, next_offset = 0, CHUNK_BYTES, self.base_offset
        while position < self.size and next_offset < self.end_offset:
            asked = min(wanted, self.size - position)
            data, size = _read(file, position, asked)
            if position + size > self.written:  # as it stood then, whatever was written since
                written = max(self.written - position, 0)
                data[written:size] = bytes(size - written)
            chunk = Chunk(
                self.topic,
                self.partition,
                data,
                size,
                self.path,
                position,
                self.start_offset,
                self.end_offset,
            )
            scan = scan_chunk(chunk)
            next_offset = max(next_offset, scan.next_offset)
            at_end = size < asked or position + scan.end + max(scan.missing, HEADER_BYTES) > self.size
            if scan.end < size and (scan.broken or at_end):
                yield scan.with_corruptions(self._unreadable_end(scan, next_offset))
                break
            yield scan
            if size < asked:
                break  # the file has become shorter: compaction put another in its place
            position += scan.end
            wanted = max(CHUNK_BYTES, scan.missing, HEADER_BYTES)
        if self.must_reach_end and next_offset < self.end_offset:
            raise MissingData(
                f"{self.topic}-{self.partition} ends at offset {next_offset}, before endingOffsets' "
                f"{self.end_offset}; set failOnDataLoss to false to read what there is"
            )

    def _unreadable_end(self, scan: Scan, next_offset: int) -> list[Corruption]:
        """What to say of the bytes from the scan's end to the file's."""
        position = scan.chunk.position + scan.end
        rest = self.size - position
        if self.is_last and not any(scan.chunk.data[scan.end :]):
            return []  # space that was set aside for batches to come
        incomplete = "the file ends in the middle of a batch"
        return [
            Corruption(
                self.path,
                position,
                rest,
                next_offset,
                scan.broken or incomplete,
                is_tail=self.is_last and not scan.broken,
            )
        ]


def _written(path: Path, size: int) -> int:
    with path.open("rb") as file:
        return written_end(lambda count, at: os.pread(file.fileno(), count, at), 0, size)


def plan(options: Options) -> list[Task]:
    """Find the segments of a topic and share them out."""
    assert options.path is not None
    segments = [
        segment
        for partition, directory in sorted(_partitions(options.path, options.topic).items())
        for segment in _segments(options, partition, directory)
    ]
    by_size = -(-sum(segment.size for segment in segments) // options.max_bytes_per_task)
    return share_out(segments, max(options.min_partitions, by_size))


def _read(file: FileIO, position: int, size: int) -> tuple[bytearray, int]:
    """Up to `size` bytes from `position` on, padded, and how many there were."""
    data = bytearray(size + PADDING)
    file.seek(position)
    filled = 0
    with memoryview(data) as view:
        while filled < size and (count := file.readinto(view[filled:size])):
            filled += count
    return data, filled


def _partitions(data_directory: Path, topic: str) -> dict[int, Path]:
    if not data_directory.is_dir():
        raise MissingData(f"there is no data directory {data_directory}")
    name = re.compile(re.escape(topic) + r"-(\d+)")
    found = {
        int(match[1]): entry
        for entry in data_directory.iterdir()
        if (match := name.fullmatch(entry.name)) and entry.is_dir()
    }
    if not found:
        others = {entry.name.rpartition("-")[0] for entry in data_directory.glob("*-*") if entry.is_dir()}
        there = f"topics there: {', '.join(sorted(others))}" if others else "there are no topics in it"
        raise MissingData(
            f"nothing of topic {topic!r} in {data_directory} ({there}); a topic has no files until "
            "it is written to"
        )
    return found


def _segments(options: Options, partition: int, directory: Path) -> list[Segment]:
    files = sorted(entry for entry in directory.iterdir() if _SEGMENT_NAME.fullmatch(entry.name))
    if not files:
        return []
    bases = [int(file.stem) for file in files]
    asked_start = (options.starting_offsets or {}).get(partition, EARLIEST)
    asked_end = (options.ending_offsets or {}).get(partition, LATEST)
    if EARLIEST < asked_start < bases[0] and options.fail_on_data_loss:
        raise MissingData(
            f"{options.topic}-{partition} begins at offset {bases[0]}, after startingOffsets' {asked_start}; "
            "set failOnDataLoss to false to read what there is"
        )
    end = NO_END if asked_end == LATEST else asked_end
    segments = []
    for file, base, beyond in zip(files, bases, [*bases[1:], NO_END], strict=True):
        if beyond <= asked_start or base >= end:
            continue
        is_last = beyond == NO_END
        size = file.stat().st_size
        segments.append(
            Segment(
                path=str(file),
                topic=options.topic,
                partition=partition,
                base_offset=base,
                size=size,
                written=_written(file, size) if is_last else size,
                is_last=is_last,
                start_offset=max(asked_start, base),
                end_offset=end if is_last else min(end, beyond),
                must_reach_end=is_last and asked_end != LATEST and options.fail_on_data_loss,
            )
        )
    return segments
