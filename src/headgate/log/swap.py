"""Replacing segments by compacted ones in one step that a crash cannot halve.

The new files stand aside, named like the old ones with `.cleaned` behind, whole and durable. Then one small
file, `headgate.compaction`, says which segments go and which come:

    headgate log compaction 1
    compacted_to 1200
    removed 0 300 700
    added 0
    crc32c 0x1f2e3d4c

From the moment it is durable the new ones count: this process, or the next start, renames and removes
until it is so, as often as it takes. Without it whatever stands aside is a leftover. When all is done the
file is written again with both lists empty. `compacted_to` stays: below it each key has one record at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.filesystem import FileSystem, read_file, replace_file, write_fully
from headgate.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

COMPACTION_NAME: Final = "headgate.compaction"
CLEANED_SUFFIX: Final = ".cleaned"
_ASIDE_NAME: Final = COMPACTION_NAME + ".tmp"
_TITLE: Final = "headgate log compaction 1"
_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)


@dataclass(slots=True, frozen=True)
class CompactionState:
    """How far a log is compacted, and the base offsets of the segments a swap under way removes and adds."""

    compacted_to: int = 0
    removed: tuple[int, ...] = ()
    added: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        """The contents of the file."""
        lines = [_TITLE, f"compacted_to {self.compacted_to}"]
        lines += (" ".join(["removed", *map(str, self.removed)]), " ".join(["added", *map(str, self.added)]))
        text = "".join(f"{line}\n" for line in lines)
        return f"{text}crc32c {crc32c(text.encode()):#010x}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> CompactionState | None:
        """The state these bytes are, or None: they must be exactly what `to_bytes` makes."""
        try:
            _, compacted_to, removed, added, _ = (line.split()[1:] for line in data.decode().splitlines())
            state = cls(int(compacted_to[0]), tuple(map(int, removed)), tuple(map(int, added)))
        except (ValueError, IndexError):
            return None
        return state if state.to_bytes() == data else None


def load_state(files: FileSystem, directory: Path) -> CompactionState:
    """What the file says; the default where there is none that can be trusted. Raises OSError."""
    try:
        data = read_file(files, directory / COMPACTION_NAME)
    except FileNotFoundError:
        return CompactionState()
    return CompactionState.from_bytes(data) or CompactionState()


def save_compacted_to(files: FileSystem, directory: Path, compacted_to: int) -> None:
    """Make it durable how far the log is compacted, with no swap under way. Raises OSError."""
    replace_file(files, directory / COMPACTION_NAME, CompactionState(compacted_to).to_bytes())


def prepare(files: FileSystem, directory: Path, state: CompactionState) -> None:
    """Put the file aside, durably, and the names of all that stands aside with it. In any thread; OSError."""
    file = files.open(directory / _ASIDE_NAME, create=True)
    try:
        file.truncate(0)
        write_fully(file, state.to_bytes(), 0)
        file.datasync()
    finally:
        file.close()
    files.sync_directory(directory)


def decide(files: FileSystem, directory: Path) -> None:
    """Let what was prepared count from here on. After an OSError it may count or not."""
    files.rename(directory / _ASIDE_NAME, directory / COMPACTION_NAME)
    files.sync_directory(directory)


def carry_out(files: FileSystem, directory: Path, state: CompactionState) -> None:
    """Rename and remove what was decided; doing it twice is doing it once. Raises OSError."""
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
    """What was decided is carried out, or revoked: make the names durable, then forget it. Raises OSError."""
    files.sync_directory(directory)
    save_compacted_to(files, directory, compacted_to)


def finish(files: FileSystem, directory: Path) -> int:
    """At a start: carry out what was decided before; how far the log is compacted. Raises OSError."""
    state = load_state(files, directory)
    if state.removed or state.added:
        # The decision may so far stand in the page cache alone; what follows from it must not come first.
        files.sync_directory(directory)
        carry_out(files, directory, state)
        settle(files, directory, state.compacted_to)
    return state.compacted_to


def discard(files: FileSystem, directory: Path) -> None:
    """Remove what stands aside, undecided. Raises OSError."""
    for name in files.listdir(directory):
        if name.endswith(CLEANED_SUFFIX) or name == _ASIDE_NAME:
            files.remove(directory / name)
