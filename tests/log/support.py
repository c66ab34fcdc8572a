"""Helpers of the log tests: a directory for one log, batches, and crashes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headgate.log.batch import BatchHeader, Record, encode_batch, read_header
from headgate.log.deletion import put_aside, remove_deleted
from headgate.log.filesystem import FileSystem, MemoryFileSystem
from headgate.log.log import Log, LogSettings, Recovery
from headgate.log.time_search import Found, Search
from headgate.log.walking import checked_batches

DATA = Path("/data")
DIRECTORY = DATA / "flights-0"
SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=200)
"""About ten one-record batches to a segment, every third or so indexed."""


def memory() -> MemoryFileSystem:
    """A file system in memory with a durable data directory."""
    files = MemoryFileSystem()
    files.make_directory(DATA)
    files.sync_directory(Path("/"))
    return files


def batch_at(offset: int, count: int = 1, *, timestamp: int | None = None, size: int = 20) -> bytes:
    """A batch of `count` records from `offset` on; timestamps rise by one unless given."""
    first = 1000 + offset if timestamp is None else timestamp
    records = [
        Record(b"k%04d" % (offset + at), bytes([(offset + at) % 256]) * size, first + at)
        for at in range(count)
    ]
    return bytes(encode_batch(records, base_offset=offset))


def append(log: Log, count: int = 1, *, timestamp: int | None = None, size: int = 20) -> bytes:
    """Append one batch to the log and return its bytes."""
    batch = batch_at(log.log_end_offset, count, timestamp=timestamp, size=size)
    log.append(batch, [read_header(batch)])
    return batch


def sync(log: Log) -> None:
    """Make all of the log durable, or raise the OSError of the sync, as a server does."""
    request = log.begin_sync()
    with suppress(OSError):
        request.run()
    log.complete_sync(request)


def delete(log: Log) -> None:
    """Delete the log of a partition, as its topic does."""
    log.give_up()
    put_aside(log.files, [log.directory])
    remove_deleted(log.files, log.directory.parent)


def first_at(log: Log, timestamp_ms: int) -> Found:
    """Timestamp and offset of the first record at or after `timestamp_ms`."""
    return _found(log.search_timestamp(timestamp_ms))


def newest(log: Log, up_to: int | None = None) -> Found:
    """The largest timestamp below an offset, by default in all of the log, and the first offset with it."""
    return _found(log.search_largest_timestamp(log.log_end_offset if up_to is None else up_to))


def _found(search: Search) -> Found:
    while True:
        try:
            work = next(search)
        except StopIteration as end:
            found: Found = end.value
            return found
        if work is not None:
            work()


def headers_of(buffer: bytes | bytearray) -> list[BatchHeader]:
    """The headers of the batches in `buffer`, after a check of their order and checksums."""

    def batches() -> Iterator[tuple[BatchHeader, bytes]]:
        at = 0
        while at < len(buffer):
            header = read_header(buffer, at)
            yield header, bytes(buffer[at : at + header.size])
            at += header.size

    return [header for header, _ in checked_batches(batches())]


def filled(place: Place, count: int = 40) -> tuple[Log, list[bytes]]:
    """A log of one-record batches over several segments."""
    log = place.open()
    return log, [append(log) for _ in range(count)]


def names(place: Place, suffix: str) -> list[str]:
    """The sorted names of the log's files of one kind."""
    return sorted(name for name in place.files.listdir(place.directory) if name.endswith(suffix))


def contents(log: Log) -> list[bytes]:
    """Every batch of the log that readers may see."""
    return [batch for _, batch in log.batches(log.log_start_offset)]


@dataclass
class Place:
    """The directory of one log, and the reports of its recoveries."""

    files: FileSystem = field(default_factory=memory)
    directory: Path = DIRECTORY
    settings: LogSettings = SMALL
    reported: list[Recovery] = field(default_factory=list)

    def open(self, *, clean: bool = False) -> Log:
        """The log as a new process finds it."""
        return Log.open(
            self.files, self.directory, self.settings, clean=clean, on_truncated=self.reported.append
        )
