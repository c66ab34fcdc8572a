"""State of a partition besides its batches, in one small file: `headgate.checkpoint`.

    headgate log checkpoint 2
    log flights-0
    log_start_offset 1200
    recovery_point 56000
    crc32c 0x1f2e3d4c

The log start offset is the first readable offset; DeleteRecords and retention move it. Everything below the
recovery point is known to be complete and durable, so recovery starts there. The file is replaced atomically.
A file that cannot be read, or that belongs to another log, is therefore damage: the log does not open. The
first format had no log name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.filesystem import FileSystem, replace_file

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINT_NAME: Final = "headgate.checkpoint"
_TITLE: Final = "headgate log checkpoint 2"
_FIRST_TITLE: Final = "headgate log checkpoint 1"


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """The contents of the file."""

    log_start_offset: int = 0
    recovery_point: int = 0
    log: str = ""
    """Name of the log's directory; empty if the file has none."""

    def to_bytes(self) -> bytes:
        """Return the contents of the file."""
        title = f"{_TITLE}\nlog {self.log}" if self.log else _FIRST_TITLE
        text = f"{title}\nlog_start_offset {self.log_start_offset}\nrecovery_point {self.recovery_point}\n"
        return f"{text}crc32c {crc32c(text.encode()):#010x}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Checkpoint | None:
        """Return the checkpoint in `data`, or None: the bytes must be exactly those of `to_bytes`."""
        try:
            title, *lines, start, recovery, _ = data.decode().splitlines()
            log = lines[0].removeprefix("log ") if lines else ""
            checkpoint = cls(int(start.split()[1]), int(recovery.split()[1]), log)
        except (ValueError, IndexError):
            return None
        return checkpoint if title in (_TITLE, _FIRST_TITLE) and checkpoint.to_bytes() == data else None


def save_checkpoint(files: FileSystem, directory: Path, checkpoint: Checkpoint) -> None:
    """Replace the partition's checkpoint, durably. Raises OSError."""
    replace_file(files, directory / CHECKPOINT_NAME, checkpoint.to_bytes())
