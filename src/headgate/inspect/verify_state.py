"""The check of a coordinator's checkpoint: whether it is undamaged, and whether a start would use it."""

from __future__ import annotations

from headgate.inspect.directory import PartitionPlace
from headgate.inspect.findings import Findings
from headgate.inspect.partition import PartitionFiles
from headgate.inspect.reading import FoundBatch, LogFile, walk
from headgate.log.state_file import (
    STATE_NAME,
    Bond,
    StateFileOutdated,
    StateFileUnusable,
    read_state_file,
)

_NOT_USED = "Nothing: the next start reads the whole log instead."
_REMOVE = "Remove it: the next start reads its content from the log."


class _AsFile:
    """A file opened for reading, with the interface that the reader of checkpoints needs."""

    def __init__(self, file: LogFile) -> None:
        self._file = file

    def pread(self, size: int, position: int) -> bytes:
        return self._file.read(size, position)

    def size(self) -> int:
        return self._file.size

    def close(self) -> None:
        """Do nothing: the caller closes the file."""


def check_state_file(
    files: PartitionFiles, place: PartitionPlace, end_offset: int, findings: Findings
) -> None:
    """Check all checksums, then whether it belongs to a log that ends at `end_offset`. Raises OSError."""
    name = f"{files.directory.name}/{STATE_NAME}"
    try:
        with LogFile(files.directory / STATE_NAME) as file:
            state = read_state_file(_AsFile(file))
            for section in state.sections:
                state.read(section)
    except FileNotFoundError:
        return
    except OSError as problem:
        findings.error(
            name,
            f"it cannot be read: {problem.strerror}",
            "The server reads the whole log instead. Check the permissions, and the disk.",
        )
        return
    except StateFileOutdated as problem:
        findings.note(name, str(problem), _NOT_USED)
        return
    except StateFileUnusable as problem:
        findings.error(name, str(problem), _REMOVE)
        return
    reason = _why_not(state.bond, files, place, end_offset)
    if reason is not None:
        findings.note(name, reason, _NOT_USED)


def _why_not(bond: Bond, files: PartitionFiles, place: PartitionPlace, end_offset: int) -> str | None:
    """Return why a start would not use the checkpoint, like `headgate.log.state_file.why_not`."""
    if place.entry is not None and bond.topic_id != place.entry.topic_id.hex():
        return f"it belongs to a topic with the id {bond.topic_id}"
    if bond.partition != place.index:
        return f"it belongs to partition {bond.partition}"
    if bond.log_start_offset != files.log_start_offset:
        return f"the log starts at {files.log_start_offset} now, not at {bond.log_start_offset}"
    if files.compaction.compacted_to > bond.position:
        return f"the log is compacted to {files.compaction.compacted_to}, past its position {bond.position}"
    if end_offset < bond.end_offset:
        return f"the log ends at {end_offset}, but the checkpoint at {bond.end_offset}"
    if _batch_that_ends(files, bond.end_offset) != bond.last_batch:
        return f"the batch that ends at {bond.end_offset} is another one than when the checkpoint was written"
    return None


def _batch_that_ends(files: PartitionFiles, offset: int) -> tuple[int, int, int] | None:
    holding = [segment for segment in files.segments if segment.base_offset < offset]
    if not holding:
        return None
    with LogFile(holding[-1].path()) as file:
        for found in walk(file):
            if isinstance(found, FoundBatch) and found.header.next_offset == offset:
                return found.header.base_offset, found.header.size, found.header.crc
    return None
