"""Read topics from a broker's data directory, without the broker.

Only Kafka's segment files are read: `<topic>-<partition>/<base offset, 20 digits>.log`, and their indexes to
divide large ones. The broker may be running. The plan of a read fixes its extent, by the size of each file at
that time; an incomplete batch at the end of the last segment ends the partition. A read of committed records
ends before the first transaction that is open then, and leaves out aborted ones (`file_transactions`). A file
that compaction replaced since is not read: it lacks records that were moved to other files.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import FileIO
from itertools import pairwise
from pathlib import Path

from headgate.domain.ids import TopicName, TopicPartition
from headgate.log.batch_scan import NO_END, PADDING, Chunk, Corruption, Scan, scan_chunk
from headgate.log.index import MOST_RELATIVE_OFFSET
from headgate.log.walking import find_whole_batch, written_end
from headgate.spark.directory import (
    CompactedWhileRead,
    SegmentFile,
    segment_files,
    topics_in,
    unwritten_topics,
)
from headgate.spark.dividing import batch_starts
from headgate.spark.file_transactions import Aborted, transactions_in, without_aborted
from headgate.spark.options import EARLIEST, LATEST, Options
from headgate.spark.plan import MissingData, Task, share_out

CHUNK_BYTES = 4 << 20
"""Bytes per read: large enough to make numpy's cost per call small, small enough for the cache."""

LEAST_PART_BYTES = 8 << 20
"""Minimum size of a part of a divided segment."""


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """A part of a segment file, bytes `begin` to `end`, and the wanted offsets.

    Its batches lie between the offsets `floor` and `ceiling`. From byte `written` on the file had only zeros
    when the read was planned, as preallocated space; `ends_log` is true if this part ends the log.
    """

    file: SegmentFile
    where: TopicPartition
    begin: int
    end: int
    written: int
    floor: int
    ceiling: int
    ends_log: bool
    start_offset: int
    end_offset: int
    must_reach_end: bool
    fail_on_data_loss: bool
    aborted: tuple[Aborted, ...] = ()
    """The aborted transactions whose records are left out."""

    @property
    def weight(self) -> int:
        """Return the number of bytes to read."""
        return max(min(self.end, self.written) - self.begin, 0)

    def scans(self) -> Iterator[Scan]:
        """Read the part chunk by chunk. Raises MissingData, CompactedWhileRead."""
        try:
            file = FileIO(self.file.path)
        except FileNotFoundError as problem:
            self._explain_missing(problem)
            return
        with file:
            if not self.file.is_same(os.fstat(file.fileno())):
                raise CompactedWhileRead(str(self.file.path))
            committed = without_aborted(self.aborted)
            for scan in self._scans(file):
                yield replace(scan, batches=committed(scan.batches))

    def _explain_missing(self, problem: FileNotFoundError) -> None:
        """Raise the reason: retention removes the first segments of a log, compaction replaces any."""
        path = self.file.path
        if not path.parent.parent.is_dir():
            why = "no data directory is here; a worker on another machine cannot read it"
            raise FileNotFoundError(errno.ENOENT, why, str(path.parent.parent)) from problem
        if path.parent.is_dir():
            left = segment_files(path.parent)
            if left and left[0].base_offset <= self.file.base_offset:
                raise CompactedWhileRead(str(path)) from problem
        if self.fail_on_data_loss:
            raise MissingData(
                f"{path} was deleted while it was being read (retention?); set failOnDataLoss to false to "
                "read what there is"
            ) from problem
        print(f"headgate: {path} was deleted while it was being read, and is skipped", file=sys.stderr)

    def _scans(self, file: FileIO) -> Iterator[Scan]:
        position, wanted, floor = self.begin, CHUNK_BYTES, self.floor
        while position < self.end and floor < self.end_offset:
            if self.ends_log and position >= self.written:
                break  # preallocated space
            chunk = self._chunk(file, position, wanted, floor)
            scan = scan_chunk(chunk)
            floor = max(floor, scan.next_offset)
            at = position + scan.end
            if scan.broken or at + scan.missing > self.end:
                if self.ends_log and at >= self.written:
                    yield scan
                    break
                behind = find_whole_batch(_reader_of(file, self.end), at + 1, self.end, floor)
                yield scan.with_corruptions([self._unreadable(scan, at, behind)])
                if behind is None:
                    break
                position, wanted = behind, CHUNK_BYTES
                continue
            yield scan
            position, wanted = at, max(CHUNK_BYTES, scan.missing) if scan.end else wanted * 2 + scan.missing
        if self.must_reach_end and floor < self.end_offset:
            raise MissingData(
                f"{self.where} ends at offset {floor}, before endingOffsets' {self.end_offset}; set "
                "failOnDataLoss to false to read what there is"
            )

    def _chunk(self, file: FileIO, position: int, wanted: int, floor: int) -> Chunk:
        asked = min(wanted, self.end - position)
        data, size = _read(file, position, asked)
        if size < asked and (not self.ends_log or position + size < self.written):
            raise CompactedWhileRead(str(self.file.path))
        if self.ends_log and position + size > self.written:  # the size at the time of the plan
            written = max(self.written - position, 0)
            data[written:asked] = bytes(asked - written)
        return Chunk(
            data,
            asked,
            str(self.file.path),
            position,
            self.start_offset,
            self.end_offset,
            floor,
            self.ceiling,
            more_follows=position + asked < self.end,
        )

    def _unreadable(self, scan: Scan, position: int, behind: int | None) -> Corruption:
        """Return the corruption from `position` to the next batch `behind`, or to the end of the part."""
        is_tail = self.ends_log and behind is None and not scan.broken
        size = (self.end if behind is None else behind) - position
        reason = scan.broken or "the file ends in the middle of a batch"
        if behind is not None and not scan.broken:
            reason = "a batch claims more bytes than the file has, and others follow it"
        return Corruption(str(self.file.path), position, size, scan.next_offset, reason, is_tail)


