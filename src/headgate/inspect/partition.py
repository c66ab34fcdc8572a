"""One partition's directory: its segments and other files, start and end of the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headgate.inspect.reading import Break, LogFile, is_room, read_start, walk
from headgate.log.checkpoint import CHECKPOINT_NAME, Checkpoint
from headgate.log.header import HEADER_BYTES, read_header
from headgate.log.index import OffsetIndex
from headgate.log.segment_file import DERIVED_SUFFIXES, INDEX_SUFFIX, LOG_SUFFIX
from headgate.log.swap import CLEANED_SUFFIX, COMPACTION_NAME, CompactionState
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.partition_files import LEADER_EPOCHS_FILE

NAME_DIGITS: Final = 20
_ANY_SIZE: Final = 1 << 62
SUFFIXES: Final = (LOG_SUFFIX, *DERIVED_SUFFIXES)


@dataclass(slots=True, frozen=True)
class SegmentFiles:
    """The files of one segment."""

    directory: Path
    base_offset: int
    is_decided: bool = False
    """Whether a decided compaction made these files, which can still have their temporary names."""

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        """Return the path of the file with this suffix."""
        path = self.directory / f"{self.base_offset:0{NAME_DIGITS}d}{suffix}"
        if self.is_decided and (aside := path.with_name(path.name + CLEANED_SUFFIX)).exists():
            return aside
        return path


def segment_file(name: str) -> tuple[int, str] | None:
    """Return base offset and suffix of a segment's file; None for another name."""
    stem, suffix = name[:NAME_DIGITS], name[NAME_DIGITS:]
    if suffix in SUFFIXES and stem.isascii() and stem.isdigit():
        return int(stem), suffix
    return None


@dataclass(slots=True)
class PartitionFiles:
    """The content of a partition's directory, according to names and small files."""

    directory: Path
    names: list[str]
    segments: list[SegmentFiles]
    """The segments of the log, in order, after a decided compaction is finished."""
    checkpoint: Checkpoint
    has_sound_checkpoint: bool
    """False if the checkpoint's file is damaged."""
    compaction: CompactionState
    has_sound_compaction: bool
    """False if the compaction's file is damaged."""
    doomed: list[SegmentFiles] = field(default_factory=list)
    """Segments wholly below the log start, which are being deleted."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers can fetch."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(self.checkpoint.log_start_offset, first)


def read_partition(directory: Path) -> PartitionFiles:
    """Read a partition's directory. Raises OSError."""
    names = sorted(entry.name for entry in directory.iterdir())
    checkpoint, is_sound = Checkpoint(), True
    if CHECKPOINT_NAME in names:
        read = Checkpoint.from_bytes(read_start(directory / CHECKPOINT_NAME))
        checkpoint, is_sound = read or checkpoint, read is not None
    compaction, is_sound_compaction = CompactionState(), True
    if COMPACTION_NAME in names:
        state = CompactionState.from_bytes(read_start(directory / COMPACTION_NAME))
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
    """Start, end and size of a log. `stopped_at` is set if its tail is incomplete."""

    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    stopped_at: Break | None


def extent_of(files: PartitionFiles) -> Extent:
    """Return start, end and size of a log. Raises OSError."""
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
    """Return the position of the last whole batch that index and log agree on; 0 without one."""
    try:
        # The index of a torn log can have entries past its end, so do not compare it with the log's size.
        index = OffsetIndex.from_bytes(read_start(segment.path(INDEX_SUFFIX)), _ANY_SIZE)
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
    """Return the leader epochs of a partition (None: malformed), and whether they have a file."""
    try:
        data = read_start(directory / LEADER_EPOCHS_FILE)
    except FileNotFoundError:
        epochs = LeaderEpochs()
        epochs.begin(0, 0)
        return epochs, False
    decoded = LeaderEpochs.decode(data)
    return (decoded if decoded is not None and decoded.encode() == data else None), True
