"""A snapshot of the state that a log leads to, in a file beside it: `shard.checkpoint`, for faster starts.

    title 16 bytes | sections, one behind the other | footer JSON | footer size u32, CRC u32, end mark 8 bytes

The footer lists the sections, each with its kind, position, size and CRC, and tells which log the file
belongs to and which part of it. The contents of sections are the callers'. Rules:

1. The log has precedence. A file that is damaged, of another format, or of another log is ignored: it may be
   deleted at any time, and the start is then slower.
2. It covers the log up to `position` at least and `end_offset` at most, both below what was durable when it
   was written. A load applies the log from `position` on over it: changes made while the file was written may
   be in it or not.
3. It is written under another name and renamed, so that a crash leaves the old file, the new one, or none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from crc32c import crc32c

from headgate.log.filesystem import write_fully

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.log.filesystem import File, FileSystem
    from headgate.log.log import Log

STATE_NAME: Final = "shard.checkpoint"
_ASIDE_NAME: Final = STATE_NAME + ".tmp"
_TITLE: Final = b"headgate shard 2"
"""Files of format 1 look the same. Those of transactional ids could lack changes below their position."""
_FORMER_TITLE: Final = b"headgate shard 1"
_ANY_TITLE: Final = b"headgate shard "
_TAIL: Final = Struct("<II8s")
_END_MARK: Final = b"the end."
_SYNC_EVERY_BYTES: Final = 8 << 20
"""Sync this often, so that the last sync is short and delays no other."""


class Readable(Protocol):
    """The operations needed to read a file."""

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def size(self) -> int:
        """Return the size in bytes."""
        ...

    def close(self) -> None:
        """Close the descriptor."""
        ...


class StateFileUnusable(Exception):
    """The file cannot be used; the message says why."""


class StateFileOutdated(StateFileUnusable):
    """An older version wrote the file, which may be undamaged."""


@dataclass(slots=True, frozen=True)
class Bond:
    """The log that a file belongs to, and the part of it that the file covers."""

    topic_id: str
    """In hexadecimal digits."""
    partition: int
    log_start_offset: int
    position: int
    """All records below are in the file; a load applies the log from here on."""
    end_offset: int
    """The log end offset when the last section was made; the batch that ends here identifies the log."""
    last_batch: tuple[int, int, int]
    """That batch's base offset, size and CRC."""


@dataclass(slots=True, frozen=True)
class Section:
    """One part of a file: `position` and `size` in bytes."""

    kind: str
    position: int
    size: int
    crc: int


def bind(log: Log, topic_id: bytes, partition: int, position: int, end_offset: int) -> Bond:
    """Return the bond of a snapshot of a log that is durable to `end_offset`, the end of a batch.

    Raises StateFileUnusable if no batch ends there, or if records from `position` on were deleted meanwhile,
    which may be tombstones that the snapshot does not include; OSError, CorruptBatch.
    """
    if log.log_start_offset > position:
        raise StateFileUnusable(f"the log starts at {log.log_start_offset}, past the position {position}")
    last = _batch_that_ends(log, end_offset)
    if last is None:
        raise StateFileUnusable(f"no batch ends at {end_offset}")
    return Bond(topic_id.hex(), partition, log.log_start_offset, position, end_offset, last)


def why_not(bond: Bond, log: Log, topic_id: bytes, partition: int) -> str | None:
    """Return why a file does not fit the log as it is now; None if it fits. Raises OSError, CorruptBatch."""
    if bond.topic_id != topic_id.hex() or bond.partition != partition:
        return f"it belongs to partition {bond.partition} of topic {bond.topic_id}"
    if bond.log_start_offset != log.log_start_offset:
        return f"the log starts at {log.log_start_offset}, no longer at {bond.log_start_offset}"
    if log.compacted_to > bond.position:
        # The log may have lost tombstones that the file does not include.
        return f"the log is compacted to {log.compacted_to}, past the file's position {bond.position}"
    if log.log_end_offset < bond.end_offset:
        return f"the log ends at {log.log_end_offset}, the file covers it to {bond.end_offset}"
    if _batch_that_ends(log, bond.end_offset) != bond.last_batch:
        return f"another batch ends at {bond.end_offset} than when the file was written"
    return None


def _batch_that_ends(log: Log, offset: int) -> tuple[int, int, int] | None:
    if offset <= log.log_start_offset:
        return None
    for header, _ in log.batches(offset - 1, up_to=offset):
        if header.next_offset == offset:
            return header.base_offset, header.size, header.crc
    return None