def plan(options: Options) -> list[Task]:
    """Find the segments of the topics, divide large ones among the tasks. Raises MissingData."""
    assert options.path is not None
    partitions = _partitions(options)
    options.check_partitions(partitions)
    segments = [
        segment
        for where, directory in partitions.items()
        for segment in _wanted_segments(options, where, segment_files(directory))
    ]
    total = sum(segment.weight for segment in segments)
    longest = min(
        max(-(-total // options.min_partitions), LEAST_PART_BYTES), max(options.max_bytes_per_task, 1)
    )
    parts = [part for segment in segments for part in divide(segment, _longest_part(segment, longest))]
    tasks = max(options.min_partitions, -(-total // options.max_bytes_per_task))
    by_log: dict[TopicPartition, list[SegmentPart]] = {}
    for part in parts:
        by_log.setdefault(part.where, []).append(part)
    return [
        SegmentTask(share, {part.where: tuple(by_log[part.where]) for part in share})
        for share in share_out(parts, tasks)
    ] or [Task()]


@dataclass(frozen=True)
class SegmentTask(Task):
    """Parts of segment files that one task reads, in order."""

    parts: tuple[SegmentPart, ...]
    log_parts: Mapping[TopicPartition, tuple[SegmentPart, ...]]
    """All parts of its partitions, including those of other tasks."""

    def scans(self) -> Iterator[tuple[TopicPartition, Scan]]:
        """Read all parts, chunk by chunk, each chunk with its partition."""
        for part in self.parts:
            for scan in part.scans():
                yield part.where, scan

    def scans_at(self, where: TopicPartition, offset: int) -> Iterator[Scan]:
        """Read the record at an offset that another task may read, if the plan includes it."""
        for part in self.log_parts[where]:
            if part.floor <= offset < part.ceiling:
                yield from replace(
                    part, start_offset=offset, end_offset=offset + 1, must_reach_end=False
                ).scans()


def _longest_part(segment: SegmentPart, longest: int) -> int:
    """Return how long the parts of a segment may be: short if only some of its offsets are wanted.

    Parts without wanted offsets are not read.
    """
    is_whole = segment.start_offset <= segment.floor and segment.end_offset >= segment.ceiling
    return longest if is_whole else min(longest, LEAST_PART_BYTES)


def divide(segment: SegmentPart, longest: int) -> list[SegmentPart]:
    """Divide the segment into parts of about `longest` bytes that begin with a batch."""
    if segment.weight <= longest:
        return [segment]
    starts = batch_starts(segment.file, segment.written, longest)
    bounds = [(segment.begin, segment.floor), *starts, (segment.end, segment.ceiling)]
    parts = []
    for (begin, floor), (end, ceiling) in pairwise(bounds):
        is_end = end == segment.end
        if floor >= segment.end_offset or (ceiling <= segment.start_offset and not is_end):
            continue
        parts.append(
            replace(
                segment,
                begin=begin,
                end=end,
                written=segment.written if is_end else end,
                floor=floor,
                ceiling=ceiling,
                ends_log=segment.ends_log and is_end,
                start_offset=max(segment.start_offset, floor),
                end_offset=segment.end_offset if is_end else min(segment.end_offset, ceiling),
                must_reach_end=segment.must_reach_end and is_end,
            )
        )
    return parts


def _reader_of(file: FileIO, end: int) -> Callable[[int, int], bytes]:
    return lambda count, position: os.pread(file.fileno(), min(count, end - position), position)


def _written(path: Path, size: int) -> int:
    with path.open("rb") as file:
        return written_end(lambda count, at: os.pread(file.fileno(), count, at), 0, size)


def _read(file: FileIO, position: int, size: int) -> tuple[bytearray, int]:
    """Return up to `size` bytes from `position`, padded, and their number."""
    data = bytearray(size + PADDING)
    file.seek(position)
    filled = 0
    with memoryview(data) as view:
        while filled < size and (count := file.readinto(view[filled:size])):
            filled += count
    return data, filled


def _partitions(options: Options) -> dict[TopicPartition, Path]:
    assert options.path is not None
    available = topics_in(options.path)
    chosen = options.topics.among(available)
    empty = unwritten_topics(options.path) if set(options.topics.required) - set(chosen) else {}
    for topic in options.topics.required:
        if topic not in chosen and topic not in empty:
            names = sorted({*available, *empty})
            there = f"topics there: {', '.join(names)}" if names else "there are no topics in it"
            raise MissingData(f"nothing of topic {topic!r} in {options.path} ({there})")
    found: dict[TopicPartition, Path] = {}
    for topic in chosen:
        for partition in options.topics.partitions_of(topic, available[topic]):
            found[TopicPartition(TopicName(topic), partition)] = available[topic][partition]
    for topic, partitions in options.topics.partitions.items():
        for partition in partitions:
            if TopicPartition(topic, partition) not in found and partition >= empty.get(topic, 0):
                raise MissingData(f"there is no partition {topic}-{partition} in {options.path}")
    return found


def _wanted_segments(options: Options, where: TopicPartition, files: list[SegmentFile]) -> list[SegmentPart]:
    if not options.is_committed_only:
        return _segments(options, where, files)
    whole = _segments(replace(options, starting_offsets={}, ending_offsets={}), where, files)
    found = transactions_in(whole, fail_on_corrupt=options.fail_on_corrupt)
    stable, asked_end = found.stable_end, options.ending_offsets.get(where, LATEST)
    if asked_end > stable and options.fail_on_data_loss:
        raise MissingData(
            f"{where} holds committed offsets to {stable}, asked for were offsets to {asked_end}; "
            "set failOnDataLoss to false to read what there is"
        )
    if stable != NO_END:
        end = stable if asked_end == LATEST else min(stable, asked_end)
        options = replace(options, ending_offsets={**options.ending_offsets, where: end})
    return [
        replace(
            part,
            aborted=tuple(one for one in found.aborted if one.last_offset >= part.start_offset),
            must_reach_end=part.must_reach_end and asked_end != LATEST,
        )
        for part in _segments(options, where, files, whole[-1].written if whole else None)
    ]


def _segments(
    options: Options, where: TopicPartition, files: list[SegmentFile], last_written: int | None = None
) -> list[SegmentPart]:
    """Return the wanted segments. `last_written` is where the last one ends, if that was looked at before:
    batches that were written into reserved space since must not be read.
    """
    if not files:
        return []
    asked_start = options.starting_offsets.get(where, EARLIEST)
    asked_end = options.ending_offsets.get(where, LATEST)
    first = files[0].base_offset
    if EARLIEST < asked_start < first and options.fail_on_data_loss:
        raise MissingData(
            f"{where} begins at offset {first}, after startingOffsets' {asked_start}; "
            "set failOnDataLoss to false to read what there is"
        )
    end = NO_END if asked_end == LATEST else asked_end
    segments = []
    for file, following in zip(files, [*files[1:], None], strict=True):
        base = file.base_offset
        ceiling = following.base_offset if following else base + MOST_RELATIVE_OFFSET + 1
        if base >= end or (following and ceiling <= asked_start):
            continue
        written = file.size
        if following is None:
            written = _written(file.path, file.size) if last_written is None else last_written
        segments.append(
            SegmentPart(
                file=file,
                where=where,
                begin=0,
                end=file.size,
                written=written,
                floor=base,
                ceiling=ceiling,
                ends_log=following is None,
                start_offset=max(asked_start, base),
                end_offset=end if following is None else min(end, ceiling),
                must_reach_end=following is None and asked_end != LATEST and options.fail_on_data_loss,
                fail_on_data_loss=options.fail_on_data_loss,
            )
        )
    return segments
