"""Replace segments by compacted ones atomically, also if a crash interrupts it.

The new files have the old names with the suffix `.cleaned`; they are complete and durable. Then one small
file, `headgate.compaction`, lists the segments to remove and to add:

    headgate log compaction 1
    compacted_to 1200
    removed 0 300 700
    added 0
    crc32c 0x1f2e3d4c

When it is durable the replacement is decided: this process, or the next start, renames and removes files
until it is complete, and may repeat that. Without it, files with the suffix are leftovers. At the end the
file is written again with empty lists. `compacted_to` stays: below it each key has at most one record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.filesystem import FileSystem, read_file, replace_file, write_fully
from headgate.log.segment_file import DERIVED_SUFFIXES, LOG_SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

COMPACTION_NAME: Final = "headgate.compaction"
CLEANED_SUFFIX: Final = ".cleaned"
_ASIDE_NAME: Final = COMPACTION_NAME + ".tmp"
_TITLE: Final = "headgate log compaction 1"
_SUFFIXES: Final = (*DERIVED_SUFFIXES, LOG_SUFFIX)


@dataclass(slots=True, frozen=True)
class CompactionState:
    """End of the compacted part of a log, and the base offsets of the segments to remove and to add, if
    any.
    """

    compacted_to: int = 0
    removed: tuple[int, ...] = ()
    added: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the contents of the file."""
        lines = [_TITLE, f"compacted_to {self.compacted_to}"]
        lines += (" ".join(["removed", *map(str, self.removed)]), " ".join(["added", *map(str, self.added)]))
        text = "".join(f"{line}\n" for line in lines)
        return f"{text}crc32c {crc32c(text.encode()):#010x}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> CompactionState | None:
        """Return the state in `data`, or None: the bytes must be exactly those of `to_bytes`."""
        try:
            _, compacted_to, removed, added, _ = (line.split()[1:] for line in data.decode().splitlines())
            state = cls(int(compacted_to[0]), tuple(map(int, removed)), tuple(map(int, added)))
        except (ValueError, IndexError):
            return None
        return state if state.to_bytes() == data else None


def load_state(files: FileSystem, directory: Path) -> CompactionState:
    """Return the state in the file; the default if it is missing or invalid. Raises OSError."""
    try:
        data = read_file(files, directory / COMPACTION_NAME)
    except FileNotFoundError:
        return CompactionState()
    return CompactionState.from_bytes(data) or CompactionState()


def save_compacted_to(files: FileSystem, directory: Path, compacted_to: int) -> None:
    """Record the end of the compacted part, durably, without a replacement. Raises OSError."""
    replace_file(files, directory / COMPACTION_NAME, CompactionState(compacted_to).to_bytes())


def prepare(files: FileSystem, directory: Path, state: CompactionState) -> None:
    """Write the file under its temporary name, and make all temporary names durable. For any thread; raises
    OSError.
    """
    file = files.open(directory / _ASIDE_NAME, create=True)
    try:
        file.truncate(0)
        write_fully(file, state.to_bytes(), 0)
        file.datasync()
    finally:
        file.close()
    files.sync_directory(directory)


def decide(files: FileSystem, directory: Path) -> None:
    """Make the prepared replacement effective. After an OSError it may be effective or not."""
    files.rename(directory / _ASIDE_NAME, directory / COMPACTION_NAME)
    files.sync_directory(directory)


def carry_out(files: FileSystem, directory: Path, state: CompactionState) -> None:
    """Rename and remove the files of a decided replacement; idempotent. Raises OSError."""
    for base_offset in state.added:
        for suffix in _SUFFIXES:
            path = directory / f"{base_offset:020d}{suffix}"
            aside = path.with_name(path.name + CLEANED_SUFFIX)
            if files.exists(aside):
                files.rename(aside, path)
    for base_offset in state.removed:
        if base_offset not in state.added:
            for suffix in _SUFFIXES:
                path = directory / f"{base_offset:020d}{suffix}"
                if files.exists(path):
                    files.remove(path)


def settle(files: FileSystem, directory: Path, compacted_to: int) -> None:
    """Make the names durable after a replacement was carried out or revoked, then end it. Raises OSError."""
    files.sync_directory(directory)
    save_compacted_to(files, directory, compacted_to)


def finish(files: FileSystem, directory: Path) -> int:
    """At a start, carry out a decided replacement; return the end of the compacted part. Raises OSError."""
    state = load_state(files, directory)
    if state.removed or state.added:
        # The decision may be in the page cache only; make it durable before its consequences.
        files.sync_directory(directory)
        carry_out(files, directory, state)
        settle(files, directory, state.compacted_to)
    return state.compacted_to


def discard(files: FileSystem, directory: Path) -> None:
    """Remove the files of an undecided replacement. Raises OSError."""
    for name in files.listdir(directory):
        if name.endswith(CLEANED_SUFFIX) or name == _ASIDE_NAME:
            files.remove(directory / name)