class StateFileWriter:
    """Writes a file under another name, then renames it. Any thread may run all of it; raises OSError."""

    __slots__ = ("_directory", "_file", "_files", "_position", "_sections", "_unsynced")

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._file: File | None = None
        self._sections: list[Section] = []
        self._position = 0
        self._unsynced = 0

    def begin(self) -> None:
        """Create the file, empty, under its temporary name."""
        self._file = self._files.open(self._directory / _ASIDE_NAME, create=True)
        self._file.truncate(0)
        self._append(_TITLE)

    def add(self, kind: str, data: bytes) -> None:
        """Append a section."""
        self._sections.append(Section(kind, self._position, len(data), crc32c(data)))
        self._append(data)

    def finish(self, bond: Bond, contents: dict[str, int]) -> None:
        """Write the footer, make the file durable, and replace the previous file.

        `contents` counts what is in the file, for readers that do not load it.
        """
        file = self._file
        assert file is not None
        footer = {
            "bond": asdict(bond),
            "byte_order": sys.byteorder,
            "contents": contents,
            "sections": [[one.kind, one.position, one.size, one.crc] for one in self._sections],
        }
        data = json.dumps(footer).encode()
        self._append(data + _TAIL.pack(len(data), crc32c(data), _END_MARK))
        file.datasync()
        self.close()
        self._files.rename(self._directory / _ASIDE_NAME, self._directory / STATE_NAME)
        self._files.sync_directory(self._directory)

    def discard(self) -> None:
        """Remove the unfinished file if the disk allows it. Never raises OSError."""
        self.close()
        with suppress(OSError):
            self._files.remove(self._directory / _ASIDE_NAME)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        write_fully(self._file, data, self._position)
        self._position += len(data)
        self._unsynced += len(data)
        if self._unsynced >= _SYNC_EVERY_BYTES:
            self._file.datasync()
            self._unsynced = 0


@dataclass(slots=True)
class StateFile:
    """An open file with a valid footer; sections are checked when they are read."""

    bond: Bond
    contents: dict[str, int]
    sections: Sequence[Section]
    size: int
    _file: Readable

    def read(self, section: Section) -> bytes:
        """Return the contents of a section. Raises StateFileUnusable, OSError."""
        data = self._file.pread(section.size, section.position)
        if len(data) != section.size or crc32c(data) != section.crc:
            raise StateFileUnusable(f"the checksum of its section at {section.position} is wrong")
        return data

    def of_kind(self, kind: str) -> Iterator[bytes]:
        """Yield the contents of the sections of a kind, in order. Raises StateFileUnusable, OSError."""
        for section in self.sections:
            if section.kind == kind:
                yield self.read(section)

    def close(self) -> None:
        """Close the descriptor."""
        self._file.close()


def open_state_file(files: FileSystem, directory: Path) -> StateFile | None:
    """Open the partition's file; return None if there is none. Raises StateFileUnusable, OSError."""
    try:
        file = files.open(directory / STATE_NAME)
    except FileNotFoundError:
        return None
    try:
        return read_state_file(file)
    except BaseException:
        file.close()
        raise


def rebind(files: FileSystem, directory: Path, bond: Bond) -> None:
    """Replace the partition's file by one with the same sections and this bond, if there is one that can be
    used. Raises OSError.
    """
    with suppress(StateFileUnusable):
        found = open_state_file(files, directory)
        if found is None:
            return
        writer = StateFileWriter(files, directory)
        try:
            writer.begin()
            for section in found.sections:
                writer.add(section.kind, found.read(section))
            writer.finish(bond, found.contents)
        except BaseException:
            writer.discard()
            raise
        finally:
            found.close()


def read_state_file(file: Readable) -> StateFile:
    """Read and check the footer of a file. Raises StateFileUnusable, OSError."""
    size = file.size()
    title = file.pread(len(_TITLE), 0)
    if title == _FORMER_TITLE:
        raise StateFileOutdated("an older version wrote it, in another format")
    if title != _TITLE:
        if title.startswith(_ANY_TITLE):
            raise StateFileUnusable(f"it is of another format, {title.decode('ascii', 'replace')!r}")
        raise StateFileUnusable("its title is wrong")
    tail = file.pread(_TAIL.size, max(size - _TAIL.size, 0))
    if len(tail) < _TAIL.size or not tail.endswith(_END_MARK):
        raise StateFileUnusable("its end mark is missing")
    footer_size, crc, _ = _TAIL.unpack(tail)
    footer_at = size - _TAIL.size - footer_size
    data = file.pread(footer_size, footer_at) if footer_at >= 0 else b""
    if len(data) != footer_size or crc32c(data) != crc:
        raise StateFileUnusable("the checksum of its footer is wrong")
    try:
        footer: dict[str, Any] = json.loads(data)
        byte_order, bond = footer["byte_order"], footer["bond"]
        bond["last_batch"] = tuple(bond["last_batch"])
        sections = [Section(*one) for one in footer["sections"]]
        found = StateFile(Bond(**bond), footer["contents"], sections, size, file)
    except (ValueError, LookupError, TypeError) as problem:
        raise StateFileUnusable(f"its footer is invalid: {problem}") from problem
    if byte_order != sys.byteorder:
        raise StateFileUnusable(f"it was written by a {byte_order}-endian machine")
    return found
