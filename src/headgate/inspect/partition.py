"""One partition's directory: its segments, what stands beside them, where the log starts and ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headgate.inspect.reading import Break, LogFile, is_room, walk
from headgate.log.checkpoint import CHECKPOINT_NAME, Checkpoint
from headgate.log.header import HEADER_BYTES, read_header
from headgate.log.index import OffsetIndex
from headgate.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from headgate.log.swap import CLEANED_SUFFIX, COMPACTION_NAME, CompactionState
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.partition_files import LEADER_EPOCHS_FILE

NAME_DIGITS: Final = 20
_ANY_SIZE: Final = 1 << 62
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)


@dataclass(slots=True, frozen=True)
class SegmentFiles:
    """The files of one segment."""

    directory: Path
    base_offset: int
    is_decided: bool = False
    """Whether compaction decided for files that may still stand aside."""

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        """One of them."""
        path = self.directory / f"{self.base_offset:0{NAME_DIGITS}d}{suffix}"
        if self.is_decided and (aside := path.with_name(path.name + CLEANED_SUFFIX)).exists():
            return aside
        return path


def segment_file(name: str) -> tuple[int, str] | None:
    """Base offset and suffix of a file of a segment; None for another name."""
    stem, suffix = name[:NAME_DIGITS], name[NAME_DIGITS:]
    if suffix in SUFFIXES and stem.isascii() and stem.isdigit():
        return int(stem), suffix
    return None


@dataclass(slots=True)
class PartitionFiles:
    """What a partition's directory holds, as far as names and small files tell."""

    directory: Path
    names: list[str]
    segments: list[SegmentFiles]
    """Those that count, in order, once a decided compaction is carried out.

    A segment wholly below the log start is on its way out.
    """
    checkpoint: Checkpoint
    has_sound_checkpoint: bool
    """Whether there is none, or one that can be trusted."""
    compaction: CompactionState
    has_sound_compaction: bool
    """Whether there is no such file, or one that can be trusted."""
    doomed: list[SegmentFiles] = field(default_factory=list)

    @property
    def log_start_offset(self) -> int:
        """Where readers may begin."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(self.checkpoint.log_start_offset, first)


def read_partition(directory: Path) -> PartitionFiles:
    """Look at a partition's directory. Raises OSError."""
    names = sorted(entry.name for entry in directory.iterdir())
    checkpoint, is_sound = Checkpoint(), True
    if CHECKPOINT_NAME in names:
        read = Checkpoint.from_bytes((directory / CHECKPOINT_NAME).read_bytes())
        checkpoint, is_sound = read or checkpoint, read is not None
    compaction, is_sound_compaction = CompactionState(), True
    if COMPACTION_NAME in names:
        state = CompactionState.from_bytes((directory / COMPACTION_NAME).read_bytes())
        compaction, is_sound_compaction = state or compaction, state is not None
    found = {file[0] for name in names if (file := segment_file(name)) is not None and file[1] == LOG_SUFFIX}
    bases = sorted((found - set(compaction.removed)) | set(compaction.added))
    start = checkpoint.log_start_offset
    kept = [base for at, base in enumerate(bases) if at + 1 == len(bases) or bases[at + 1] > start]
    return PartitionFiles(
        directory=directory,
        names=names,
        segments=[SegmentFiles(directory, base, base in compaction.added) for base in kept],
        checkpoint=checkpoint,
        has_sound_checkpoint=is_sound,
        compaction=compaction,
        has_sound_compaction=is_sound_compaction,
        doomed=[SegmentFiles(directory, base) for base in bases if base not in kept],
    )


@dataclass(slots=True, frozen=True)
class Extent:
    """How far a log reaches, by the headers of its last segment. `stopped_at`: its tail is incomplete."""

    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    stopped_at: Break | None


def extent_of(files: PartitionFiles) -> Extent:
    """Where the log starts and ends, and its size. Raises OSError."""
    start = files.log_start_offset
    if not files.segments:
        return Extent(start, start, 0, None)
    size = sum(segment.path().stat().st_size for segment in files.segments[:-1])
    last = files.segments[-1]
    end, stopped_at = last.base_offset, None
    with LogFile(last.path()) as file:
        size += file.size
        for found in walk(file, _last_known_batch(last, file)):
            if isinstance(found, Break):
                if is_room(file, found):
                    size -= file.size - found.position
                else:
                    stopped_at = found
            else:
                end = found.header.next_offset
    return Extent(start, max(end, start), size, stopped_at)


def _last_known_batch(segment: SegmentFiles, file: LogFile) -> int:
    """The position of the last whole batch the offset index knows and the log confirms; 0 without one."""
    try:
        # Of a torn log the index may know more than is left, so its size is not held against it.
        index = OffsetIndex.from_bytes(segment.path(INDEX_SUFFIX).read_bytes(), _ANY_SIZE)
    except FileNotFoundError:
        return 0
    for offset, position in (
        zip(reversed(index.offsets), reversed(index.positions), strict=True) if index else ()
    ):
        head = file.read(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            continue
        header = read_header(head)
        if header.last_offset == segment.base_offset + offset and header.size <= file.size - position:
            return position
    return 0


def read_leader_epochs(directory: Path) -> tuple[LeaderEpochs | None, bool]:
    """The leader epochs of a partition, and whether there is a file of them; None: it does not read."""
    try:
        data = (directory / LEADER_EPOCHS_FILE).read_bytes()
    except FileNotFoundError:
        epochs = LeaderEpochs()
        epochs.begin(0, 0)
        return epochs, False
    decoded = LeaderEpochs.decode(data)
    return (decoded if decoded is not None and decoded.encode() == data else None), True
