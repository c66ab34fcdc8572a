"""What a partition knows beside its batches, in one small file: `headgate.checkpoint`.

    headgate log checkpoint 1
    log_start_offset 1200
    recovery_point 56000
    crc32c 0x1f2e3d4c

The log start offset is where readers may begin; DeleteRecords and retention move it. Below the recovery
point everything is known to be whole and durable, so recovery starts there. The file is replaced in one
step, and one that fails its checksum counts as absent: the log then starts at its first segment and is
scanned from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.filesystem import FileSystem, read_file, replace_file

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINT_NAME: Final = "headgate.checkpoint"
_TITLE: Final = "headgate log checkpoint 1"


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """The two offsets that outlive the process beside the batches."""

    log_start_offset: int = 0
    recovery_point: int = 0

    def to_bytes(self) -> bytes:
        """The contents of the file."""
        text = f"{_TITLE}\nlog_start_offset {self.log_start_offset}\nrecovery_point {self.recovery_point}\n"
        return f"{text}crc32c {crc32c(text.encode()):#010x}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Checkpoint | None:
        """The checkpoint these bytes are, or None: they must be exactly what `to_bytes` makes."""
        try:
            title, start, recovery, _ = data.decode().splitlines()
            checkpoint = cls(int(start.split()[1]), int(recovery.split()[1]))
        except (ValueError, IndexError):
            return None
        return checkpoint if title == _TITLE and checkpoint.to_bytes() == data else None


def load_checkpoint(files: FileSystem, directory: Path) -> Checkpoint:
    """The partition's checkpoint; the default where there is none that can be trusted."""
    try:
        data = read_file(files, directory / CHECKPOINT_NAME)
    except FileNotFoundError:
        return Checkpoint()
    return Checkpoint.from_bytes(data) or Checkpoint()


def save_checkpoint(files: FileSystem, directory: Path, checkpoint: Checkpoint) -> None:
    """Replace the partition's checkpoint, durably."""
    replace_file(files, directory / CHECKPOINT_NAME, checkpoint.to_bytes())
